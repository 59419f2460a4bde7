//! Modelled drives: the effect and the duration of each request to a flash drive or a hard disk,
//! with no drive, no clock and no thread.
//!
//! One flash translation layer ([`Ftl`]), a pure state machine, has two drivers. [`Fast`] has no
//! times: it ages a drive, and counts. [`Timed`] answers [`submit`](Timed::submit) with the
//! nanosecond in which the request completes. The same seed and the same requests give the same
//! drive, byte for byte. [`Model`] is a drive's description: a preset, or a file of the same form.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod age;
mod disk;
mod fast;
mod ftl;
mod options;
mod preset;
mod random;
mod reader;
mod shape;
mod smart;
pub mod theory;
mod timed;
mod vendor;

pub use age::{Aged, Ageless, age};
pub use disk::{Disk, DiskModel};
pub use fast::Fast;
pub use ftl::{
    Counters, Found, Ftl, Idle, MapCost, MapKind, Nand, Pacing, Purpose, Settings, SlcFull,
    SlcSettings, UnitAddress, Victims,
};
pub use options::Options;
pub use preset::{
    About, Derived, Drive, FlashModel, Kind, Model, PUBLISHED, Power, Predicted, Published,
    predicted,
};
pub use random::Random;
pub use reader::{Fact, ModelError};
pub use shape::{SLOT_BYTES, Shape};
pub use smart::{Attribute, Health};
pub use timed::{Op, Spread, Timed, Timing, slot_ns};
pub use vendor::Vendor;
