//! Backings before they are open.

use super::{Identity, OpenNode};
use crate::failure::Failure;
use ring::Ring;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;

/// A backing that was opened.
pub struct Opened {
    /// The node.
    pub node: Box<dyn OpenNode>,
    /// Sentences for the user about it.
    pub notes: Vec<String>,
}

/// An opening in progress. It may wait, on the lane of the ring that it received.
pub type Opening = Pin<Box<dyn Future<Output = Result<Opened, Failure>>>>;

/// Traces of the earlier process that served a backing.
pub struct Former {
    /// The descriptors that a holder has retained ([`OpenNode::keepable`]). If there are any, the
    /// backing continues with them and is not opened again.
    pub kept: Option<Vec<OwnedFd>>,
    /// Whether an earlier process has accepted the contents of the backing with this identity.
    /// Such contents are not examined again, because clients may have written anything since.
    pub was_served: Rc<dyn Fn(&Identity) -> bool>,
}

/// A backing that is not open yet.
pub trait Backing {
    /// Returns the backing as its user wrote it, for messages.
    fn name(&self) -> String;

    /// Returns the key under which a holder may retain memory for it. None: the key cannot be
    /// determined now, and nothing is taken over.
    fn key(&self) -> Option<String>;

    /// Checks that this volume may use the backing, before any part of it is opened.
    ///
    /// # Errors
    /// With the exit status for the reason.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Opens it, read-only if `is_read_only`, and examines its contents.
    fn open(&self, ring: &Ring, is_read_only: bool, former: Former) -> Opening;

    /// Whether changes by clients are refused.
    fn is_read_only(&self) -> bool {
        false
    }
}
