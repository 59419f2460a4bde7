//! The parts that all fronts share, whatever protocol they speak.
//!
//! An [`Export`] is a [`block::Stack`] with a name. A front creates a [`Client`] for each client of
//! an export, and uses it for everything except its protocol:
//!
//! ```text
//!   admit      reserves room for the payload, within the limits of client and server (Budget)
//!   operation  the request in the form in which it is served: the handling of FUA is decided there
//!   note       a flush or a FUA proves that the client flushes: reported to its Session (C11)
//!   ask        an immediate answer, without a task
//!   run        other requests, in a task that launch starts; a stalled backing ends it with EIO.
//!              A change waits for the earlier ones of its client that it overlaps (C10)
//!   answered   the answer was sent: its room is free again
//! ```
//!
//! Requests in flight are bounded per client and for all clients together. A hit needs no
//! allocation and no task.
#![forbid(unsafe_code)]

mod budget;
mod busy;
mod client;
mod counting;
mod export;
mod operation;
mod pool;
mod session;
mod stop;

pub use budget::{Budget, Load};
pub use busy::BusyTime;
pub use client::{Bounds, Client, Running};
pub use export::Export;
pub use operation::Operation;
pub use pool::Buffer;
pub use session::{Session, Unwatched};
pub use stop::{Deadline, Stop};
