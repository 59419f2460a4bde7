//! The block layer: defines a block device, and how devices are stacked.
//!
//! Everything that stores or passes blocks implements one trait, [`Block`]: backends (a file, a
//! device, RAM), layers (the cache, a delay, faults) and, in the laboratory, a simulated disk. Each
//! holds its lower neighbour as a [`Stack`]. A stack is described by plain data, a [`Spec`].
//!
//! Requests are checked once, where they enter a stack ([`Limits::check`]); code inside a stack
//! only asserts.

mod buffer;
mod error;
mod layer;
mod limits;
mod link_state;
mod memory;
mod null;
mod padding;
mod printable;
mod ram;
mod request;
mod rules;
mod settings;
mod size;
mod spec;
mod stable_hash;
mod stack;
mod stall;
mod status;
mod time;
mod wire;

pub use buffer::{Buf, Pieces};
pub use error::{Error, Kind, Result};
pub use layer::Layer;
pub use limits::{Discard, Fua, Limits};
pub use link_state::{LINK_GRACE_NS, LinkReport, LinkState};
pub use memory::{Memory, Part, prefetch};
pub use null::Null;
pub use padding::Padding;
pub use printable::printable;
pub use ram::Ram;
pub use request::{Advice, Extent, Request};
pub use rules::{Pattern, Rules};
pub use settings::{CacheSpec, Compress, Durability, Files, LinkDown, Policy, Warm, WriteMode};
pub use size::{Size, VOLUME_BYTES_MAX};
pub use spec::{DelaySpec, DriveState, FaultsSpec, ModelSpec, RateLimitSpec, Spec};
pub use stable_hash::stable_hash;
pub use stack::{Block, Stack, UnlessStalled};
pub use stall::Stall;
pub use status::Stretch;
pub use time::time_us;
pub use wire::Wire;

/// Bytes in a sector, the unit of every address here.
pub const SECTOR: u64 = 512;
