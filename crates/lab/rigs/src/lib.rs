//! Rigs in real time: what a suite runs on when it is not a modelled drive.
//!
//! ```text
//!   "disk.img", "/dev/sdb", "nbd+unix://...", "null:8G"  --Live::open-->  a device on the lane of a ring
//!                                                                             |
//!   suites::run_on(rig, plan) <------------------ Rig ------------------------+
//! ```
//!
//! Two suites run on the files of a mounted file system instead of a device: [`tree`].
//!
//! What may be lost is asked for first: an image, a device or an export that is there is written only where
//! [`Wishes::destroy`] says so. A file that a rig has made is removed with it.
#![forbid(unsafe_code)]

mod export;
mod facts;
mod files;
mod live;
pub mod tree;
mod wishes;

pub use facts::machine;
pub use live::{Live, size_of};
pub use wishes::Wishes;
