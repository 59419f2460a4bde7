//! Layers that stand between a cache and its backing: a [`Delay`] that makes a fast device slow,
//! and [`Faults`] that make a sound one fail.
//!
//! Both exist for tests, benchmarks and the demo, and both are ordinary [`block::Block`]s: they run
//! in virtual time and live. Each has a shared half, made once for a volume, and a handle for each
//! lane. Both enter their sections between two `turn`s, so that whoever calls them may enter a
//! section of its own right before and right after.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod delay;
mod device;
mod faults;

pub use delay::{Delay, DelayShared};
pub use faults::{Faults, FaultsShared};
