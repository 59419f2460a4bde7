//! Volumes as block devices of the kernel's driver ublk: its structures, and the session of a queue.
//!
//! ```text
//!   a file system
//!        | bio
//!      kernel -- descriptor, data --> Fetch -- the queue's lane --> Queue --> export::Client --> a volume's stack
//! ```
//!
//! Each queue of a device belongs to one lane, and each of its *tags* to one task there: it fetches a request, whose data the
//! kernel has copied into the tag's buffer by then, carries it out, and hands the result in with the next fetch. So what is
//! under way is bounded by the tags, and a hit takes no system call of its own.
//!
//! When the process dies, the kernel keeps the device and what was asked of it, answered or not; the next process takes the
//! queues over, and is asked again. A request may then be carried out twice, which C10 allows for.
//!
//! Source of the protocol: include/uapi/linux/ublk_cmd.h and Documentation/block/ublk.rst of Linux.
#![forbid(unsafe_code)]

mod codec;
mod queue;

pub use codec::{Command, Control, DeviceInfo, Params, STATE_DEAD, STATE_LIVE, STATE_QUIESCED};
pub use queue::{Fetch, IO_BYTES_MAX, Queue, QueuePlan, TAGS};
