//! The control socket: what an operator asks a running daemon.
//!
//! One JSON object a line, both ways ([`words`], [`statistics`]). Only the daemon's own user and root are listened to.

mod client;
pub mod errors;
pub mod losses;
mod server;
pub mod statistics;
pub mod under;
pub mod words;

pub use client::{Daemon, Roll, Silent, call_roll, pause};
pub(crate) use server::Control;
