//! The cache engine: a read cache and a write buffer over one arena of slots.
//!
//! ```text
//!            try_now / run                        crew (fixed tasks of every lane)
//!                 |                                        |
//!   cache.rs   reads, changes, flushes:            crew.rs |  runs of the closing epoch
//!              loops over what is decided                  |
//!                 |                                        |
//!   shard.rs   one Lock a shard: look, fill, admit, pass, close, next_run, release
//!                 |         |           |           |
//!              index.rs  lists.rs   zeroes.rs   fills.rs, passes.rs     (plain data)
//!                 |      policy.rs
//!   arena.rs   headers (two atomic words a slot) and the slots' bytes, in shared memory
//!
//!   order.rs   one Lock a volume: which epoch is open, closing, durable; errors
//!   gate.rs    one Lock a volume: the backing's flushes, one at a time
//! ```
//!
//! The engine has no thread, no system call, no clock but its lane's and no randomness: the crate is
//! `no_std`, so the compiler holds it to that. What it promises is SEMANTICS.md; the clause names
//! (C1, C2, ...) in the comments are from there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "laboratory")]
extern crate std;

mod arena;
mod cache;
mod counters;
mod crew;
mod fills;
mod gate;
mod index;
mod lists;
mod order;
mod passes;
pub mod planted;
mod policy;
mod recovery;
mod settings;
mod shard;
mod shared;
mod worth;
mod zeroes;

pub use arena::{Arena, Header, State};
pub use cache::Cache;
pub use counters::Counters;
pub use recovery::Unrecoverable;
pub use settings::{Geometry, Settings};
pub use shared::{Client, Shared};

/// Sectors in a block, the unit of caching: 4 KiB.
pub const BLOCK_SECTORS: u32 = 8;
