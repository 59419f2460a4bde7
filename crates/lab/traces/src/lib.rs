//! Properties of a recorded trace, and its conversion to other formats (`overdrive trace`).
//!
//! ```text
//!   simulator::TraceFile --accesses--> info::Study --> Info
//!                        --accesses--> convert::convert --> a recording, CSV, a log for fio
//!   lines of tracefs --> Matcher --entries--> RecordingWriter --> a recording
//!                        --accesses--> replay::read --> Trace, for a target
//! ```
//!
//! A trace of any length needs little memory: the count of the footprint, the reuse distances up to
//! 4 GiB, and a window of requests.
#![forbid(unsafe_code)]

pub mod convert;
mod depths;
mod info;
pub mod json;
mod matcher;
mod packed;
mod recording_writer;
pub mod replay;
mod sizes;
mod streams;

pub use depths::{DEPTHS, Depths};
pub use info::{Amounts, Info, Named, REUSE_BYTES, Reuse, Study, each, study};
pub use matcher::{Matched, Matcher};
pub use packed::Packed;
pub use recording_writer::RecordingWriter;
pub use sizes::{SIZES, Sizes};
