//! The client's side of the protocol.
//!
//! The core uses neither sockets nor clocks. [`Negotiation`] consumes a server's bytes and produces
//! the bytes to send until both sides have agreed. [`UnderWay`] writes requests and records them;
//! [`Replies`] parses the server's bytes into [`Event`]s. The bytes may arrive in pieces of any
//! size. The core never panics, and never allocates memory by a length that the server only claims;
//! bytes that violate the protocol are a [`Fault`].
//!
//! [`Connection`] runs the core on a socket, for tests and tools: it sends many requests and
//! receives replies in any order. [`Remote`] makes the core a block device of a lane, over any
//! wire.

mod blocking;
mod fault;
mod negotiation;
mod remote;
mod replies;
mod under_way;

pub use blocking::Connection;
pub use fault::Fault;
pub use negotiation::{Agreed, Negotiation, Wish};
pub use remote::Remote;
pub use replies::{Event, Replies, STATUS_BYTES_MAX};
pub use under_way::{PIECES_MAX, UnderWay};
