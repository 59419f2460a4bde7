//! VMware's vscsiStats records, as CloudPhysics traced (C. Waldspurger et al., "Efficient MRC
//! Construction with SHARDS", FAST 2015) and libCacheSim reads them (its `vscsi.h`). Little-endian,
//! one version in a file.
//!
//! ```text
//!   version 1, 32 bytes   u32 number  u32 bytes  u32 pieces  u16 command  u16 version
//!                         u64 block  u64 time in us
//!   version 2, 40 bytes   u16 command  u16 version  u32 number  u32 bytes  u32 pieces
//!                         u64 block  u64 time in us  u64 response time in us
//! ```
//!
//! The version is in the upper byte of its field. A block has 512 bytes; a command is SCSI's
//! operation code. There is one device.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;

/// Number of first bytes that contain the version.
pub(crate) const HEAD_BYTES: usize = 16;

/// The versions of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the version of a record with these first bytes. A record of version 2 with version
    /// 1's mark in its number of pieces would have 16 million pieces.
    pub(crate) fn of(head: &[u8; HEAD_BYTES]) -> Option<Version> {
        match (head[15], head[3]) {
            (1, _) => Some(Version::One),
            (_, 2) => Some(Version::Two),
            _ => None,
        }
    }

    /// Returns the bytes of a record.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Reads a record of [`Version::bytes`].
    pub(crate) fn record(self, record: &[u8], devices: &mut Devices) -> Found {
        let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| record[at + byte]));
        let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| record[at + byte]));
        let (command, version, bytes) = match self {
            Version::One => (half(12), half(14), word(4)),
            Version::Two => (half(0), half(2), word(8)),
        };
        let expected = if self == Version::One { 1 } else { 2 };
        if version >> 8 != expected {
            return Err("the version differs from that of the first record");
        }
        let time_ns = long(24).checked_mul(1000).ok_or("the time is out of range")?;
        let direction = direction(command as u8);
        // Some commands other than reads and writes have no extent.
        let extent = match direction {
            Direction::Other => Extent::of_bytes(0, 0)?,
            _ => Extent::of_sector(long(16), bytes.into())?,
        };
        let took_us = (self == Version::Two).then(|| long(32));
        let took_ns = took_us.and_then(|us| us.checked_mul(1000));
        Ok(Some(extent.access(time_ns, devices.numbered(0)?, direction)?.took(took_ns)))
    }
}

/// Returns the direction of a SCSI operation code: READ and WRITE of 6, 10, 12 and 16 bytes (SBC-4,
/// table of commands).
pub(crate) fn direction(command: u8) -> Direction {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Direction::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Direction::Write,
        _ => Direction::Other,
    }
}
