//! The open nodes of a stack: the state of each layer and backing that lanes share.
//!
//! ```text
//!   Spec (plain data)  --open-->  OpenNode, one file each  --attach(&ring)-->  a Stack for a lane
//!
//!     file nbd ram null model backings: no children
//!     pool stripe             one backing of several
//!     layer cache             layers: one child, whose identity and descriptors they return
//! ```
//!
//! Each node defines its identity, the descriptors retained for the next process, its fence, and
//! its state. No other code distinguishes kinds of nodes, so a new kind is a file here and a row in
//! `opening.rs`. A layer that only changes how requests reach its child, such as a delay, is a file
//! of the crate `layers` and a row in `layer.rs`. A backing outside this crate implements
//! [`OpenNode`] and [`Backing`].

mod backing;
mod cache;
mod file;
mod layer;
mod memory;
mod model;
mod nbd;
mod nbd_way;
mod nbd_writing;
mod pool;
mod retention;
mod stripe;

pub use backing::{Backing, Former, Opened, Opening};
pub(crate) use cache::CacheNode;
pub(crate) use file::FileBacking;
pub(crate) use layer::open as open_layer;
pub(crate) use memory::{NullNode, RamNode};
pub(crate) use model::{ModelNode, open as open_model};
pub use nbd::{ExportWaits, unreachable_export};
pub(crate) use nbd::{NbdBacking, export_key};
pub use pool::create_pool;
pub(crate) use pool::{PoolNode, open as open_pool};
pub use retention::{Exchanger, Retention};
pub(crate) use stripe::open as open_stripe;

use ::cache::Cache;
use block::{Limits, Stack};
use host::File;
use ring::Ring;
use std::any::Any;
use std::fmt;
use std::io;

/// A volume's stack on one lane.
pub struct Attached {
    /// Top of the stack.
    pub stack: Stack,
    /// The cache, if there is one.
    pub cache: Option<Cache>,
}

/// Identity of a backing, apart from its path. Two openings of one backing have the same identity,
/// under any name and in any process; two different backings have different identities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The identity as a file name: at most 64 letters, digits, `-`, `_` and `.`.
    pub key: String,
    /// The identity as a number, for the superblock of an arena.
    pub number: u64,
    /// Distinguishes the backing from a later one with the same key, such as a new file with a
    /// reused inode number. Empty: nothing distinguishes them.
    pub birth: String,
    /// The backing as its user wrote it, for messages.
    pub name: String,
}

/// Reason why a holder cannot retain a node for the next process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unkept {
    /// It consists of several backings.
    Several,
    /// Its contents are memory of this process.
    Process,
    /// It has no contents.
    Empty,
    /// It is only read, so that nothing of it needs to be retained.
    OnlyRead,
    /// Another reason, as a sentence without a full stop. A cache above it does not absorb writes.
    Other(String),
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unkept::Several => "it lies on several devices",
            Unkept::Process => "it is memory of this process",
            Unkept::Empty => "it has no contents",
            Unkept::OnlyRead => "it is only read",
            Unkept::Other(reason) => reason,
        })
    }
}

/// The state of a backing while it is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Damage since the backing was opened, as a sentence.
    pub damage: Option<String>,
    /// Whether the backing became smaller than it was when opened, so that changes and flushes
    /// fail.
    pub was_short: bool,
}

/// An open node of a stack. Each lane attaches a handle to it.
pub trait OpenNode: Any + Send + Sync {
    /// Returns its child nodes, in order. Missing members are left out.
    fn children(&self) -> Vec<&dyn OpenNode> {
        Vec::new()
    }

    /// Returns its geometry and capabilities.
    fn limits(&self) -> Limits;

    /// Returns a handle on it for the ring's lane.
    fn attach(&self, ring: &Ring) -> Attached;

    /// Whether it joins several devices into one.
    fn is_of_several(&self) -> bool {
        false
    }

    /// Returns its identity. None: its contents end with this process, or it consists of several
    /// backings. A layer has the identity of its child.
    fn identity(&self) -> Option<Identity> {
        only_child(self.children(), self.is_of_several())?.identity()
    }

    /// Returns the descriptors, at least one, that a holder retains with the memory of a cache
    /// above, so that the next process continues with the same open backing: for a file, its locked
    /// descriptor; for a network volume, its connections. A layer returns those of its child.
    ///
    /// # Errors
    /// The reason why it cannot be retained.
    fn keepable(&self) -> Result<Vec<File>, Unkept> {
        only_child(self.children(), self.is_of_several())
            .map_or(Err(Unkept::Process), OpenNode::keepable)
    }

    /// Whether it may be written only if a holder retains its descriptors ([`Self::keepable`])
    /// together with the memory of a cache: a process that is killed would otherwise leave requests
    /// about which the next one knows nothing.
    fn needs_holder(&self) -> bool {
        false
    }

    /// Returns the versions of [`Self::keepable`]. None: its result does not change. A layer
    /// returns those of its child.
    fn retention(&self) -> Option<&Retention> {
        let child = only_child(self.children(), self.is_of_several());
        child.and_then(OpenNode::retention)
    }

    /// Returns the time of the monotonic clock from which on no request of an ended connection can
    /// reach the backing any more. None: that is so now. A layer returns that of its child.
    fn settled_at(&self, now_ns: u64) -> Option<u64> {
        let child = only_child(self.children(), self.is_of_several());
        child.and_then(|child| child.settled_at(now_ns))
    }

    /// Describes the requests to an export that wait. None: it is no export that is written. A
    /// layer returns the description of its child.
    fn export_waits(&self, now_ns: u64) -> Option<ExportWaits> {
        let child = only_child(self.children(), self.is_of_several());
        child.and_then(|child| child.export_waits(now_ns))
    }

    /// Whether this process has a lock on it that all programs of all machines see which use it and
    /// respect locks. A layer returns the answer of its child.
    fn is_locked(&self) -> bool {
        only_child(self.children(), self.is_of_several()).is_some_and(OpenNode::is_locked)
    }

    /// Returns the maximum number of lanes that can be attached, of a backing that limits it. None:
    /// it does not, or is a layer.
    fn lanes_max(&self) -> Option<usize> {
        None
    }

    /// Waits until no request of an earlier process can reach the backing any more (C15). Called
    /// once, before the first write. Requests by io_uring need no wait here: the cache's memory
    /// fences them.
    ///
    /// # Errors
    /// Such requests may still arrive: everything stays retained, and the next opening
    /// tries again.
    fn fence(&self) -> io::Result<()> {
        only_child(self.children(), self.is_of_several()).map_or(Ok(()), OpenNode::fence)
    }

    /// Whether the backing may have lost changes of an earlier process that no flush has covered,
    /// as [`Self::fence`] has found. The memory of the cache above must note that before it is
    /// recovered. A layer returns the answer of its child.
    fn has_lost_changes(&self) -> bool {
        only_child(self.children(), self.is_of_several()).is_some_and(OpenNode::has_lost_changes)
    }

    /// Notes that the memory of the cache above has noted such a loss.
    fn note_loss_reported(&self) {
        if let Some(child) = only_child(self.children(), self.is_of_several()) {
            child.note_loss_reported();
        }
    }

    /// Returns its state, without that of its children.
    fn health(&self) -> Health {
        Health::default()
    }

    /// Accepts the backing again if it was too short and has its former size back. Returns whether
    /// this happened.
    fn accept_size(&self) -> bool {
        false
    }
}

/// Returns the child of a layer.
fn only_child(children: Vec<&dyn OpenNode>, is_of_several: bool) -> Option<&dyn OpenNode> {
    children.into_iter().next().filter(|_| !is_of_several)
}

impl dyn OpenNode {
    /// Iterates over this node and all nodes below it, top first.
    pub(crate) fn walk(&self) -> impl Iterator<Item = &dyn OpenNode> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.children().into_iter().rev());
            Some(next)
        })
    }

    /// Iterates over the backings at the bottom, in order.
    pub(crate) fn backings(&self) -> impl Iterator<Item = &dyn OpenNode> {
        self.walk().filter(|node| node.children().is_empty())
    }

    /// Iterates over this node and those below it down to the backing. A pool or a stripe counts as
    /// one backing.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &dyn OpenNode> {
        std::iter::successors(Some(self), |node| only_child(node.children(), node.is_of_several()))
    }

    /// Returns the first node of this type in the chain ([`Self::chain`]).
    pub(crate) fn find<T: OpenNode>(&self) -> Option<&T> {
        self.chain().find_map(|node| (node as &dyn Any).downcast_ref())
    }
}
