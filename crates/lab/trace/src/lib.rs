//! Recorded block requests as data: what an event is, the project's own file format, and readers of others.
//!
//! Bytes come in and go out; files, devices and clocks are the callers'. Whatever the bytes are, reading them
//! never panics.
//!
//! ```text
//!   layers::Recorder --events--> recording::{header, block} --bytes--> a file
//!   a file --bytes--> Trace::parse --events--> load::Replay
//!   a file of any format --pieces--> Reader::feed --accesses--> simulator
//! ```
//!
//! A [`Trace`] is in memory as a whole, and can be replayed. A [`Reader`] keeps next to nothing, and tells what a
//! simulation of a cache needs. A new format is a file of `formats/` and a variant of [`Format`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod access;
mod ascii;
mod detect;
mod devices;
mod event;
mod fields;
mod format;
mod formats;
mod malformed;
mod parse;
mod reader;
pub mod recording;
mod trace;
mod window;

pub use access::{Access, BYTES_MAX, Direction, END_MAX};
pub use detect::{SAMPLE_BYTES, Undetected};
pub use devices::{DEVICES_MAX, Devices};
pub use event::{Event, Operation, WORDS};
pub use format::Format;
pub use malformed::Malformed;
pub use reader::{LINE_MAX, Notes, Reader};
pub use trace::Trace;
pub use window::WINDOW;
