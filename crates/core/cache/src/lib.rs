//! The cache engine: a read cache and a write buffer over one arena of slots.
//!
//! ```text
//!      try_now / run                              fixed tasks of every lane
//!           |                                               |
//!   request/    a request's way: loops over          tasks/  workers carry runs; a commit makes an epoch
//!               what the shards decide                       durable; the flusher begins it in time
//!           |                                               |
//!   handle      a volume's cache as one lane sees it; shared: as all lanes do
//!           |
//!   shard/      one lock a shard: look, fill, admit, write through, close, next_run, release
//!           |            |             |            |
//!   admission/  which blocks are kept in memory      dirty/  how full the write buffer is, what is done
//!                                                            with a write, how fast writers may fill it
//!   slots/      the index; lists and the policy are the crate policy   (plain data)
//!           |
//!   arena/      headers (two atomic words a slot) and the slots' bytes, in shared memory; the superblock
//!
//!   epochs/     one lock a volume: which epochs are open, closed, durable; errors
//!   backing/    flushes of the backing, one at a time; retries; requests that hang
//!   writeback/  what the lanes share of writeback: events, measurements
//!   bypass/     stepping aside: what keeping and absorbing bring and cost, and the guard that decides it
//!   geometry    sizes that are fixed when a cache is made; settings: what may be set later
//!   recovery/   taking over an arena from an earlier life
//!   rescue/     what a volume still holds that cannot write to its backing
//!   operator/   other settings, giving up what is dirty
//!   sampling.rs what a sample of the accesses tells the policy and the user
//!   streams/    which requests follow one another, and how far ahead of reads is fetched
//!   stats/      what is counted and measured
//! ```
//!
//! The engine has no thread, no system call, no clock but its lane's and no randomness: the crate
//! is `no_std`, so the compiler holds it to that. What it promises is SEMANTICS.md; the clause
//! names (C1, C2, ...) in the comments are from there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "laboratory")]
extern crate std;

mod admission;
mod arena;
mod backing;
mod blocks;
mod bypass;
mod dirty;
mod epochs;
mod geometry;
mod handle;
mod operator;
pub mod planted;
mod recovery;
mod request;
mod rescue;
mod sampling;
mod settings;
mod shard;
mod shared;
mod slots;
mod spread;
mod stats;
mod streams;
mod tasks;
mod writeback;

pub use arena::superblock::{Found, Survey, Unrecoverable};
pub use arena::{Arena, Header, State};
pub use bypass::balance::Pressure;
pub use bypass::guard::{Aside, Guard, Standing, Why, Window};
pub use geometry::{Format, Geometry};
pub use request::Cache;
pub use rescue::{Item, Rescue, What};
pub use sampling::{CurveReport, PolicyReport};
pub use settings::{Changes, Measured, Settings};
pub use shared::{Client, Shared};
pub use stats::counters::Counters;
pub use stats::latencies::Histograms;

/// Sectors in a block, the unit of caching: 4 KiB.
pub const BLOCK_SECTORS: u32 = 8;
