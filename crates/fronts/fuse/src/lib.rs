//! Volumes as files of a directory: a FUSE file system, without libfuse.
//!
//! ```text
//!   a program, or a loop device
//!        | read, write, fsync, fallocate, lseek
//!      kernel -- messages --> Device -- any lane --> Session --> export::Client --> a stack
//!                                                      |
//!                                        Mount: files, handles, shared by all lanes
//! ```
//!
//! The kernel caches no data of these files (`FOPEN_DIRECT_IO`): a flush covers all written data,
//! and no data is cached twice. Writes to one file run in parallel (`FOPEN_PARALLEL_DIRECT_WRITES`,
//! Linux 6.2).
//!
//! One lane *leads*: it waits for messages. While more messages are waiting than it can take, it
//! calls other lanes to *help*. So one thread serves a client that sends one request at a time, and
//! all threads serve many clients.
//!
//! The kernel holds no identifiers that only this process could interpret: a node's number is a
//! hash of its name, and a handle is a counter. When a process dies, a holder keeps the mount open,
//! and the next process that serves it makes the kernel send all unanswered messages again
//! ([`Session::resend`]). While no process serves the mount, the holder of the connection answers
//! the messages that need no data ([`Outline`]).
//!
//! Source of the protocol: include/uapi/linux/fuse.h, and Documentation/filesystems/fuse/ of Linux.
#![forbid(unsafe_code)]

mod bytes;
mod codec;
mod device;
mod file;
mod listing;
mod message;
mod mount;
mod names;
mod outline;
mod seek;
mod session;
mod space;
mod transfer;

pub use device::Device;
pub use mount::{Mount, Options, check_names};
pub use outline::{
    MESSAGE_BYTES_MAX, Outline, OutlineFile, Verdict, refusal, resend_message, verdict,
};
pub use session::Session;
