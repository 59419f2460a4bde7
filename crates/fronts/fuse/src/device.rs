//! Where messages come from.

use block::{Part, Result};

/// The kernel's side of a mount, as one lane sees it: messages come whole, and answers go whole. (In tests, memory.)
pub trait Device: 'static {
    /// Takes the next message into the parts, in order; waits until there is one. May be dropped while it waits.
    /// Returns its length in bytes.
    ///
    /// # Errors
    /// `Stopping`: nothing comes any more, because the file system was unmounted or its connection was cut.
    fn receive(&self, into: &[Part]) -> impl Future<Output = Result<usize>>;

    /// The same, if there is one.
    ///
    /// # Errors
    /// As [`Device::receive`].
    fn receive_now(&self, into: &[Part]) -> Result<Option<usize>>;

    /// Sends these as one answer, at once.
    ///
    /// # Errors
    /// The question is not open any more, or the answer makes no sense to the kernel.
    fn send(&self, parts: &[Part]) -> Result;

    /// Lets nothing on this lane wait for messages any more.
    fn close(&self) -> impl Future<Output = ()>;
}
