//! The NBD protocol: one codec for both sides, a server, and a client.
//!
//! The crate `export` contains the parts of a front that do not depend on the protocol.
//!
//! [`codec`] is pure: types and functions over bytes. [`Wire`] is the byte stream as a lane sees
//! it; the live one is a socket on io_uring (crate `ring`), [`Pipe`] is one in memory for simulated
//! worlds. [`serve`] runs one connection over one wire, and serves the [`block::Stack`] of the
//! export that the client has chosen.
//!
//! The design is optimized for hits: one `receive` returns any number of requests; each is checked
//! and answered by `try_now`, which copies the data once, directly behind the reply's header in the
//! send buffer; one `send` transmits all replies. There is no task switch and no allocation. Only
//! requests that `try_now` does not answer become tasks.
//!
//! The requests in flight are bounded per connection and for all connections of a server
//! ([`export::Budget`]). A request whose backing has stalled is answered with EIO and continues in
//! the background with its buffer.
//!
//! [`client`] is the other side: a core without I/O, and a connection over a socket for tests and
//! tools. [`fence`] decides which changes a client may send to an export, and when.
//!
//! PROTOCOL.md, in the directory of this crate, links each requirement of the protocol document to
//! its test.
#![forbid(unsafe_code)]

mod action;
pub mod client;
pub mod codec;
mod connection;
mod connection_limit;
mod end;
mod exports;
pub mod fence;
mod handshake;
mod inbox;
mod options;
mod outbox;
mod part;
mod payload;
mod pipe;
mod receiver;
mod rest;
mod sender;
mod server;
mod status;
mod windows;

pub use block::Wire;
pub use connection_limit::{ConnectionLimit, ConnectionPermit};
pub use end::End;
pub use exports::Exports;
pub use options::Options;
pub use pipe::{Pipe, pipe};
pub use server::serve;
