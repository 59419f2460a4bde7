//! Layers around a cache. Below it, for tests, benchmarks and the demo: a [`Delay`] makes a device
//! slow, and [`Faults`] make it fail. A [`RateLimit`] limits requests and bytes per second. Above
//! the cache: [`Top`], which every served stack has, serves requests for parts of blocks, records
//! and counts requests, and holds changes back. A [`Recorder`] records the requests at any
//! position. An [`ArrivalOrder`], one per client, is above all of them.
//!
//! All are ordinary [`block::Block`]s: they run in virtual time and live. Each has a shared part,
//! created once per volume, and a handle per lane. They enter their sections between two `turn`s,
//! so that a caller may enter a section of its own directly before and after.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "laboratory"))]
extern crate std;

mod arrival;
mod counts;
mod delay;
mod device;
mod faults;
mod held;
mod limit;
mod merge;
pub mod planted;
mod ranges;
mod record;
mod sampler;
mod top;
mod unaligned;
mod valve;
mod wanted;

pub use arrival::{ArrivalOrder, InOrder};
pub use counts::{Counts, Kind};
pub use delay::{Delay, DelayShared};
pub use faults::{Faults, FaultsShared};
pub use limit::{RateLimit, RateLimitShared};
pub use record::{Recorder, RecorderShared, RecorderSwitch, Recording};
pub use sampler::Sampler;
pub use top::{Top, TopShared};
pub use valve::ValveShared;
