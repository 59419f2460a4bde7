//! Rigs in real time: targets of suites other than modelled drives.
//!
//! ```text
//!   "disk.img", "/dev/sdb", "nbd+unix://...", "null:8G"  --Live::open--> a device on a ring's lane
//!                                                                             |
//!   suites::run_on(rig, plan) <------------------ Rig ------------------------+
//! ```
//!
//! Two suites run on the files of a mounted file system instead of a device: [`tree`].
//!
//! Existing data is protected: an existing image, device or export is written only if
//! [`Wishes::destroy`] is set. A file that a rig has created is removed with it.
#![forbid(unsafe_code)]

mod export;
mod facts;
mod files;
mod live;
pub mod prices;
pub mod tree;
mod wishes;

pub use facts::machine;
pub use live::{Live, size_of};
pub use wishes::Wishes;
