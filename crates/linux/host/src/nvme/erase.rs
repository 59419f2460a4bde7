//! Erasing a drive: Format NVM and Sanitize.

use super::command::{ALL, Command, Drive};
use super::identify::{double, word};
use super::{Controller, Namespace, NvmeError};
use crate::Patience;
use std::os::fd::AsFd;

const FORMAT: u8 = 0x80;
const SANITIZE: u8 = 0x84;
const GET_LOG: u8 = 0x02;
const SANITIZE_LOG: u32 = 0x81;
const LOG_BYTES: usize = 512;
/// A format may take hours: a day.
const FORMAT_MS: u32 = 86_400_000;
/// Time between two looks at a sanitize operation.
const LOOK_MS: u64 = 1000;
/// Number of looks after which a drive that does not answer is given up.
const LOOKS_MAX: u32 = 120;

/// How a format erases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatErase {
    /// The user data.
    Data,
    /// The key with which it is encrypted.
    Key,
}

/// How a sanitize operation erases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SanitizeAction {
    /// The key with which all data is encrypted.
    Key,
    /// All blocks of the flash.
    Blocks,
    /// All blocks are overwritten with zeros.
    Overwrite,
}

/// The state of sanitize operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SanitizeState {
    /// There was none.
    Never,
    /// One is in progress: its share in 65,536ths.
    Running(u16),
    /// The last one has ended well.
    Done,
    /// The last one has failed.
    Failed,
    /// A state that the standard does not have.
    Unknown,
}

/// The reason why a sanitize operation has not ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SanitizeError {
    /// A command has failed.
    Command(NvmeError),
    /// The drive does not have this operation.
    Missing,
    /// The drive reports that it has failed.
    Failed,
    /// The drive has accepted it, and reports that there was none.
    NotBegun,
}

impl std::fmt::Display for SanitizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SanitizeError::Command(error) => write!(f, "{error}"),
            SanitizeError::Missing => f.write_str("the drive does not have this operation"),
            SanitizeError::Failed => f.write_str(
                "the drive reports that it has failed; it takes no other commands until a \
                 sanitize operation succeeds: repeat it",
            ),
            SanitizeError::NotBegun => f.write_str("the drive has not begun"),
        }
    }
}

impl std::error::Error for SanitizeError {}

/// Erases a namespace by a format that keeps its block size. Returns when it has ended.
///
/// # Errors
/// The drive or the system refuses it.
pub fn format(
    device: &impl AsFd,
    namespace: &Namespace,
    erase: FormatErase,
) -> Result<(), NvmeError> {
    let command = Command {
        opcode: FORMAT,
        namespace: namespace.id,
        words_10: [format_word(namespace, erase), 0, 0, 0, 0, 0],
        timeout_ms: FORMAT_MS,
        ..Command::default()
    };
    device.run(command, &mut [])
}

/// Returns command word 10 of a format that changes nothing but the data.
fn format_word(namespace: &Namespace, erase: FormatErase) -> u32 {
    let erase = match erase {
        FormatErase::Data => 1,
        FormatErase::Key => 2,
    };
    namespace.format & 0xf
        | u32::from(namespace.has_extended_blocks) << 4
        | (namespace.protection & 0b111) << 5
        | (namespace.protection >> 3 & 1) << 8
        | erase << 9
        | (namespace.format >> 4 & 0b11) << 12
}

/// Erases a drive by a sanitize operation, which continues on the drive, also after a power cut.
/// Returns when it has ended. `progress` receives the completed share.
///
/// # Errors
/// The drive does not have the operation or refuses it, it fails, or the drive does not answer any
/// more.
pub fn sanitize(
    device: &impl AsFd,
    controller: &Controller,
    action: SanitizeAction,
    progress: &mut dyn FnMut(f64),
) -> Result<(), SanitizeError> {
    sanitize_with(device, controller, action, progress, &|| Patience::new(LOOK_MS).wait())
}

fn sanitize_with(
    drive: &impl Drive,
    controller: &Controller,
    action: SanitizeAction,
    progress: &mut dyn FnMut(f64),
    pause: &dyn Fn(),
) -> Result<(), SanitizeError> {
    let [key, blocks, overwrite] = controller.sanitizes;
    let (is_there, word) = match action {
        SanitizeAction::Blocks => (blocks, 0b010),
        // One pass of overwriting.
        SanitizeAction::Overwrite => (overwrite, 0b011 | 1 << 4),
        SanitizeAction::Key => (key, 0b100),
    };
    if !is_there {
        return Err(SanitizeError::Missing);
    }
    let words_10 = [word, 0, 0, 0, 0, 0];
    let command = Command { opcode: SANITIZE, words_10, ..Command::default() };
    drive.run(command, &mut []).map_err(SanitizeError::Command)?;
    let mut looks = 0;
    loop {
        pause();
        looks += 1;
        match state(drive) {
            Ok(SanitizeState::Running(share)) => {
                looks = 0;
                progress(f64::from(share) / 65_536.0);
            }
            Ok(SanitizeState::Done) => return Ok(()),
            Ok(SanitizeState::Failed) => return Err(SanitizeError::Failed),
            Ok(SanitizeState::Never) => return Err(SanitizeError::NotBegun),
            // Its power was cut or it was reset, and it may answer again.
            Err(error) if looks == LOOKS_MAX => return Err(SanitizeError::Command(error)),
            Ok(SanitizeState::Unknown) if looks == LOOKS_MAX => return Err(SanitizeError::Failed),
            Ok(SanitizeState::Unknown) | Err(_) => {}
        }
    }
}

/// Returns the state of sanitize operations.
///
/// # Errors
/// The drive has no such log.
pub fn sanitize_state(device: &impl AsFd) -> Result<SanitizeState, NvmeError> {
    state(device)
}

fn state(drive: &impl Drive) -> Result<SanitizeState, NvmeError> {
    let mut log = vec![0; LOG_BYTES];
    let words = LOG_BYTES as u32 / 4 - 1;
    let words_10 = [SANITIZE_LOG | words << 16, 0, 0, 0, 0, 0];
    drive.run(
        Command { opcode: GET_LOG, namespace: ALL, words_10, ..Command::default() },
        &mut log,
    )?;
    Ok(state_of(&log))
}

fn state_of(log: &[u8]) -> SanitizeState {
    match double(log, 0) >> 16 & 0b111 {
        0 => SanitizeState::Never,
        // With and without a release of all blocks.
        1 | 4 => SanitizeState::Done,
        2 => SanitizeState::Running(word(log, 0) as u16),
        3 => SanitizeState::Failed,
        _ => SanitizeState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;

    #[test]
    fn a_format_keeps_block_size_and_protection() {
        let namespace =
            Namespace { id: 1, format: 0b10_0011, protection: 0b1010, has_extended_blocks: true };
        assert_eq!(format_word(&namespace, FormatErase::Data), 0b10_0011_0101_0011);
        assert_eq!(format_word(&Namespace::default(), FormatErase::Key), 0b010 << 9);
    }

    #[test]
    fn states_are_read_from_the_log() {
        let state = |progress: u16, status: u16| {
            let mut log = vec![0; LOG_BYTES];
            log[..2].copy_from_slice(&progress.to_le_bytes());
            log[2..4].copy_from_slice(&status.to_le_bytes());
            state_of(&log)
        };
        assert_eq!(state(0xffff, 0), SanitizeState::Never);
        assert_eq!(state(0x8000, 2), SanitizeState::Running(0x8000));
        assert_eq!(state(0xffff, 0x101), SanitizeState::Done);
        assert_eq!(state(0xffff, 4), SanitizeState::Done);
        assert_eq!(state(0xffff, 3), SanitizeState::Failed);
        assert_eq!(state(0xffff, 6), SanitizeState::Unknown);
    }

    /// A simulated drive. No emulator that the tests use has the command.
    struct Simulated {
        /// The answers to the log: progress and status, or an error. The last is repeated.
        logs: RefCell<VecDeque<Result<(u16, u16), NvmeError>>>,
        /// The answer to the command.
        answer: Result<(), NvmeError>,
        /// Command word 10 of all sanitize commands.
        begun: RefCell<Vec<u32>>,
    }

    impl Drive for Simulated {
        fn run(&self, command: Command, data: &mut [u8]) -> Result<(), NvmeError> {
            match command.opcode {
                SANITIZE => {
                    assert_eq!((command.namespace, data.len()), (0, 0));
                    self.begun.borrow_mut().push(command.words_10[0]);
                    self.answer
                }
                GET_LOG => {
                    assert_eq!((command.namespace, data.len()), (ALL, 512));
                    assert_eq!(command.words_10[0], 0x81 | 127 << 16);
                    let mut logs = self.logs.borrow_mut();
                    let log = if logs.len() > 1 { logs.pop_front() } else { logs.front().copied() };
                    let (progress, status) = log.expect("an answer")?;
                    data[..2].copy_from_slice(&progress.to_le_bytes());
                    data[2..4].copy_from_slice(&status.to_le_bytes());
                    Ok(())
                }
                opcode => panic!("{opcode:#x}"),
            }
        }

        fn namespace_id(&self) -> Result<u32, NvmeError> {
            Ok(1)
        }
    }

    type Log = Result<(u16, u16), NvmeError>;

    fn simulated(logs: &[Log]) -> Simulated {
        let logs = RefCell::new(logs.iter().copied().collect());
        Simulated { logs, answer: Ok(()), begun: RefCell::default() }
    }

    fn sanitized(
        drive: &Simulated,
        has: [bool; 3],
        action: SanitizeAction,
    ) -> (Result<(), SanitizeError>, Vec<f64>) {
        let controller = Controller { sanitizes: has, ..Controller::default() };
        let mut shares = Vec::new();
        let mut progress = |share| shares.push(share);
        let done = sanitize_with(drive, &controller, action, &mut progress, &|| {});
        (done, shares)
    }

    #[test]
    fn a_sanitize_operation_is_begun_and_followed_to_its_end() {
        for (action, word) in [
            (SanitizeAction::Blocks, 2),
            (SanitizeAction::Overwrite, 0x13),
            (SanitizeAction::Key, 4),
        ] {
            let drive = simulated(&[Ok((0, 2)), Ok((0x8000, 2)), Ok((0xffff, 0x101))]);
            assert_eq!(sanitized(&drive, [true; 3], action), (Ok(()), vec![0.0, 0.5]));
            assert_eq!(*drive.begun.borrow(), [word]);
        }
    }

    #[test]
    fn an_operation_that_the_drive_does_not_report_is_not_sent() {
        for (at, action) in [SanitizeAction::Key, SanitizeAction::Blocks, SanitizeAction::Overwrite]
            .into_iter()
            .enumerate()
        {
            let mut has = [true; 3];
            has[at] = false;
            let drive = simulated(&[Ok((0xffff, 1))]);
            assert_eq!(sanitized(&drive, has, action).0, Err(SanitizeError::Missing));
            assert_eq!(drive.begun.borrow().len(), 0);
        }
    }

    #[test]
    fn a_drive_that_refuses_fails_or_never_begins_has_not_been_sanitized() {
        let refused = NvmeError::Drive(0x4002);
        let drive = Simulated { answer: Err(refused), ..simulated(&[Ok((0xffff, 1))]) };
        let (done, _) = sanitized(&drive, [true; 3], SanitizeAction::Blocks);
        assert_eq!(done, Err(SanitizeError::Command(refused)));
        for (logs, error) in [
            (vec![Ok((0, 2)), Ok((0xffff, 3))], SanitizeError::Failed),
            (vec![Ok((0xffff, 0))], SanitizeError::NotBegun),
            // It reports nonsense for ever.
            (vec![Ok((0xffff, 7))], SanitizeError::Failed),
            (vec![Err(refused)], SanitizeError::Command(refused)),
        ] {
            let drive = simulated(&logs);
            assert_eq!(sanitized(&drive, [true; 3], SanitizeAction::Blocks).0, Err(error));
        }
    }

    #[test]
    fn a_drive_whose_power_was_cut_is_followed_when_it_answers_again() {
        let gone: Log = Err(NvmeError::System(rustix::io::Errno::NODEV));
        let logs = [Ok((0x4000, 2)), gone, gone, Ok((0x8000, 2)), Ok((0xffff, 1))];
        let drive = simulated(&logs);
        let found = sanitized(&drive, [true; 3], SanitizeAction::Blocks);
        assert_eq!(found, (Ok(()), vec![0.25, 0.5]));
    }

    proptest! {
        #[test]
        fn no_log_ends_the_program(log in prop::collection::vec(any::<u8>(), LOG_BYTES)) {
            if let SanitizeState::Running(share) = state_of(&log) {
                prop_assert_eq!(share.to_le_bytes(), [log[0], log[1]]);
            }
        }
    }
}
