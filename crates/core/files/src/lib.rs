//! A map from the blocks of a volume to classes and files, made by read-only readers of partition
//! tables and file systems.
//!
//! - [`map_volume`]: reads a volume through [`ReadAt`], and returns its [`Map`].
//! - [`Map`]: the class, the file and the directory of a sector; [`Map::parse`] accepts any bytes.
//! - [`Sums`]: amounts by class and by directory.
//! - [`Builder`]: makes a map of extents that another source has found.
//! - [`classify`]: the class of a file by its name, its directory and its first bytes.
//!
//! The readers trust no byte of the volume: they never panic, and end within [`Bounds`]. A part of
//! a volume that cannot be read is of the class [`Class::Unknown`].
//!
//! # Format
//!
//! All numbers are little-endian. A *varint* has groups of seven bits, the lowest first; the
//! highest bit of a byte shows that another byte follows. A *difference* is a varint of a signed
//! number: twice the number, or twice its absolute value less one if it is negative.
//!
//! ```text
//!   offset  bytes
//!        0      8   "ODFILMAP"
//!        8      4   version: 1
//!       12      4   CRC-32 of all bytes from 16 on
//!       16      8   sectors of the volume, of 512 bytes
//!       24      8   time of the map, in seconds since 1970
//!       32      4   flags: 1 if the map is incomplete, because a bound was reached
//!       36      4   number of files
//!       40      4   number of directories, at least 1
//!       44      4   number of file systems
//!       48      4   number of extents
//!       52      4   bytes of the section of files
//!       56      4   bytes of the section of directories
//!       60      4   0
//!       64      -   section of files
//!        -      -   section of directories
//!        -   32 x   file systems
//!        -      -   section of extents, to the end
//! ```
//!
//! Fields of the records:
//!
//! ```text
//!   a file          1   class
//!                   -   directory: difference from the record before
//!                   -   size in blocks of 4 KiB: varint
//!                   1   bytes of the name
//!                   -   name
//!   a directory     -   number of directories from the parent to this one: varint
//!                   1   bytes of the name
//!                   -   name
//!                       (directory 0 is the root: 0 and no name)
//!   a file system   8   first sector
//!                   8   sectors
//!                   1   kind: 0 unknown, 1 ext4, 2 XFS, 3 NTFS, 4 FAT, 5 exFAT, 6 Btrfs, 7 swap,
//!                       8 LUKS, 9 LVM, 10 Linux RAID
//!                   1   flags: 1 incomplete, 2 damaged
//!                   2   0
//!                   4   directory
//!                   4   number of objects that could not be read
//!                   4   0
//!   an extent       1   class, and 16 times the kind of owner: 0 none, 1 a file, 2 a directory
//!                   -   sectors between the extent before and this one: varint
//!                   -   sectors, at least 1: varint
//!                   -   owner: difference from the last owner of its kind (only with an owner)
//! ```
//!
//! Classes are 0 unknown, 1 free space, 2 metadata, 3 journal, 4 directories, 5 executables,
//! 6 databases and mail stores, 7 documents, 8 pictures, 9 films and sound, 10 archives and images
//! of disks, 11 other files.
//!
//! Records are in groups of 64, of which each begins as if the records before it were zero: its
//! first extent has its first sector itself as the number of sectors between. So one group can be
//! read without the others. Extents are in ascending order and do not overlap. A parent has a
//! smaller number than its directories. Names are bytes without `/` and NUL, of any encoding.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bounds;
mod bytes;
mod class;
pub mod classify;
mod detect;
mod device;
mod ext4;
mod fault;
mod map;
mod partitions;
mod source;
mod tree;
mod volume;
mod xfs;

pub use bounds::Bounds;
pub use class::{CLASSES, Class};
pub use map::{
    Builder, Directory, Extent, Extents, FileEntry, Full, Kind, Map, Owner, Sums, System, Unusable,
};
pub use source::{ReadAt, ReadFailed};
pub use volume::map_volume;

/// Bytes of a sector: the unit of all positions in a map.
pub const SECTOR_BYTES: u64 = 512;

/// Sectors of a block of the cache, of 4 KiB.
pub const BLOCK_SECTORS: u64 = 8;
