//! What is served: exports, and what they learn about their clients.

use crate::codec::*;
use crate::stop::Stop;
use block::{Discard, Limits, Stack};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What the owner of an export learns about one client. Made when the client enters transmission,
/// dropped when the last of its requests has ended and it has gone.
pub trait Session {
    /// The client has sent a flush, or a change with FUA: it knows what a write buffer is (clause
    /// C11). Called on every such request, before it is run.
    fn flushed(&self) {}
}

/// A session that is not observed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unwatched;

impl Session for Unwatched {}

/// One block device, under a name.
pub struct Export {
    /// What clients ask for; at most 4096 bytes.
    pub name: String,
    /// A text for people; may be empty.
    pub description: String,
    /// Where requests go. Its grain is 512: clients send real bytes.
    pub stack: Stack,
    /// Refuse changes even if the stack would take them.
    pub read_only: bool,
    /// A flush on one connection covers the others: clients may use several at once.
    pub multi_conn: bool,
    /// Ends the connections of this export alone, in place of [`crate::Options::stop`].
    pub stop: Option<Arc<Stop>>,
    /// Makes the session of a new client.
    pub session: Rc<dyn Fn() -> Box<dyn Session>>,
}

impl Export {
    /// An export that every client may change, over several connections, and that is not watched.
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

    /// The stack's limits as this export's clients meet them.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = self.stack.limits().clone();
        limits.read_only |= self.read_only;
        limits.io_max_bytes = limits.io_max_bytes.min(PAYLOAD_BYTES_MAX);
        limits
    }

    pub(crate) fn info(&self, structured: bool) -> ExportInfo {
        let limits = self.limits();
        let always = NBD_FLAG_HAS_FLAGS
            | NBD_FLAG_SEND_FLUSH
            | NBD_FLAG_SEND_FUA
            | NBD_FLAG_SEND_WRITE_ZEROES
            | NBD_FLAG_SEND_FAST_ZERO
            | NBD_FLAG_SEND_CACHE;
        let sometimes = [
            (limits.read_only, NBD_FLAG_READ_ONLY),
            (limits.rotational, NBD_FLAG_ROTATIONAL),
            (limits.discard != Discard::Ignored, NBD_FLAG_SEND_TRIM),
            (structured, NBD_FLAG_SEND_DF),
            (self.multi_conn, NBD_FLAG_CAN_MULTI_CONN),
        ];
        let chosen = sometimes.iter().filter(|(is_so, _)| *is_so);
        ExportInfo {
            bytes: limits.bytes(),
            flags: chosen.fold(always, |flags, (_, flag)| flags | flag),
        }
    }

    pub(crate) fn block_sizes(&self) -> BlockSizes {
        let limits = self.limits();
        let unit = limits.block_logical_bytes;
        // Clients that ask hold to the minimum themselves, and refuse what their users want below it.
        let min = if limits.unaligned { 1 } else { unit };
        // The protocol wants a power of two, and a maximum that is a multiple of the minimum.
        let wished = limits.block_physical_bytes.max(4096).max(unit);
        let max = limits.io_max_bytes - limits.io_max_bytes % unit;
        let preferred = wished.checked_next_power_of_two().unwrap_or(unit);
        BlockSizes { min, preferred: if preferred <= max { preferred } else { unit }, max }
    }
}

/// The exports of a server. The first one is the default: it answers to the empty name, too.
#[derive(Default)]
pub struct Exports {
    list: RefCell<Vec<Rc<Export>>>,
}

impl Exports {
    /// These exports, in this order.
    ///
    /// # Panics
    /// If two have the same name, a name or description is longer than 4096 bytes, or a stack's
    /// grain is not 512.
    pub fn new(exports: impl IntoIterator<Item = Export>) -> Exports {
        let list: Vec<Rc<Export>> = exports.into_iter().map(Rc::new).collect();
        for (index, export) in list.iter().enumerate() {
            let texts = [&export.name, &export.description];
            assert!(texts.iter().all(|text| text.len() <= STRING_BYTES_MAX));
            assert_eq!(export.stack.limits().grain, 512, "clients send real bytes");
            let earlier = list[..index].iter().any(|other| other.name == export.name);
            assert!(!earlier, "two exports have the name '{}'", export.name);
        }
        Exports { list: RefCell::new(list) }
    }

    /// The export with this name.
    pub fn find(&self, name: &str) -> Option<Rc<Export>> {
        let list = self.list.borrow();
        let named = list.iter().find(|export| export.name == name);
        named.or_else(|| list.first().filter(|_| name.is_empty())).cloned()
    }

    /// All exports, in order.
    pub fn all(&self) -> Vec<Rc<Export>> {
        self.list.borrow().clone()
    }

    /// Takes an export off the list: new clients do not find it, connected ones keep it.
    pub fn remove(&self, name: &str) {
        self.list.borrow_mut().retain(|export| export.name != name);
    }
}
