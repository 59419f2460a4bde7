//! The map of a volume's files, made by a process of its own.
//!
//! ```text
//!   serve/mapping.rs   starts the process when a map is due, and gives the classes to the cache
//!   call.rs            the daemon's side: starts it, and reads its output
//!   life.rs            ends it when it is not wanted, or makes no progress
//!   process.rs         the process: reads the volume through the control socket, maps its files
//! ```
//!
//! The file system may be damaged, hostile, or mounted on a device of this very daemon. So the
//! process has no right but to read the volume, and a bound on memory and work; the daemon waits
//! for it on a separate thread, and checks each byte of its output.

mod call;
mod life;
mod process;

pub(crate) use call::{Call, Mapped};
pub(crate) use life::{Ended, Life};
pub use process::{MAP_FILES, VolumeReader, map_files};

use serde::{Deserialize, Serialize};

/// The result of mapping a volume: the first line of the process's output, before the classes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MapSummary {
    /// Number of files.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Whether a bound was reached, so that a part of the volume is unknown.
    pub is_incomplete: bool,
    /// The file systems and other contents.
    pub systems: Vec<MappedSystem>,
}

/// A file system, or other contents, of a volume or a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedSystem {
    /// Its kind: `ext4`, `unknown (LUKS)`.
    pub kind: String,
    /// Its first byte.
    pub first_byte: u64,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Whether its files are in the map.
    pub is_read: bool,
    /// Whether its superblock or its root could not be used.
    pub is_damaged: bool,
    /// Number of objects that could not be read or made no sense.
    pub unreadable: u64,
}

impl MapSummary {
    /// Returns the summary of a map.
    pub fn of(map: &files::Map) -> MapSummary {
        let system = |system: &files::System| MappedSystem {
            kind: system.kind.name().to_owned(),
            first_byte: system.first.saturating_mul(files::SECTOR_BYTES),
            bytes: system.sectors.saturating_mul(files::SECTOR_BYTES),
            is_read: system.kind.is_read() && !system.is_damaged,
            is_damaged: system.is_damaged,
            unreadable: system.unreadable.into(),
        };
        MapSummary {
            files: map.files().into(),
            directories: map.directories().into(),
            is_incomplete: map.is_incomplete(),
            systems: map.systems().iter().map(system).collect(),
        }
    }
}
