//! Sense data: a drive's description of its state or of an error.

use std::fmt;

/// Sense keys.
const NO_SENSE: u8 = 0;
const NOT_READY: u8 = 2;
const MEDIUM_ERROR: u8 = 3;
const ILLEGAL_REQUEST: u8 = 5;
const UNIT_ATTENTION: u8 = 6;

/// Sense data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sense {
    /// The sense key: the kind of the state.
    pub key: u8,
    /// The additional sense code.
    pub code: u8,
    /// Its qualifier.
    pub qualifier: u8,
    /// Progress of an operation, in 65,536ths.
    pub progress: Option<u16>,
}

/// The state of an operation that erases, as sense data describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It is in progress: its share, if the drive reports it.
    Running(Option<u16>),
    /// It has failed, or was interrupted.
    Failed,
    /// The drive is not ready for another reason, or reports an event: look again.
    Unknown,
    /// Nothing is in progress.
    Idle,
}

impl Sense {
    /// Whether the drive has no such command, or does not accept a field of it.
    pub fn is_refused(&self) -> bool {
        self.key == ILLEGAL_REQUEST
    }

    /// Whether the drive reports an event, in place of the answer to a command.
    pub(super) fn is_event(&self) -> bool {
        self.key == UNIT_ATTENTION
    }

    /// Whether an operation that erases the drive was not completed. Other errors of the medium may
    /// be those of earlier reads.
    fn is_broken(&self) -> bool {
        // Medium format corrupted, format failed, sanitize failed.
        self.code == 0x31 && matches!(self.qualifier, 0 | 1 | 3)
    }

    pub(super) fn state(&self) -> State {
        match (self.key, self.code, self.qualifier) {
            (NO_SENSE | NOT_READY | UNIT_ATTENTION, 0x04, 0x04 | 0x1b) => {
                State::Running(self.progress)
            }
            _ if self.is_broken() => State::Failed,
            (NO_SENSE, ..) => State::Idle,
            _ => State::Unknown,
        }
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.key, self.code, self.qualifier) {
            (_, 0x04, 0x04) => "it is being formatted",
            (_, 0x04, 0x1b) => "it is being sanitized",
            (_, 0x31, 0x01) => "the format has failed; format it again",
            (_, 0x31, 0x03) => "the sanitize operation has failed; repeat it",
            (_, 0x31, _) => "its format is damaged; format it again",
            (_, 0x20, _) => "it does not have this command",
            (ILLEGAL_REQUEST, 0x24 | 0x26, _) => "it does not accept a field of the command",
            (_, 0x27, _) => "it is write protected",
            (_, 0x29, _) => "it was reset, or its power was cut",
            (_, 0x3a, _) => "it has no medium",
            (NOT_READY, ..) => "it is not ready",
            (MEDIUM_ERROR, ..) => "an error of its medium",
            (ILLEGAL_REQUEST, ..) => "it does not accept the command",
            (0xb, ..) => "it has ended the command",
            _ => "an error",
        };
        let Sense { key, code, qualifier, .. } = self;
        write!(f, "{words} (sense {key:x}/{code:02x}/{qualifier:02x})")
    }
}

/// Reads sense data in either format. None: it has none, or another format.
pub(super) fn parse(sense: &[u8]) -> Option<Sense> {
    let byte = |at: usize| sense.get(at).copied();
    let number = |at: usize| Some(u16::from_be_bytes([byte(at)?, byte(at + 1)?]));
    match byte(0)? & 0x7f {
        0x70 | 0x71 => {
            let has_progress = byte(15).is_some_and(|flags| flags & 0x80 != 0);
            Some(Sense {
                key: byte(2)? & 0xf,
                code: byte(12).unwrap_or(0),
                qualifier: byte(13).unwrap_or(0),
                progress: number(16).filter(|_| has_progress),
            })
        }
        0x72 | 0x73 => Some(Sense {
            key: byte(1)? & 0xf,
            code: byte(2).unwrap_or(0),
            qualifier: byte(3).unwrap_or(0),
            progress: described_progress(sense.get(8..).unwrap_or_default()),
        }),
        _ => None,
    }
}

/// Returns the progress from the descriptor that is specific to the sense key.
fn described_progress(mut descriptors: &[u8]) -> Option<u16> {
    while let [kind, length, rest @ ..] = descriptors {
        let body = rest.get(..usize::from(*length))?;
        if let (2, [_, _, flags, high, low, ..]) = (kind, body)
            && flags & 0x80 != 0
        {
            return Some(u16::from_be_bytes([*high, *low]));
        }
        descriptors = &rest[body.len()..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_formats_are_read() {
        let mut fixed = [0; 18];
        (fixed[0], fixed[2], fixed[7]) = (0x70, 2, 10);
        (fixed[12], fixed[13]) = (0x04, 0x04);
        let running = Sense { key: 2, code: 4, qualifier: 4, progress: None };
        assert_eq!(parse(&fixed), Some(running));
        (fixed[15], fixed[16], fixed[17]) = (0x80, 0x40, 0);
        assert_eq!(parse(&fixed).map(|sense| sense.state()), Some(State::Running(Some(0x4000))));
        // Another descriptor is before the one with the progress.
        let described =
            [0x72, 2, 4, 0x1b, 0, 0, 0, 12, 3, 2, 0, 0, 2, 6, 0, 0, 0x80, 0xff, 0xff, 0];
        let found = parse(&described).expect("sense");
        assert_eq!(found.state(), State::Running(Some(0xffff)));
        assert!(found.to_string().contains("sanitized"), "{found}");
    }

    #[test]
    fn states_are_distinguished() {
        let of = |key, code, qualifier| Sense { key, code, qualifier, progress: None }.state();
        assert_eq!(of(0, 0, 0), State::Idle);
        assert_eq!(of(0, 4, 4), State::Running(None));
        assert_eq!(of(3, 0x31, 1), State::Failed);
        assert_eq!(of(2, 0x31, 3), State::Failed);
        // An old drive may report an earlier error of a read; it can be erased all the same.
        assert_eq!(of(3, 0x11, 0), State::Unknown);
        // Its power was cut, and it starts again.
        assert_eq!(of(6, 0x29, 0), State::Unknown);
        assert_eq!(of(2, 4, 1), State::Unknown);
    }

    proptest! {
        #[test]
        fn no_sense_data_ends_the_program(
            first in prop::sample::select(&[0x70u8, 0x71, 0x72, 0x73, 0xf0, 0x7f, 0][..]),
            rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [&[first][..], &rest].concat();
            if let Some(sense) = parse(&bytes) {
                prop_assert!(!sense.to_string().is_empty());
                let _ = sense.state();
            }
            let _ = parse(&rest);
        }
    }
}
