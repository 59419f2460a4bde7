//! The control socket: what an operator asks a running daemon.
//!
//! One JSON object a line, both ways ([`words`], [`statistics`]). Only the daemon's own user and
//! root are listened to.
//!
//! There are 32 connections at most. One more closes the one that has waited for its client for
//! longest, so no crowd locks an operator out; half a request and an answer that is not taken end a
//! connection after 5 s, silence after 5 min. A client whose connection was closed connects again.

mod client;
pub mod errors;
pub mod losses;
mod server;
pub mod statistics;
pub mod under;
pub mod words;

pub use client::{Daemon, Roll, Silent, call_roll, pause};
pub(crate) use server::Control;
