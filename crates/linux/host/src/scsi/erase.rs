//! Erasing a drive: FORMAT UNIT and SANITIZE, and the progress of both.

use super::command::{Data, Drive, ScsiError};
use super::sense::{self, Sense, State};
use crate::nvme::SanitizeAction;
use crate::{Erasing, Patience};
use std::os::fd::AsFd;

const TEST_UNIT_READY: u8 = 0x00;
const REQUEST_SENSE: u8 = 0x03;
const FORMAT_UNIT: u8 = 0x04;
const SANITIZE: u8 = 0x48;
/// SERVICE ACTION IN(16), with the action READ CAPACITY(16).
const ACTION_IN: u8 = 0x9e;
const READ_CAPACITY: u8 = 0x10;
/// MAINTENANCE IN, with the action REPORT SUPPORTED OPERATION CODES.
const MAINTENANCE_IN: u8 = 0xa3;
const SUPPORTED_CODES: u8 = 0x0c;

/// Service actions of SANITIZE.
const OVERWRITE: u8 = 1;
const BLOCK_ERASE: u8 = 2;
const CRYPTO_ERASE: u8 = 3;
/// The drive answers SANITIZE and FORMAT UNIT at once, and works on.
const IMMEDIATELY: u8 = 0x80;

/// Time limit of a command that the drive answers at once.
const SHORT_MS: u32 = 60_000;
/// Time between two looks at the progress.
const LOOK_MS: u64 = 1000;
/// Number of looks after which a drive that is not ready, or does not answer, is given up.
const LOOKS_MAX: u32 = 120;

/// A method by which a SCSI drive erases itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScsiErase {
    /// FORMAT UNIT: it initializes all blocks.
    Format,
    /// SANITIZE.
    Sanitize(SanitizeAction),
}

/// The methods that a drive reports to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abilities {
    /// Whether sanitize can erase by key, by block, and by overwriting.
    pub sanitizes: [bool; 3],
    /// Whether it has the command FORMAT UNIT.
    pub can_format: bool,
    /// Whether one of these commands affects further logical units of the drive.
    pub affects_others: bool,
}

/// Returns the methods that a drive reports to have; none if it does not report its commands.
///
/// # Errors
/// The device takes no SCSI commands, or the drive does not answer.
pub fn abilities(device: &impl AsFd) -> Result<Abilities, ScsiError> {
    abilities_of(device)
}

pub(super) fn abilities_of(drive: &impl Drive) -> Result<Abilities, ScsiError> {
    let format = support(drive, FORMAT_UNIT, None)?;
    let sanitize = |action| support(drive, SANITIZE, Some(action));
    let sanitizes = [sanitize(CRYPTO_ERASE)?, sanitize(BLOCK_ERASE)?, sanitize(OVERWRITE)?];
    let all = sanitizes.iter().chain([&format]);
    Ok(Abilities {
        sanitizes: sanitizes.map(|support| support.is_there),
        can_format: format.is_there,
        affects_others: all.into_iter().any(|support| support.affects_others),
    })
}

/// The drive's description of a command.
#[derive(Clone, Copy, Default)]
struct Support {
    is_there: bool,
    affects_others: bool,
}

/// Requests a drive's description of a command; of an action of it if there is one.
fn support(drive: &impl Drive, code: u8, action: Option<u8>) -> Result<Support, ScsiError> {
    let (options, action) = action.map_or((0b001, 0), |action| (0b010, action));
    let mut data = [0; 64];
    let length = data.len() as u8;
    let command =
        [MAINTENANCE_IN, SUPPORTED_CODES, options, code, 0, action, 0, 0, 0, length, 0, 0];
    match drive.run(&command, Data::FromDrive(&mut data), SHORT_MS) {
        Ok(4..) => {
            let is_there = matches!(data[1] & 0b111, 0b011 | 0b101);
            // MLU: more than one logical unit, or all of them.
            Ok(Support { is_there, affects_others: is_there && data[1] >> 5 & 0b11 >= 2 })
        }
        Ok(_) => Ok(Support::default()),
        Err(error) if error.is_refused() => Ok(Support::default()),
        Err(error) => Err(error),
    }
}

/// Returns whether a drive is erasing itself.
///
/// # Errors
/// The device takes no SCSI commands, or the drive does not answer.
pub fn erasing(device: &impl AsFd) -> Result<Erasing, ScsiError> {
    let (state, _) = look(device)?;
    Ok(match state {
        State::Running(share) => Erasing::Running(share.map(share_of)),
        State::Failed => Erasing::Failed,
        State::Idle | State::Unknown => Erasing::No,
    })
}

/// Erases a drive. Returns when the drive reports the end. `progress` receives the completed share.
///
/// # Errors
/// The drive refuses it, or reports that it has failed, or does not answer any more.
pub fn erase(
    device: &impl AsFd,
    method: ScsiErase,
    progress: &mut dyn FnMut(f64),
) -> Result<(), ScsiError> {
    erase_with(device, method, progress, &|| Patience::new(LOOK_MS).wait())
}

pub(super) fn erase_with(
    drive: &impl Drive,
    method: ScsiErase,
    progress: &mut dyn FnMut(f64),
    pause: &dyn Fn(),
) -> Result<(), ScsiError> {
    match method {
        ScsiErase::Format => begin_format(drive)?,
        ScsiErase::Sanitize(action) => begin_sanitize(drive, action)?,
    }
    wait(drive, progress, pause)
}

fn begin_sanitize(drive: &impl Drive, action: SanitizeAction) -> Result<(), ScsiError> {
    let action = match action {
        SanitizeAction::Key => CRYPTO_ERASE,
        SanitizeAction::Blocks => BLOCK_ERASE,
        SanitizeAction::Overwrite => OVERWRITE,
    };
    // One pass with a pattern of four bytes of zero.
    let pattern = [1, 0, 0, 4, 0, 0, 0, 0];
    let list = if action == OVERWRITE { &pattern[..] } else { &[] };
    let command = [SANITIZE, IMMEDIATELY | action, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    begin(drive, &command, list)
}

/// Formats a drive with its present block size and protection. The drive writes its pattern to all
/// blocks; a drive without that option formats as it does by default.
fn begin_format(drive: &impl Drive) -> Result<(), ScsiError> {
    let (fields, usage) = protection(drive)?;
    // With a list of parameters, and without a list of defects.
    let command = [FORMAT_UNIT, fields << 6 | 0x10, 0, 0, 0, 0];
    const OPTIONS_ARE_VALID: u8 = 0x80;
    const HAS_PATTERN: u8 = 0x08;
    const IMMEDIATELY: u8 = 0x02;
    let with_pattern = [usage, OPTIONS_ARE_VALID | HAS_PATTERN | IMMEDIATELY, 0, 0, 0, 0, 0, 0];
    match begin(drive, &command, &with_pattern) {
        Err(error) if error.is_refused() => begin(drive, &command, &[usage, IMMEDIATELY, 0, 0]),
        begun => begun,
    }
}

/// Returns a drive's present protection information, in the fields of FORMAT UNIT: FMTPINFO, and
/// PROTECTION FIELD USAGE.
fn protection(drive: &impl Drive) -> Result<(u8, u8), ScsiError> {
    let mut data = [0; 32];
    let mut command = [0; 16];
    (command[0], command[1], command[13]) = (ACTION_IN, READ_CAPACITY, data.len() as u8);
    match drive.run(&command, Data::FromDrive(&mut data), SHORT_MS) {
        Err(error) if error.is_refused() => Ok((0, 0)),
        Err(error) => Err(error),
        Ok(13..) if data[12] & 1 == 1 => Ok(match data[12] >> 1 & 0b111 {
            0 => (0b10, 0),
            1 => (0b11, 0),
            _ => (0b11, 1),
        }),
        Ok(_) => Ok((0, 0)),
    }
}

/// Sends a command that begins an operation. A drive that reports an event instead receives it
/// again.
fn begin(drive: &impl Drive, command: &[u8], list: &[u8]) -> Result<(), ScsiError> {
    let send = || {
        let data = if list.is_empty() { Data::Nothing } else { Data::ToDrive(list) };
        drive.run(command, data, SHORT_MS).map(drop)
    };
    match send() {
        Err(ScsiError::Sense(sense)) if sense.is_event() => send(),
        begun => begun,
    }
}

/// Waits until the drive reports that nothing is in progress, and that it is ready.
fn wait(
    drive: &impl Drive,
    progress: &mut dyn FnMut(f64),
    pause: &dyn Fn(),
) -> Result<(), ScsiError> {
    let mut looks = 0;
    loop {
        pause();
        let unready = match look(drive) {
            Ok((State::Idle, _)) => return Ok(()),
            Ok((State::Running(share), _)) => {
                looks = 0;
                share.into_iter().for_each(|share| progress(share_of(share)));
                continue;
            }
            Ok((State::Failed, sense)) => return Err(ScsiError::Sense(sense)),
            // It starts again after a reset, or its power was cut.
            Ok((State::Unknown, sense)) => ScsiError::Sense(sense),
            Err(error) => error,
        };
        looks += 1;
        if looks == LOOKS_MAX {
            return Err(unready);
        }
    }
}

fn share_of(progress: u16) -> f64 {
    f64::from(progress) / 65_536.0
}

/// Requests a drive's state. A drive with nothing to report is tested for readiness.
fn look(drive: &impl Drive) -> Result<(State, Sense), ScsiError> {
    let mut data = [0; 252];
    let command = [REQUEST_SENSE, 0, 0, 0, data.len() as u8, 0];
    let found = match drive.run(&command, Data::FromDrive(&mut data), SHORT_MS) {
        Ok(length) => sense::parse(&data[..length.min(data.len())]).unwrap_or_default(),
        // Some answer with the state itself.
        Err(ScsiError::Sense(sense)) => sense,
        Err(error) => return Err(error),
    };
    if found.state() != State::Idle {
        return Ok((found.state(), found));
    }
    match drive.run(&[TEST_UNIT_READY, 0, 0, 0, 0, 0], Data::Nothing, SHORT_MS) {
        Ok(_) => Ok((State::Idle, found)),
        Err(ScsiError::Sense(sense)) => Ok((sense.state(), sense)),
        Err(error) => Err(error),
    }
}
