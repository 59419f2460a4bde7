//! A volume's stack, built from plain data and opened once. This crate handles no signals and
//! prints nothing: messages for the operator are returned as notes and failures.
//!
//! ```text
//!   "disk.img", "ram:1G"   --target-->   Spec   --Volume::open-->   shared halves, opened once
//!                                                     |                   |
//!                                   keep.rs: retained memory         SharedHalves::attach(&ring):
//!                                   opening.rs: bottom to top        a Stack for a lane
//!                                   node/: one file per node
//! ```
#![forbid(unsafe_code)]

mod backing_records;
mod failure;
mod flags;
mod keep;
mod memory;
pub mod model_name;
mod near;
mod node;
mod open_step;
mod opening;
mod planted;
mod rate_limit;
mod setup_lane;
mod shared;
mod target;
mod volume;

pub use backing_records::Loss;
pub use failure::{Exit, Failure};
pub use flags::OpenFlags;
pub use keep::{Keep, retention_key};
pub use layers::{Counts, Kind, ValveShared};
pub use memory::check_dirty;
pub use near::{near, similar, unknown};
pub use node::{
    Attached, Backing, Exchanger, ExportWaits, Former, Health, Identity, OpenNode, Opened, Opening,
    Retention, Unkept, create_pool, unreachable_export,
};
pub use open_step::OpenStep;
pub use opening::{Backings, SCRATCH};
pub use rate_limit::{below_limits, limited, split_limits};
pub use shared::{CACHES_MAX, SharedHalves};
pub use target::{Plan, absolute, export_name, target};
pub use volume::Volume;
