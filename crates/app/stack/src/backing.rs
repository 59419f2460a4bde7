//! Backings that are not open yet, and how the leaves of a spec become such.

use crate::failure::Failure;
use crate::flags::OpenFlags;
use crate::node::OpenNode;
use block::Spec;
use ring::Ring;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;

/// An opening under way. It may wait, on the lane of the ring that it was given.
pub type Opened = Pin<Box<dyn Future<Output = Result<Box<dyn OpenNode>, Failure>>>>;

/// A backing that is not open yet.
pub trait Backing {
    /// The backing as its user wrote it, for messages.
    fn name(&self) -> String;

    /// The key of its identity, under which a holder may keep memory for it; None: it cannot be
    /// found out now, and nothing is taken over.
    fn key(&self) -> Option<String>;

    /// Checks, before anything of it is opened, that this volume may use it.
    ///
    /// # Errors
    /// With the exit status for it.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Opens it, for reading alone if `is_read_only`. `kept` are the descriptors that a holder has
    /// kept ([`OpenNode::keepable`]): the backing is used by them, not opened once more.
    fn open(&self, ring: &Ring, is_read_only: bool, kept: Option<Vec<OwnedFd>>) -> Opened;

    /// Whether clients' changes of it are refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Examines its contents, and returns sentences for the user. `was_served`: clients may have
    /// written anything there, and it was accepted before.
    ///
    /// # Errors
    /// It must not be served.
    fn examine(&self, _node: &dyn OpenNode, _was_served: bool) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

/// Returns the backing for a leaf of a spec; None: the built-in one.
pub type Backings<'a> = &'a dyn Fn(&Spec, &OpenFlags) -> Option<Box<dyn Backing>>;
