//! The byte stream between two ends, as a lane sees it.

use crate::error::Result;
use crate::memory::{Memory, Part};
use std::future::Future;
use std::sync::Arc;

/// A connected byte stream, used from one lane.
///
/// One `receive` and one `send` may be in progress at the same time.
pub trait Wire: 'static {
    /// Receives at least one and at most `length` bytes into the memory at `offset`. Returns their
    /// number; 0: the other side has ended, or [`Wire::shutdown`] was called.
    ///
    /// # Errors
    /// `Io`: the connection broke.
    fn receive(
        &self,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
    ) -> impl Future<Output = Result<usize>>;

    /// Sends all bytes of all parts, in order. There are at most 1024 parts (`IOV_MAX`).
    ///
    /// # Errors
    /// `Io`: the connection broke; the number of bytes sent is then unknown.
    fn send(&self, parts: &[Part]) -> impl Future<Output = Result>;

    /// Ends the sending direction: bytes sent before still arrive, followed by the end. Receiving
    /// is still possible. Not during a `send`. Waits as a `send` does if the wire announces its end
    /// by a message.
    fn finish(&self) -> impl Future<Output = ()>;

    /// Ends both directions: `receive` returns 0, now and later, and `send` fails instead of
    /// waiting. Bytes sent before still arrive. A second call has no effect.
    fn shutdown(&self);
}
