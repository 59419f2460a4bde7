//! The NBD protocol: one codec for both sides, a server, and a client.
//!
//! It is the first front of the crate `export`, which has everything that is not the protocol.
//!
//! [`codec`] is pure: types and functions over bytes. [`Wire`] is the byte stream as a lane sees it;
//! the live one is a socket on io_uring (crate `uring`), [`Pipe`] is one in memory for simulated
//! worlds. [`serve`] runs one connection over one wire, in front of the [`block::Stack`] of the
//! export that the client chose.
//!
//! The path of a hit, which everything here is arranged for: one `receive` brings any number of
//! requests; each is checked and answered by `try_now`, with the data copied once, to the place
//! behind its header from where it is sent; one `send` takes all replies. No task switch and no
//! memory from the system. Only what `try_now` does not answer becomes a task of its own.
//!
//! What is under way is bounded for each connection and for all of a server ([`export::Budget`]). A request
//! whose backing has stalled is answered with EIO and goes on behind, with its buffer.
//!
//! [`client`] is the other side: a core without I/O, and a connection over a socket for tests and
//! tools.
//!
//! PROTOCOL.md, beside the sources, ties each demand of the protocol document to the test that
//! holds it.
#![forbid(unsafe_code)]

mod action;
pub mod client;
pub mod codec;
mod connection;
mod end;
mod exports;
mod handshake;
mod inbox;
mod options;
mod outbox;
mod part;
mod payload;
mod pipe;
mod places;
mod receiver;
mod rest;
mod sender;
mod server;
mod status;
mod windows;

pub use block::Wire;
pub use end::End;
pub use exports::Exports;
pub use options::Options;
pub use pipe::{Pipe, pipe};
pub use places::{Place, Places};
pub use server::serve;
