//! Compressed blocks: their codec, and the area of memory that they are packed into.
//!
//! ```text
//!   codec/          4 KiB -> a repeated word, an object of an LZ4 or Zstandard block, or neither;
//!                   and back
//!   record          an object's location, length and checksum, in the 68 bits that a header has
//!   area/           segments of the arena, divided into places for objects; compaction
//!   incompressible  regions whose blocks are not tried for a while
//! ```
//!
//! The crate has no thread, clock, system call or memory of blocks. The engine copies the bytes,
//! publishes records in headers, and decides when to pack, to compact and to free.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod area;
mod codec;
mod incompressible;
mod record;

pub use area::{Area, Impossible, Location, SEGMENT_BYTES};
pub use codec::{Codec, Compressor, Damaged, Decoder, LENGTH_MAX, Object, Outcome};
pub use incompressible::Incompressible;
pub use record::Record;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
