//! The exports of a server, and their properties in the protocol.

use crate::codec::*;
use block::{Discard, Limits};
use export::Export;
use std::cell::RefCell;
use std::rc::Rc;

/// The exports of a server. The first one is the default, which the empty name also selects.
#[derive(Default)]
pub struct Exports {
    list: RefCell<Vec<Rc<Export>>>,
}

impl Exports {
    /// Creates a list of these exports, in this order.
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

    /// Returns the export with this name.
    pub fn find(&self, name: &str) -> Option<Rc<Export>> {
        let list = self.list.borrow();
        let named = list.iter().find(|export| export.name == name);
        named.or_else(|| list.first().filter(|_| name.is_empty())).cloned()
    }

    /// Returns all exports, in order.
    pub fn all(&self) -> Vec<Rc<Export>> {
        self.list.borrow().clone()
    }

    /// Removes an export from the list: new clients do not find it, connected clients keep it.
    pub fn remove(&self, name: &str) {
        self.list.borrow_mut().retain(|export| export.name != name);
    }
}

/// Returns the limits of an export for its clients.
pub(crate) fn limits(export: &Export) -> Limits {
    export.limits(PAYLOAD_BYTES_MAX)
}

/// Returns the information about an export for the handshake. `structured`: the client accepts
/// replies in chunks.
pub(crate) fn info(export: &Export, structured: bool) -> ExportInfo {
    let limits = limits(export);
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
        (export.multi_conn, NBD_FLAG_CAN_MULTI_CONN),
    ];
    let chosen = sometimes.iter().filter(|(is_so, _)| *is_so);
    ExportInfo {
        bytes: limits.bytes(),
        flags: chosen.fold(always, |flags, (_, flag)| flags | flag),
    }
}

/// Returns the request sizes of an export.
pub(crate) fn block_sizes(export: &Export) -> BlockSizes {
    let limits = limits(export);
    let unit = limits.block_logical_bytes;
    // Clients that request sizes enforce the minimum themselves, and refuse smaller requests of
    // their users.
    let min = if limits.unaligned { 1 } else { unit };
    // The protocol requires a power of two, and a maximum that is a multiple of the minimum.
    let wished = limits.block_physical_bytes.max(4096).max(unit);
    let max = limits.io_max_bytes - limits.io_max_bytes % unit;
    let preferred = wished.checked_next_power_of_two().unwrap_or(unit);
    BlockSizes { min, preferred: if preferred <= max { preferred } else { unit }, max }
}
