//! The open nodes of a stack: what the lanes share of each layer and backing.
//!
//! ```text
//!   Spec (plain data)  --open-->  OpenNode, one file each  --attach(&ring)-->  a Stack for a lane
//!
//!     file ram null model     backings: no children
//!     pool stripe             one backing of several
//!     delay faults cache      layers: one child, whose identity and keeping are theirs
//! ```
//!
//! A node says itself how it is identified, kept for the next process, fenced, and how it fares.
//! Whatever is asked of a stack is asked of its nodes, so a new kind of node is a file here and a
//! line in `open.rs`; a backing outside this crate implements [`OpenNode`] and
//! [`Backing`](crate::Backing).

mod cache;
mod delay;
mod faults;
mod file;
mod memory;
mod model;
mod pool;
mod stripe;

pub(crate) use cache::CacheNode;
pub(crate) use delay::DelayNode;
pub(crate) use faults::FaultsNode;
pub(crate) use file::FileBacking;
pub(crate) use memory::{NullNode, RamNode};
pub(crate) use model::{ModelNode, open as open_model};
pub use pool::create_pool;
pub(crate) use pool::{PoolNode, open as open_pool};
pub(crate) use stripe::open as open_stripe;

use ::cache::Cache;
use block::{Limits, Stack};
use ring::Ring;
use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// A volume's stack on one lane.
pub struct Attached {
    /// Its top.
    pub stack: Stack,
    /// Its cache, if it has one.
    pub cache: Option<Cache>,
}

/// What a backing is, apart from its path. Two openings of one backing have the same identity, under
/// whatever name, in whatever process; those of two backings differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Fit for file names, at most 64 letters, digits, `-`, `_` and `.`.
    pub key: String,
    /// The same as a number, for the superblock of an arena.
    pub number: u64,
    /// A mark that a later backing with the same key does not have; empty: there is none.
    pub birth: String,
    /// The backing as its user wrote it, for messages.
    pub name: String,
}

/// Why a holder cannot keep a node for the next process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unkept {
    /// It is not one backing but several.
    Several,
    /// Its contents are memory of this process.
    Process,
    /// It has no contents.
    Empty,
    /// Another reason, as a sentence without a full stop. A cache above does not absorb writes.
    Other(String),
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unkept::Several => "it lies on several devices",
            Unkept::Process => "it is memory of this process",
            Unkept::Empty => "it has no contents",
            Unkept::Other(reason) => reason,
        })
    }
}

/// The state of a backing while it is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Damage since it was opened, as a sentence.
    pub damage: Option<String>,
    /// It was found smaller than it was opened, so changes and flushes fail.
    pub was_short: bool,
}

/// A node of a stack that is open: what the handles of all lanes are attached to.
pub trait OpenNode: Any + Send + Sync {
    /// The nodes it stands on, in order. Members that are gone are left out.
    fn children(&self) -> Vec<&dyn OpenNode> {
        Vec::new()
    }

    /// Its geometry and what it can do.
    fn limits(&self) -> Limits;

    /// As the ring's lane uses it.
    fn attach(&self, ring: &Ring) -> Attached;

    /// Whether it is several devices as one.
    fn is_of_several(&self) -> bool {
        false
    }

    /// Its identity; None: its contents end with this process, or it is not one backing. A layer
    /// has that of its child.
    fn identity(&self) -> Option<Identity> {
        only_child(self.children(), self.is_of_several())?.identity()
    }

    /// The descriptors, at least one, that a holder keeps with the memory of a cache above, so that
    /// the next process goes on with this very backing: a file's, with its locks; of a network
    /// volume its connections. A layer keeps those of its child.
    ///
    /// # Errors
    /// The reason why it cannot be kept.
    fn keepable(&self) -> Result<Vec<BorrowedFd<'_>>, Unkept> {
        only_child(self.children(), self.is_of_several())
            .map_or(Err(Unkept::Process), OpenNode::keepable)
    }

    /// Waits until no request of an earlier process can reach the backing any more (C15). Called
    /// once, before the first write; requests by io_uring are fenced by the cache's memory.
    ///
    /// # Errors
    /// They may still come: everything stays kept, and the next opening tries again.
    fn fence(&self) -> io::Result<()> {
        only_child(self.children(), self.is_of_several()).map_or(Ok(()), OpenNode::fence)
    }

    /// Its state, without that of its children.
    fn health(&self) -> Health {
        Health::default()
    }

    /// Goes on after it was too short, if it has its size again. Whether it was, and has.
    fn accept_size(&self) -> bool {
        false
    }
}

/// The child of a layer.
fn only_child(children: Vec<&dyn OpenNode>, is_of_several: bool) -> Option<&dyn OpenNode> {
    children.into_iter().next().filter(|_| !is_of_several)
}

impl dyn OpenNode {
    /// This one and all below it, top first.
    pub(crate) fn walk(&self) -> impl Iterator<Item = &dyn OpenNode> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.children().into_iter().rev());
            Some(next)
        })
    }

    /// The backings at its bottom, in order.
    pub(crate) fn backings(&self) -> impl Iterator<Item = &dyn OpenNode> {
        self.walk().filter(|node| node.children().is_empty())
    }

    /// This one and those below it down to the backing: a pool or a stripe is one, whatever its
    /// members are.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &dyn OpenNode> {
        std::iter::successors(Some(self), |node| only_child(node.children(), node.is_of_several()))
    }

    /// The node of this type above the backing, or the backing itself.
    pub(crate) fn find<T: OpenNode>(&self) -> Option<&T> {
        self.chain().find_map(|node| (node as &dyn Any).downcast_ref())
    }
}
