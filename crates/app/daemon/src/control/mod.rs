//! The control socket as an operator uses it: requests to a running daemon, and its answers.
//!
//! One JSON object per line, both ways ([`words`], [`statistics`]). Only the daemon's own user and
//! root may send requests. The daemon carries them out in `serve/operator.rs`.

mod client;
pub mod errors;
pub(crate) mod held;
pub mod losses;
pub mod lower_drives;
pub(crate) mod recorded;
pub mod statistics;
pub mod words;

pub use client::{Daemon, Roll, Silent, call_roll, pause};
pub use recorded::RecordedPage;
