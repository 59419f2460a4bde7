//! A volume's stack, built from plain data and opened once. It takes no signals and prints nothing:
//! what an operator should know is returned as notes and failures.
//!
//! ```text
//!   "disk.img", "ram:1G"   --target-->   Spec   --Volume::open-->   shared halves, opened once
//!                                                     |                   |
//!                                   keep.rs: what an earlier life left    SharedHalves::attach(&ring):
//!                                   opening.rs: bottom to top             a Stack for a lane
//! ```
#![forbid(unsafe_code)]

mod counted;
mod failure;
mod half;
mod keep;
mod model;
pub mod model_name;
mod near;
mod opening;
mod planted;
mod pools;
mod recorded;
mod sampled;
mod shared;
mod target;
mod volume;

pub use counted::{Counts, Kind};
pub use failure::{Exit, Failure};
pub use half::Attached;
pub use keep::Keep;
pub use layers::ValveShared;
pub use near::{near, similar};
pub use opening::{OpenFlags, SCRATCH, check_dirty};
pub use pools::create_pool;
pub use recorded::Loss;
pub use shared::SharedHalves;
pub use target::{Plan, absolute, target};
pub use volume::Volume;
