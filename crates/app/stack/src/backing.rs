//! Backings before they are open, and how the leaves of a spec become backings.

use crate::failure::Failure;
use crate::flags::OpenFlags;
use crate::node::OpenNode;
use block::Spec;
use ring::Ring;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;

/// An opening in progress. It may wait, on the lane of the ring that it received.
pub type Opened = Pin<Box<dyn Future<Output = Result<Box<dyn OpenNode>, Failure>>>>;

/// A backing that is not open yet.
pub trait Backing {
    /// The backing as its user wrote it, for messages.
    fn name(&self) -> String;

    /// Key of its identity, under which a holder may retain memory for it. None: the key is not
    /// available now, and nothing is taken over.
    fn key(&self) -> Option<String>;

    /// Checks that this volume may use the backing, before any part of it is opened.
    ///
    /// # Errors With the exit status for the reason.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Opens it, read-only if `is_read_only`. `kept` are the descriptors that a holder has retained
    /// ([`OpenNode::keepable`]): the backing then uses them and is not opened a second time.
    fn open(&self, ring: &Ring, is_read_only: bool, kept: Option<Vec<OwnedFd>>) -> Opened;

    /// Whether changes by clients are refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Examines its contents, and returns sentences for the user. `was_served`: an earlier process
    /// has accepted these contents, and clients may have written anything since.
    ///
    /// # Errors The backing must not be served.
    fn examine(&self, _node: &dyn OpenNode, _was_served: bool) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

/// Returns the backing for a leaf of a spec. None: use the built-in backing.
pub type Backings<'a> = &'a dyn Fn(&Spec, &OpenFlags) -> Option<Box<dyn Backing>>;
