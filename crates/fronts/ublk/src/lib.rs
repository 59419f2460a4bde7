//! Volumes as block devices of the kernel's ublk driver: the driver's structures, and the session
//! of a queue.
//!
//! ```text
//!   a file system
//!        | bio
//!      kernel -- descriptor, data --> Fetch -- lane --> Queue --> export::Client --> a stack
//! ```
//!
//! Each queue of a device belongs to one lane, and each of its *tags* to one task on that lane. The
//! task fetches a request, whose data the kernel has then already copied into the tag's buffer,
//! serves it, and returns the result with the next fetch. The number of tags bounds the requests in
//! flight, and a hit needs no extra system call.
//!
//! When the process dies, the kernel keeps the device and its unfinished requests. The next process
//! takes over the queues and gets these requests again. A request may then be served twice, which
//! C10 permits.
//!
//! Source of the protocol: include/uapi/linux/ublk_cmd.h and Documentation/block/ublk.rst of Linux.
#![forbid(unsafe_code)]

mod codec;
mod queue;

pub use codec::{Command, Control, DeviceInfo, Params, STATE_DEAD, STATE_LIVE, STATE_QUIESCED};
pub use queue::{Fetch, IO_BYTES_MAX, Queue, QueuePlan, TAGS};
