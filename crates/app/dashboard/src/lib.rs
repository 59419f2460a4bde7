//! The dashboard: pages for a browser, from a process of its own, over the control sockets of the
//! user's daemons.
//!
//! ```text
//!   browser --server, routes--> requests (Host, Origin, session, CSRF) --pages--> HTML
//!                                   |  access (tokens, sessions)      \--events--> the same, live
//!                                   +--actions--> control socket of a daemon
//!   crate `live`: figures of all volumes      runs, past, program: `overdrive bench`, `history`
//! ```
//!
//! The pages are rendered here and work without a script. Anything that may take long, or may
//! fail by itself, runs in another process: this program with a command, whose JSON is shown.
#![forbid(unsafe_code)]

mod access;
mod actions;
mod app;
mod charts;
mod events;
mod frame;
mod limits;
mod notices;
mod pages;
mod past;
mod program;
mod requests;
mod routes;
mod runs;
mod server;
mod words;

pub use limits::Limits;
pub use server::{Dashboard, Options};
