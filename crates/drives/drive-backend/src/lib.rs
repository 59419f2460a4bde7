//! A block device that behaves like a modelled drive: each request takes as long as it would there, and
//! a power cut takes what it would take there.
//!
//! The drive itself, a pure state machine, is of the crate `drives`; here it gets a lane to wait on, and
//! data. There is no clock but the lane's, so the very same code serves in real time on the live loop
//! and runs in virtual time in a [`World`](lane::World).
//!
//! ```text
//!   Modelled (a lane's handle)          Shared (one for the drive)
//!     one section a command  ------->     Drive::submit(now) -> end      the model
//!     sleep until its end                 Store                          what was written, sparse
//!     answer                              Versions                       what a power cut would show
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod device;
mod handle;
mod lately;
mod shared;
mod state;
mod store;
mod versions;

pub use block::DriveState as State;
pub use handle::Modelled;
pub use lately::Lately;
pub use shared::{Keep, Lost, Report, Shared};
