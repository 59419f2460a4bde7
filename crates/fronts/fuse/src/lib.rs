//! Volumes as files of a directory: a FUSE file system, spoken to the kernel directly.
//!
//! ```text
//!   a program, or a loop device
//!        | read, write, fsync, fallocate, lseek
//!      kernel -- messages --> Device -- any lane --> Session --> export::Client --> a volume's stack
//!                                                      |
//!                                        Mount: files, handles, what all lanes share
//! ```
//!
//! The kernel caches no data of these files (`FOPEN_DIRECT_IO`), so that a flush here is a flush, and memory is not spent
//! twice; writes to one file do not wait for one another (`FOPEN_PARALLEL_DIRECT_WRITES`, Linux 6.2).
//!
//! One lane *leads*: it waits for messages. As long as there is one more whenever it has taken one, it calls
//! others to *help*. So a client that asks for one thing at a time is served by one thread, and many by all.
//!
//! Nothing that the kernel remembers is known to this process alone: a node's number is a hash of its name, and a handle
//! only counts. So when a process dies and another goes on with the same mount, which a holder has kept open, it asks
//! the kernel to send again what was not answered ([`Session::resend`]). While no process serves
//! the mount, the one that keeps the connection answers what needs no data ([`Outline`]).
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
