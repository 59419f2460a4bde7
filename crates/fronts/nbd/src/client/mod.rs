//! The client's side of the protocol.
//!
//! The core knows neither sockets nor clocks. [`Negotiation`] takes the bytes of a server and says
//! what to send until both have agreed. [`UnderWay`] writes requests and remembers them; [`Replies`]
//! turns the server's bytes into [`Event`]s. The bytes may come in pieces of any size. Whatever they
//! are, nothing panics, no memory is taken for what is only claimed, and bytes that the protocol does
//! not allow are a [`Fault`].
//!
//! [`Connection`] puts the core on a socket, for tests and tools: send many, receive in any order. [`Remote`] makes a
//! block device of a lane of it, over any wire.

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
