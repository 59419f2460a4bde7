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
//! wire; [`Link`] is such a device that outlives its connections, which [`dial()`] makes.

mod address;
mod blocking;
mod changes;
mod channel;
mod checks;
mod connected;
mod dial;
mod fault;
mod ferry;
mod former;
mod line;
mod link;
mod negotiation;
mod remote;
mod remote_limits;
mod replies;
mod shared;
mod stretches;
mod under_way;
mod waits;
mod writing;

pub use address::{AddressTls, ExportAddress, NBD_PORT, ServerSocket, percent_encode};
pub use blocking::Connection;
pub use changes::WriteDials;
pub use dial::{Attempt, Dialled, Resolved, dial};
pub use fault::Fault;
pub use former::{flush_again, read_answers};
pub use link::{Link, RECONNECT_NS};
pub use negotiation::{Agreed, Negotiation, Wish};
pub use remote::{IN_FLIGHT_MAX, Remote};
pub use remote_limits::refusal;
pub use replies::{Event, Replies, STATUS_BYTES_MAX};
pub use shared::{Damage, Dial, LinkShared};
pub use under_way::{PIECES_MAX, UnderWay};
pub use waits::{WaitReport, WaitsFor};
pub use writing::Writing;
