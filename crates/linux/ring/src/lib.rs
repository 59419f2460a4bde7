//! The live loop that drives a lane on io_uring, and the backends, sockets and shared memory on it.
//!
//! - [`Ring`]: one lane's ring; [`Ring::run`] is the live counterpart of the simulated `World`.
//! - [`FileBackend`]: a regular file or a block device ([`host::FileVolume`]) as a lane's backing.
//! - [`shared_memory`]: the arena's memory.
//! - [`Fence`]: detects when the I/O of a dead daemon has ended.
//! - [`UblkControl`], [`UblkQueue`]: the kernel's driver ublk.
//! - [`Listener`]: unix and TCP sockets; [`peer`]: the process at the other end of a unix one.
//!
//! The rule that makes this crate's `unsafe` kernel calls sound: the ring, not the waiting future,
//! holds all resources of an operation in flight (buffers, scatter lists, the open file) until its
//! completion arrives.
#![deny(unsafe_code)]

mod arena;
mod backend;
mod bell;
mod contention;
mod fence;
mod flight;
mod halt_poll;
mod idle;
mod messages;
mod operations;
mod polling;
mod punctual;
mod restrictions;
mod ring;
mod sleep;
mod socket;
mod sockets;
mod spare;
mod stream;
mod ublk;

pub use arena::{HugePages, SharedMemory, shared_memory, shared_memory_of};
pub use backend::FileBackend;
pub use fence::Fence;
pub use messages::{send_message, take_message};
pub use polling::{Polled, Polling};
pub use ring::Ring;
pub use socket::{Listener, Peer, peer, sweep};
pub use sockets::{finish, shutdown};
pub use stream::Socket;
pub use ublk::{UblkControl, UblkQueue};
