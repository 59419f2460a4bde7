//! The list of a volume's hot blocks, its start-up list ([`StartList`]), the state of its cache's
//! policy ([`SavedPolicy`]) and the classes of its blocks ([`SavedClasses`]), as they are saved
//! between two lives of a daemon.
//!
//! A list has block numbers only, no contents: a cache that uses it reads the blocks again. The
//! crate works on bytes in memory; files belong to the callers. [`HotList::parse`] accepts any
//! bytes, and never panics. All numbers are little-endian.
//!
//! ```text
//!   offset  bytes
//!        0      8   "ODHOTLST"
//!        8      4   version: 1
//!       12      4   CRC-32 of all bytes from 16 on
//!       16      8   blocks of the volume
//!       24      8   time of the save, in seconds since 1970
//!       32      4   bytes of a block: 4096
//!       36      2   classes: 1 to 8
//!       38      2   bytes of the identity: at most 4096
//!       40      -   identity of the volume's contents, as text
//!        -    4 x   blocks of each class, the hottest class first
//!        -      -   the classes, one after the other: in each, the blocks in ascending order
//! ```
//!
//! The first block of a class is its number; each other block is the number of blocks between it
//! and the one before. Each number is in groups of seven bits, the lowest first; the highest bit of
//! a byte shows that another byte follows. So a block within 128 blocks of the one before takes one
//! byte, and one within 64 MiB takes two. Sparse lists have fewer classes, so that a list with one
//! block for each 64 MiB of its volume takes at most three bytes a block.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod blocks;
mod class_list;
mod encode;
mod entry;
mod header;
mod list;
mod saved_policy;
mod start;
mod unusable;

pub use blocks::Blocks;
pub use class_list::{
    CLASS_EXTENTS_MAX, CLASS_FILE_BYTES_MAX, CLASS_LIST_BYTES_MAX, CLASS_NAMES_MAX, ClassList,
    ClassRun, SavedClasses, encode_classes,
};
pub use encode::encode;
pub use entry::{CLASSES, Entry};
pub use list::{Description, HotList};
pub use saved_policy::{POLICY_BYTES_MAX, SavedPolicy, encode_policy};
pub use start::{START_BLOCKS_MAX, START_BYTES_MAX, STARTS, StartList, encode_start, learn};
pub use unusable::Unusable;

/// Maximum number of blocks in a list: 256 GiB. Of a longer list, the hottest blocks are saved.
pub const BLOCKS_MAX: usize = 1 << 26;

/// Maximum number of bytes of a list.
pub const BYTES_MAX: usize = FIXED + IDENTITY_MAX + 4 * CLASSES as usize + 6 * BLOCKS_MAX;

/// Maximum number of bytes of an identity.
pub const IDENTITY_MAX: usize = 4096;

const MAGIC_BYTES: usize = 8;
const MAGIC: [u8; MAGIC_BYTES] = *b"ODHOTLST";
const VERSION: u32 = 1;
const BLOCK_BYTES: u32 = 4096;
/// Bytes before the identity.
const FIXED: usize = 40;
/// The first byte that the checksum covers.
const CHECKED: usize = 16;
