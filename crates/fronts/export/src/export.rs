//! A served device.

use crate::busy::BusyTime;
use crate::session::{Session, Unwatched};
use crate::stop::Stop;
use block::{Limits, Stack};
use std::rc::Rc;
use std::sync::Arc;

/// One block device with a name.
#[derive(Clone)]
pub struct Export {
    /// Name that clients request. A front may limit its length.
    pub name: String,
    /// Text for people; may be empty.
    pub description: String,
    /// The device that serves the requests. Its grain is 512: clients send real bytes.
    pub stack: Stack,
    /// Whether changes are refused even if the stack would accept them.
    pub read_only: bool,
    /// Whether a flush on one connection covers the others, so that clients may use several at
    /// once.
    pub multi_conn: bool,
    /// Ends the clients of this export only, instead of the front's own.
    pub stop: Option<Arc<Stop>>,
    /// Measures the time in which clients wait for requests. None: it is not reported.
    pub busy: Option<Arc<BusyTime>>,
    /// Makes the session of a new client.
    pub session: Rc<dyn Fn() -> Box<dyn Session>>,
}

impl Export {
    /// Returns an export that every client may change, over several connections, and whose sessions
    /// report nothing to an owner.
    pub fn new(name: &str, stack: Stack) -> Export {
        Export {
            name: name.to_owned(),
            description: String::new(),
            stack,
            read_only: false,
            multi_conn: true,
            stop: None,
            busy: None,
            session: Rc::new(|| Box::new(Unwatched)),
        }
    }

    /// Returns the limits that this export has for its clients, through a front that transfers at
    /// most `io_bytes_max` bytes at a time.
    pub fn limits(&self, io_bytes_max: u32) -> Limits {
        let mut limits = self.stack.limits().clone();
        limits.read_only |= self.read_only;
        limits.io_max_bytes = limits.io_max_bytes.min(io_bytes_max);
        limits
    }
}
