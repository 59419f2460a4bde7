//! Erasing against a simulated drive, whose answers a test chooses.

use super::command::{Data, Drive, ScsiError};
use super::erase::{Abilities, ScsiErase, abilities_of, erase_with};
use super::sense::Sense;
use crate::nvme::SanitizeAction;
use proptest::prelude::*;
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::VecDeque;

/// The operation of a simulated drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Format,
    Sanitize,
}

/// A simulated drive.
#[derive(Default)]
struct Simulated {
    /// Service actions of SANITIZE that it has, and whether it has FORMAT UNIT.
    sanitizes: Vec<u8>,
    has_format: bool,
    /// Whether it has REPORT SUPPORTED OPERATION CODES.
    reports: bool,
    /// Whether it accepts a pattern for FORMAT UNIT.
    has_pattern: bool,
    /// The bits for its logical units in each description.
    units: u8,
    /// Byte 12 of READ CAPACITY(16).
    protection: u8,
    /// The states that it reports after an operation has begun, before it is ready again.
    states: RefCell<VecDeque<Result<Sense, ScsiError>>>,
    /// All commands that change it, with their lists.
    begun: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The event that it reports once, in place of the answer to such a command.
    event: RefCell<Option<Sense>>,
}

const REFUSED: Sense = Sense { key: 5, code: 0x20, qualifier: 0, progress: None };
const FIELD: Sense = Sense { key: 5, code: 0x26, qualifier: 0, progress: None };
const RESET: Sense = Sense { key: 6, code: 0x29, qualifier: 1, progress: None };

fn running(operation: Operation, progress: Option<u16>) -> Sense {
    let qualifier = if operation == Operation::Format { 4 } else { 0x1b };
    Sense { key: 2, code: 4, qualifier, progress }
}

fn failed(operation: Operation) -> Sense {
    let qualifier = if operation == Operation::Format { 1 } else { 3 };
    Sense { key: 3, code: 0x31, qualifier, progress: None }
}

/// Returns sense data in the fixed format.
fn fixed(sense: Sense) -> [u8; 18] {
    let mut bytes = [0; 18];
    (bytes[0], bytes[2], bytes[7]) = (0x70, sense.key, 10);
    (bytes[12], bytes[13]) = (sense.code, sense.qualifier);
    if let Some(progress) = sense.progress {
        bytes[15] = 0x80;
        bytes[16..].copy_from_slice(&progress.to_be_bytes());
    }
    bytes
}

fn fill(data: Data<'_>, bytes: &[u8]) -> usize {
    let Data::FromDrive(data) = data else { panic!("no data is expected") };
    let length = bytes.len().min(data.len());
    data[..length].copy_from_slice(&bytes[..length]);
    length
}

impl Simulated {
    fn describe(&self, command: &[u8], data: Data<'_>) -> Result<usize, ScsiError> {
        if !self.reports {
            return Err(ScsiError::Sense(REFUSED));
        }
        let is_there = match command[3] {
            0x04 => self.has_format,
            0x48 => self.sanitizes.contains(&command[5]),
            code => panic!("{code:#x}"),
        };
        let support = if is_there { 0b011 } else { 0b001 };
        Ok(fill(data, &[0, support | self.units << 5, 0, 10]))
    }

    fn begin(&self, command: &[u8], list: &[u8]) -> Result<usize, ScsiError> {
        if let Some(event) = self.event.take() {
            return Err(ScsiError::Sense(event));
        }
        self.begun.borrow_mut().push((command.to_vec(), list.to_vec()));
        let is_there = match command[0] {
            0x04 => self.has_format,
            _ => self.sanitizes.contains(&(command[1] & 0x1f)),
        };
        match is_there {
            false => Err(ScsiError::Sense(REFUSED)),
            true if command[0] == 4 && list.len() > 4 && !self.has_pattern => {
                Err(ScsiError::Sense(FIELD))
            }
            true => Ok(0),
        }
    }
}

impl Drive for Simulated {
    fn run(&self, command: &[u8], data: Data<'_>, _: u32) -> Result<usize, ScsiError> {
        match (command[0], data) {
            (0xa3, data) => self.describe(command, data),
            (0x9e, data) => {
                let mut capacity = [0; 32];
                capacity[12] = self.protection;
                Ok(fill(data, &capacity))
            }
            (0x04 | 0x48, Data::ToDrive(list)) => self.begin(command, list),
            (0x04 | 0x48, _) => self.begin(command, &[]),
            (0x03, data) => match self.states.borrow_mut().pop_front() {
                Some(Ok(sense)) => Ok(fill(data, &fixed(sense))),
                Some(Err(error)) => Err(error),
                None => Ok(fill(data, &fixed(Sense::default()))),
            },
            (0x00, _) => Ok(0),
            (code, _) => panic!("{code:#x}"),
        }
    }
}

fn drive(states: &[Result<Sense, ScsiError>]) -> Simulated {
    Simulated {
        sanitizes: vec![1, 2, 3],
        has_format: true,
        reports: true,
        has_pattern: true,
        states: RefCell::new(states.iter().copied().collect()),
        ..Simulated::default()
    }
}

fn erase(drive: &Simulated, method: ScsiErase) -> (Result<(), ScsiError>, Vec<f64>) {
    let mut shares = Vec::new();
    let done = erase_with(drive, method, &mut |share| shares.push(share), &|| {});
    (done, shares)
}

const BLOCKS: ScsiErase = ScsiErase::Sanitize(SanitizeAction::Blocks);

#[test]
fn a_drives_methods_are_those_that_it_describes() {
    let all = abilities_of(&drive(&[])).expect("it answers");
    assert_eq!(all, Abilities { sanitizes: [true; 3], can_format: true, affects_others: false });
    let disk = Simulated { sanitizes: vec![1], ..drive(&[]) };
    let disk = abilities_of(&disk).expect("it answers");
    assert_eq!(disk.sanitizes, [false, false, true]);
    let silent = Simulated { reports: false, ..drive(&[]) };
    assert_eq!(abilities_of(&silent), Ok(Abilities::default()));
    // Two actuators, each a logical unit, one format for both.
    let double = Simulated { units: 3, ..drive(&[]) };
    assert!(abilities_of(&double).is_ok_and(|all| all.affects_others));
    let single = Simulated { units: 1, ..drive(&[]) };
    assert!(abilities_of(&single).is_ok_and(|all| !all.affects_others));
}

#[test]
fn commands_are_those_of_the_standard() {
    for (method, command, list) in [
        (BLOCKS, vec![0x48, 0x82, 0, 0, 0, 0, 0, 0, 0, 0], vec![]),
        (
            ScsiErase::Sanitize(SanitizeAction::Overwrite),
            vec![0x48, 0x81, 0, 0, 0, 0, 0, 0, 8, 0],
            vec![1, 0, 0, 4, 0, 0, 0, 0],
        ),
        (
            ScsiErase::Sanitize(SanitizeAction::Key),
            vec![0x48, 0x83, 0, 0, 0, 0, 0, 0, 0, 0],
            vec![],
        ),
        (ScsiErase::Format, vec![4, 0x10, 0, 0, 0, 0], vec![0, 0x8a, 0, 0, 0, 0, 0, 0]),
    ] {
        let drive = drive(&[]);
        assert_eq!(erase(&drive, method), (Ok(()), vec![]));
        assert_eq!(*drive.begun.borrow(), [(command, list)]);
    }
}

#[test]
fn a_format_keeps_the_protection_and_does_without_a_pattern() {
    for (protection, fields, usage) in [(0, 0x10, 0), (1, 0x90, 0), (3, 0xd0, 0), (5, 0xd0, 1)] {
        let drive = Simulated { protection, has_pattern: false, ..drive(&[]) };
        assert_eq!(erase(&drive, ScsiErase::Format).0, Ok(()));
        let begun = drive.begun.borrow();
        assert_eq!(begun.len(), 2);
        assert_eq!(begun[1], (vec![4, fields, 0, 0, 0, 0], vec![usage, 2, 0, 0]));
    }
}

#[test]
fn progress_is_read_until_the_drive_is_ready() {
    use Operation::{Format, Sanitize};
    for (method, operation) in [(BLOCKS, Sanitize), (ScsiErase::Format, Format)] {
        let states = [None, Some(0), Some(0x8000), Some(0xffff)];
        let states = states.map(|share| Ok(running(operation, share)));
        let (done, shares) = erase(&drive(&states), method);
        assert_eq!((done, shares), (Ok(()), vec![0.0, 0.5, 65_535.0 / 65_536.0]));
    }
}

#[test]
fn a_drive_that_refuses_or_fails_has_not_been_erased() {
    let none = Simulated { sanitizes: vec![], has_format: false, ..drive(&[]) };
    for method in [BLOCKS, ScsiErase::Format] {
        assert_eq!(erase(&none, method).0, Err(ScsiError::Sense(REFUSED)));
    }
    use Operation::{Format, Sanitize};
    for (method, operation) in [(BLOCKS, Sanitize), (ScsiErase::Format, Format)] {
        let states = [Ok(running(operation, Some(9))), Ok(failed(operation))];
        assert_eq!(erase(&drive(&states), method).0, Err(ScsiError::Sense(failed(operation))));
    }
}

#[test]
fn a_power_cut_in_the_middle_is_noticed() {
    use Operation::{Format, Sanitize};
    let lost = ScsiError::Transport { host: 1, driver: 0 };
    // A sanitize operation continues when the power has returned.
    let half = Ok(running(Sanitize, Some(0x8000)));
    let states = [half, Err(lost), Ok(RESET), half, Ok(running(Sanitize, Some(0xc000)))];
    assert_eq!(erase(&drive(&states), BLOCKS), (Ok(()), vec![0.5, 0.5, 0.75]));
    // A format does not: the drive then has no data and no format.
    let damaged = Sense { key: 3, code: 0x31, qualifier: 0, progress: None };
    let states = [Ok(running(Format, Some(0x8000))), Err(lost), Ok(RESET), Ok(damaged)];
    assert_eq!(erase(&drive(&states), ScsiErase::Format).0, Err(ScsiError::Sense(damaged)));
    // The power does not return.
    let gone = ScsiError::System(Errno::NODEV);
    let states = vec![Err(gone); 200];
    let drive = drive(&states);
    assert_eq!(erase(&drive, BLOCKS).0, Err(gone));
    assert_eq!(drive.states.borrow().len(), 80, "it is asked for two minutes");
}

#[test]
fn an_event_before_the_command_does_not_count_as_a_refusal() {
    let drive = drive(&[]);
    *drive.event.borrow_mut() = Some(RESET);
    assert_eq!(erase(&drive, BLOCKS).0, Ok(()));
    assert_eq!(drive.begun.borrow().len(), 1);
}

/// A drive with any answers.
struct Hostile(RefCell<VecDeque<(u8, Vec<u8>)>>);

impl Drive for Hostile {
    fn run(&self, _: &[u8], data: Data<'_>, _: u32) -> Result<usize, ScsiError> {
        let (kind, bytes) = self.0.borrow_mut().pop_front().unwrap_or_default();
        if kind % 8 == 1 {
            let sense = super::sense::parse(&bytes).unwrap_or(REFUSED);
            return Err(ScsiError::Sense(sense));
        }
        match data {
            Data::FromDrive(room) => {
                let length = bytes.len().min(room.len());
                room[..length].copy_from_slice(&bytes[..length]);
                // More bytes than there is room for.
                Ok(if kind % 8 == 2 { usize::MAX } else { length })
            }
            _ => Ok(0),
        }
    }
}

proptest! {
    #[test]
    fn no_answer_ends_the_program(
        answers in prop::collection::vec(
            (any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..40),
        format in any::<bool>(),
    ) {
        let drive = Hostile(RefCell::new(answers.into_iter().collect()));
        let _ = abilities_of(&drive);
        let method = if format { ScsiErase::Format } else { BLOCKS };
        let mut shares = Vec::new();
        let _ = erase_with(&drive, method, &mut |share| shares.push(share), &|| {});
        prop_assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
    }
}
