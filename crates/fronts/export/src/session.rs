//! Reports about clients to the owner of an export.

use block::Result;

/// Reports about one client to the owner of an export. Created when the client enters transmission;
/// dropped when the client has left and its last request has ended.
///
/// A session may be created on one lane and end on another: a file's handles are used on all lanes.
pub trait Session: Send {
    /// Reports that the client has sent a flush, or a change with FUA: it flushes (clause C11).
    /// Called for each such request, before it is run.
    fn flushed(&self) {}

    /// Called once per flush of the client, before it is run.
    ///
    /// # Errors
    /// The error to answer the flush with, because writes that the client assumes to be covered may
    /// be lost (clause C1).
    fn take_doubt(&self) -> Result {
        Ok(())
    }
}

/// A session that reports nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unwatched;

impl Session for Unwatched {}
