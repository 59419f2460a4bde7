//! Recorded block requests as data: events, the project's own file format, and readers of other
//! formats.
//!
//! The crate works on bytes in memory; files, devices and clocks belong to the callers. Reading
//! never panics, whatever the bytes are.
//!
//! ```text
//!   layers::Recorder --events--> recording::{header, block} --bytes--> a file
//!   a file --bytes--> Trace::parse --events--> load::Replay
//!   a file of any format --pieces--> Reader::feed --accesses--> simulator, traces
//!   pages of tracefs --> RingPages --> RingEvent --> BlockEvent --> traces::Matcher
//!                               \--> TaskEvent
//!   accesses --> text::Csv, text::FioLog --> a file
//! ```
//!
//! A [`Trace`] is in memory as a whole, and can be replayed. A [`Reader`] needs little memory, and
//! returns the accesses that a simulation of a cache needs. A new format is a file of `formats/`
//! and a variant of [`Format`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod access;
mod ascii;
mod block_event;
mod detect;
mod devices;
mod event;
mod fields;
mod format;
mod formats;
mod malformed;
mod parse;
mod processes;
mod reader;
pub mod recording;
mod ring_fields;
mod ring_pages;
mod ring_tasks;
pub mod text;
mod trace;
mod window;

pub use access::{Access, BYTES_MAX, Details, Direction, END_MAX, Marks};
pub use block_event::{BlockEvent, Step};
pub use detect::{SAMPLE_BYTES, Undetected};
pub use devices::{DEVICES_MAX, Devices};
pub use event::{Event, Operation, WORDS};
pub use format::Format;
pub use malformed::Malformed;
pub use processes::{PROCESSES_MAX, Processes};
pub use reader::{LINE_MAX, Notes, Reader};
pub use ring_pages::{RingEvent, RingPages, RingRecord};
pub use ring_tasks::{TaskChange, TaskEvent};
pub use trace::Trace;
pub use window::{WINDOW, Window};
