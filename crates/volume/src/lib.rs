//! A volume as a whole: its stack, built from plain data; its server; its life from opening to the
//! last flush. The daemon as a library.
//!
//! ```text
//!   "disk.img", "ram:1G"   --target-->   Spec   --Volume::open-->   shared halves, opened once
//!   config.toml            --config--/                |                   |
//!                                   keep.rs: what an earlier life left    Volume::attach(&ring):
//!                                   opening.rs: bottom to top             a Stack for a lane
//!
//!   daemon/    volumes on a lane: listeners, connections, signals, a captive command, the end
//!   control/   what an operator asks it, and the operator's side of that
//! ```
#![forbid(unsafe_code)]

pub mod config;
#[macro_use]
pub mod console;
pub mod control;
mod counted;
mod daemon;
mod descriptors;
mod draft;
pub mod drive;
mod failure;
mod fleet;
mod keep;
mod opening;
mod pools;
mod rescue;
mod runtime;
mod sampled;
mod sensor;
mod setting;
mod target;
pub mod units;
mod volume;
mod watch;
mod wire;

pub use daemon::{
    Captive, DaemonPlan, Listening, Place, Planned, Ready, Served, ServedVolume, serve,
};
pub use descriptors::allow_descriptors;
pub use failure::{Exit, Failure};
pub use keep::Keep;
pub use pools::create_pool;
pub use rescue::{Rescued, check_rescue_place, rescue};
pub use runtime::{runtime_directory, sweep};
pub use target::{Plan, target};
pub use volume::{Attached, OpenFlags, Volume};
