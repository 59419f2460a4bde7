//! What every front needs that serves a block device to clients, whatever it speaks to them.
//!
//! An [`Export`] is a [`block::Stack`] under a name. A front makes a [`Client`] of each client that
//! enters one, and asks that for everything that is not its protocol:
//!
//! ```text
//!   admit      room for the payload, inside what the client and the server may have under way (Budget)
//!   operation  what the client asks for as it is carried out: FUA is decided there
//!   note       a flush or a FUA proves that the client flushes: its Session hears of it (C11)
//!   ask        an answer here and now, without a task
//!   run        everything else, in a task that launch starts; a stalled backing ends it with EIO.
//!              A change waits for the earlier ones of its client that it overlaps (C10)
//!   answered   the answer has gone: its room is free again
//! ```
//!
//! Whatever is asked for by many clients is bounded for each and for all. The path of a hit takes no
//! memory and no task.
#![forbid(unsafe_code)]

mod budget;
mod client;
mod counting;
mod export;
mod operation;
mod pool;
mod running;
mod session;
mod stop;

pub use budget::{Budget, Load};
pub use client::{Bounds, Client};
pub use export::Export;
pub use operation::Operation;
pub use pool::Buffer;
pub use running::Running;
pub use session::{Session, Unwatched};
pub use stop::{Deadline, Stop};
