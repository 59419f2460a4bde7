//! What is served.

use crate::session::{Session, Unwatched};
use crate::stop::Stop;
use block::{Limits, Stack};
use std::rc::Rc;
use std::sync::Arc;

/// One block device, under a name.
#[derive(Clone)]
pub struct Export {
    /// What clients ask for. A front may bound its length.
    pub name: String,
    /// A text for people; may be empty.
    pub description: String,
    /// Where requests go. Its grain is 512: clients send real bytes.
    pub stack: Stack,
    /// Refuse changes even if the stack would take them.
    pub read_only: bool,
    /// A flush on one connection covers the others: clients may use several at once.
    pub multi_conn: bool,
    /// Ends the clients of this export alone, in place of the front's own.
    pub stop: Option<Arc<Stop>>,
    /// Makes the session of a new client.
    pub session: Rc<dyn Fn() -> Box<dyn Session>>,
}

impl Export {
    /// An export that every client may change, over several connections, and that tells no owner of its
    /// clients.
    pub fn new(name: &str, stack: Stack) -> Export {
        Export {
            name: name.to_owned(),
            description: String::new(),
            stack,
            read_only: false,
            multi_conn: true,
            stop: None,
            session: Rc::new(|| Box::new(Unwatched)),
        }
    }

    /// The stack's limits as this export's clients meet them, through a front that transfers at most so
    /// many bytes at a time.
    pub fn limits(&self, io_bytes_max: u32) -> Limits {
        let mut limits = self.stack.limits().clone();
        limits.read_only |= self.read_only;
        limits.io_max_bytes = limits.io_max_bytes.min(io_bytes_max);
        limits
    }
}
