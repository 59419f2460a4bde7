//! What the owner of an export learns about its clients.

use block::Result;

/// What the owner of an export learns about one client. Made when the client enters transmission,
/// dropped when the last of its requests has ended and it has gone.
///
/// It may be made on one lane and end on another: a file's handles are used on all of them.
pub trait Session: Send {
    /// The client has sent a flush, or a change with FUA: it knows what a write buffer is (clause
    /// C11). Called on every such request, before it is run.
    fn flushed(&self) {}

    /// Called once for every flush of the client, before it is run.
    ///
    /// # Errors
    /// The flush is answered with this, because writes that the client believes to be covered may
    /// be lost (clause C1).
    fn take_doubt(&self) -> Result {
        Ok(())
    }
}

/// A session that tells no owner anything.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unwatched;

impl Session for Unwatched {}
