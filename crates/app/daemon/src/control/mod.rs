//! The control socket: requests of an operator to a running daemon.
//!
//! One JSON object per line, both ways ([`words`], [`statistics`]). Only the daemon's own user and
//! root may send requests.
//!
//! There are at most 32 connections. A further one closes the one that has waited longest for its
//! client, so no crowd locks an operator out. Half a request and an answer that is not read end a
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
