//! A volume as a whole: its stack, built from plain data; its server; its life from opening to the
//! last flush. The daemon as a library.
//!
//! ```text
//!   "disk.img", "ram:1G"   --target-->   Spec   --Volume::open-->   shared halves, opened once
//!                                                                        |
//!                                                      Volume::attach(&ring): a Stack for a lane
//!                                                                        |
//!                                        server.rs: listener, connections, a captive command
//! ```
#![forbid(unsafe_code)]

mod failure;
mod fleet;
mod server;
mod target;
mod volume;
mod watch;
mod wire;

pub use failure::{Exit, Failure};
pub use server::{Captive, ServeOptions, Served, serve};
pub use target::{Plan, target};
pub use volume::{Attached, OpenFlags, Volume};
