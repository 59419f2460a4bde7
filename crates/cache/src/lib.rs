//! The cache engine: a read cache and a write buffer over one arena of slots.
//!
//! ```text
//!            try_now / run                        crew (fixed tasks of every lane)
//!                 |                                        |
//!   cache.rs   a request: its way                leader.rs |  an epoch: closed, written out, flushed, released
//!   read.rs, change.rs, pass.rs, flush.rs:       crew.rs   |  its runs
//!              loops over what is decided                  |
//!                 |                                        |
//!   shard.rs   one Lock a shard: look, fill, admit, pass, close, next_run, release
//!                 |         |           |           |
//!              index.rs  lists.rs   zeroes.rs   fills.rs, passes.rs     (plain data)
//!                 |      policy.rs
//!   arena.rs   headers (two atomic words a slot) and the slots' bytes, in shared memory
//!
//!   superblock.rs  what the arena is, whose, and how its volume stood
//!
//!   order.rs   one Lock a volume: which epochs are open, closed, durable; errors
//!   gate.rs    one Lock a volume: the backing's flushes, one at a time (both used by flush.rs)
//!   sentinel.rs, patience.rs: notice that the backing does not answer; trouble.rs: what is done if it fails
//!   keeper.rs  one task a volume: writes out in time
//!   drain.rs, level.rs, pace.rs: what the backing can take, how full the buffer is, and how fast writers may
//!   fill it
//!   discard.rs, rescue: what the operator may do with what a failed volume holds
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
mod aside;
mod cache;
mod change;
mod counters;
mod crew;
mod discard;
mod drain;
mod fills;
mod flush;
mod gate;
mod guard;
mod histogram;
mod index;
mod keeper;
mod leader;
mod level;
mod lists;
mod order;
mod pace;
mod pass;
mod passes;
mod patience;
pub mod planted;
mod policy;
mod read;
mod recovery;
mod rescue;
mod sentinel;
mod set;
mod settings;
mod shard;
mod shared;
mod status;
mod superblock;
mod trouble;
mod worth;
mod zeroes;

pub use arena::{Arena, Header, State};
pub use cache::Cache;
pub use counters::Counters;
pub use guard::{Aside, Guard, Pressure, Standing, Why, Window};
pub use histogram::{Histogram, Histograms, Snapshot};
pub use recovery::Unrecoverable;
pub use rescue::{Item, Rescue, What};
pub use set::Changes;
pub use settings::{Geometry, Settings};
pub use shared::{Client, Shared};
pub use superblock::{Found, Survey};

/// Sectors in a block, the unit of caching: 4 KiB.
pub const BLOCK_SECTORS: u32 = 8;
