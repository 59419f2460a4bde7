//! Layers around a cache: a [`Delay`] that makes a fast device slow and [`Faults`] that make a
//! sound one fail stand below it, for tests, benchmarks and the demo; a [`Valve`] that holds
//! changes stands on top, and above that [`Unaligned`], which serves requests of parts of blocks. A
//! [`Recorder`] stands wherever it is to be seen what passes. An [`ArrivalOrder`] stands above all
//! of them, one for each client.
//!
//! All are ordinary [`block::Block`]s: they run in virtual time and live. Each has a shared half, made
//! once for a volume, and a handle for each lane. They enter their sections between two
//! `turn`s, so that a caller may enter a section of its own right before and right after.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "laboratory"))]
extern crate std;

mod arrival;
mod delay;
mod device;
mod faults;
mod merge;
pub mod planted;
mod ranges;
mod record;
mod unaligned;
mod valve;
mod wanted;

pub use arrival::{ArrivalOrder, InOrder};
pub use delay::{Delay, DelayShared};
pub use faults::{Faults, FaultsShared};
pub use record::{Recordable, Recorder, RecorderPlace, RecorderShared, Recording};
pub use unaligned::{Unaligned, UnalignedShared};
pub use valve::{Valve, ValveShared};
