//! Recorded block requests as data: what an event is, the project's own file format, and readers of others.
//!
//! Bytes come in and go out; files, devices and clocks are the callers'. Whatever the bytes are, reading them
//! never panics.
//!
//! ```text
//!   layers::Recorder --events--> recording::{header, block} --bytes--> a file
//!   a file --bytes--> Trace::parse --events--> load::Replay
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ascii;
mod event;
mod malformed;
mod parse;
pub mod recording;
mod trace;

pub use event::{Event, Operation, WORDS};
pub use malformed::Malformed;
pub use trace::Trace;
