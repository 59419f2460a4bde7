//! A block device that behaves like a modelled drive: each request takes as long as on that drive,
//! and a power cut loses the same data.
//!
//! The crate `drives` has the drive itself, a pure state machine; this crate adds a lane to wait
//! on, and data. There is no clock but the lane's, so the same code serves in real time on the live
//! loop and runs in virtual time in a [`World`](lane::World).
//!
//! ```text
//!   Modelled (a lane's handle)          Shared (one for the drive)
//!     one section a command  ------->     Drive::submit(now) -> end      the model
//!     sleep until its end                 Store                          the data, sparse
//!     answer                              Versions                       data after a power cut
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
