//! The source of messages.

use block::{Part, Result};

/// The kernel's side of a mount, as one lane sees it: each call transfers one whole message or
/// answer. (In tests, memory.)
pub trait Device: 'static {
    /// Reads the next message into the parts, in order; waits until there is one. The future may be
    /// dropped while it waits. Returns the message's length in bytes.
    ///
    /// # Errors
    /// `Stopping`: no more messages come, because the file system was unmounted or its connection
    /// was aborted.
    fn receive(&self, into: &[Part]) -> impl Future<Output = Result<usize>>;

    /// Same as [`Device::receive`], but returns None if there is no message.
    ///
    /// # Errors
    /// As [`Device::receive`].
    fn receive_now(&self, into: &[Part]) -> Result<Option<usize>>;

    /// Sends the parts as one answer, without waiting.
    ///
    /// # Errors
    /// The kernel no longer waits for this answer, or the answer is invalid.
    fn send(&self, parts: &[Part]) -> Result;

    /// Ends all waits for messages on this lane.
    fn close(&self) -> impl Future<Output = ()>;
}
