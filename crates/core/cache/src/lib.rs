//! The cache engine: a read cache and a write buffer over one arena of slots.
//!
//! ```text
//!      try_now / run                              fixed tasks of every lane
//!           |                                               |
//!   request/    the steps of a request:             tasks/  workers write runs; a commit makes an
//!               loops around the shards'                    epoch durable; the flusher begins it
//!               decisions                                   in time
//!           |                                               |
//!   handle      a volume's cache as one lane sees it; shared: the part of all lanes
//!           |
//!   shard/      one lock per shard: look, fill, admit, write through, close, next_run, release
//!           |            |             |            |
//!   admission/  which blocks are cached             dirty/  the fill level of the write buffer,
//!                                                           the decision on a write, the throttle
//!   compressed/ evicted blocks that stay in memory compressed
//!   slots/      the index; lists and the policy are the crate policy   (plain data)
//!           |
//!   arena/      headers (two atomic words per slot) and the slots' bytes, in shared memory; the
//!               superblock
//!
//!   epochs/     one lock per volume: which epochs are open, closed, durable; errors
//!   backing/    flushes of the backing, one at a time; retries; requests that hang
//!   writeback/  the state of writeback that the lanes share: events, measurements
//!   bypass/     gain and cost of admitting and absorbing, and the guard that decides the bypass
//!   geometry    sizes that are fixed when a cache is made; settings: the ones that may change
//!   recovery/   taking over an arena from an earlier process
//!   rescue/     the data of a volume that cannot write to its backing
//!   operator/   changed settings, the discard of dirty data
//!   sampling/   results of a sample of the accesses, for the policy and the user
//!   streams/    which requests follow one another, and the distance of readahead
//!   warming/    the list of hot blocks of an earlier life, while it is read back
//!   stats/      counters and measurements
//! ```
//!
//! The engine has no thread, no system call, no clock except its lane's and no randomness: the
//! crate is `no_std`, so the compiler enforces that. SEMANTICS.md has its guarantees; the clause
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
mod compressed;
mod dirty;
mod epochs;
mod geometry;
mod handle;
mod operator;
pub mod planted;
mod recovery;
mod request;
mod rescue;
mod rest_buffers;
mod sampling;
mod settings;
mod shard;
mod shared;
mod slots;
mod spread;
mod stats;
mod streams;
mod tasks;
mod warming;
mod writeback;

pub use arena::superblock::{CACHED_BYTES_MAX, Found, Survey, Unrecoverable};
pub use arena::{Arena, Header, State};
pub use bypass::balance::Pressure;
pub use bypass::guard::{BypassState, Guard, GuardState, Why, Window};
pub use geometry::{Format, Geometry};
pub use packing::HAS_ZSTD;
pub use recovery::CleanBlocks;
pub use request::Cache;
pub use rescue::{Item, Rescue, What};
pub use sampling::{ClassFigures, CurveReport, HintsReport, MapWrites, PolicyReport, PolicyState};
pub use settings::{Changes, Measured, Settings};
pub use shard::HeldBlock;
pub use shared::{Client, Shared};
pub use stats::counters::Counters;
pub use stats::latencies::Histograms;

/// Sectors in a block, the unit of caching: 4 KiB.
pub const BLOCK_SECTORS: u32 = 8;
