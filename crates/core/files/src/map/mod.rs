//! The map: its parts, its making, its format and its use.

mod builder;
mod extents;
mod numbers;
mod parse;
mod sums;
mod sweep;
mod types;
mod unusable;
mod view;

pub use builder::{Builder, Full};
pub use extents::Extents;
pub use sums::Sums;
pub use types::{Directory, Extent, FileEntry, Kind, Owner, System};
pub use unusable::Unusable;
pub use view::Map;

const MAGIC: [u8; 8] = *b"ODFILMAP";
const VERSION: u32 = 1;
/// The first byte that the checksum covers.
const CHECKED: usize = 16;
/// Bytes of the header.
const HEADER: usize = 64;
/// Bytes of the record of a file system.
const SYSTEM_BYTES: usize = 32;
/// Records that are read together.
const GROUP: u32 = 64;
/// Flag of a map that a bound has cut off.
const INCOMPLETE: u32 = 1;
/// Maximum number of file systems in a volume.
const SYSTEMS_MAX: usize = 4096;
/// Maximum number of sectors of a volume: positions have 48 bits.
const SECTORS_MAX: u64 = 1 << 48;
