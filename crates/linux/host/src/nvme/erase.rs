//! Erasing a drive: Format NVM and Sanitize.

use super::NvmeError;
use super::command::{ALL, Command, run};
use super::identify::{double, word};
use super::{Controller, Namespace};
use std::os::fd::AsFd;

const FORMAT: u8 = 0x80;
const SANITIZE: u8 = 0x84;
const GET_LOG: u8 = 0x02;
const SANITIZE_LOG: u32 = 0x81;
const LOG_BYTES: usize = 512;
/// A format may take hours: a day.
const FORMAT_MS: u32 = 86_400_000;

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
}

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
    run(device, command, &mut [])
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

/// Begins a sanitize operation, which continues on the drive, also after a power cut.
///
/// # Errors
/// The drive or the system refuses it.
pub fn sanitize(device: &impl AsFd, action: SanitizeAction) -> Result<(), NvmeError> {
    let action = match action {
        SanitizeAction::Blocks => 0b010,
        // One pass of overwriting.
        SanitizeAction::Overwrite => 0b011 | 1 << 4,
        SanitizeAction::Key => 0b100,
    };
    let words_10 = [action, 0, 0, 0, 0, 0];
    run(device, Command { opcode: SANITIZE, words_10, ..Command::default() }, &mut [])
}

/// Returns the state of sanitize operations.
///
/// # Errors
/// The drive has no such log.
pub fn sanitize_state(device: &impl AsFd) -> Result<SanitizeState, NvmeError> {
    let mut log = vec![0; LOG_BYTES];
    let words = LOG_BYTES as u32 / 4 - 1;
    let words_10 = [SANITIZE_LOG | words << 16, 0, 0, 0, 0, 0];
    run(
        device,
        Command { opcode: GET_LOG, namespace: ALL, words_10, ..Command::default() },
        &mut log,
    )?;
    Ok(state_of(&log))
}

fn state_of(log: &[u8]) -> SanitizeState {
    match double(log, 0) >> 16 & 0b111 {
        0 => SanitizeState::Never,
        2 => SanitizeState::Running(word(log, 0) as u16),
        3 => SanitizeState::Failed,
        _ => SanitizeState::Done,
    }
}

impl Controller {
    /// Returns the sanitize operation that erases most, of those that the drive has. A key is
    /// erased at once, but whether all data was encrypted only the maker knows.
    pub fn best_sanitize(&self) -> Option<SanitizeAction> {
        let all = [
            (self.sanitizes[1], SanitizeAction::Blocks),
            (self.sanitizes[2], SanitizeAction::Overwrite),
            (self.sanitizes[0], SanitizeAction::Key),
        ];
        all.into_iter().find(|(is_there, _)| *is_there).map(|(_, action)| action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(state(0xffff, 3), SanitizeState::Failed);
    }
}
