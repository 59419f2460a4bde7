//! The codec of compressed blocks, and the memory of regions that are not compressible.
//!
//! ```text
//!   codec/          a block -> a repeated word, an LZ4 or Zstandard block, or neither; and back
//!   incompressible  regions whose blocks are not tried for a while
//! ```
//!
//! The crate has no thread, clock or system call, and no blocks: the engine's tier stores them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codec;
mod incompressible;

pub use codec::{Codec, Damaged, Decoder, Encoder, Encoding, HAS_ZSTD};
pub use incompressible::Incompressible;
