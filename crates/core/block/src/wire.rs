//! The byte stream between two ends, as a lane sees it.

use crate::error::Result;
use crate::memory::{Memory, Part};
use std::future::Future;
use std::sync::Arc;

/// A connected byte stream, used from one lane.
///
/// One `receive` and one `send` may be under way at a time, side by side.
pub trait Wire: 'static {
    /// Receives at least one and at most `length` bytes into the memory at `offset`, and returns
    /// how many. 0: the other side has ended, or [`Wire::shutdown`] was called.
    ///
    /// # Errors
    /// `Io` if the connection broke.
    fn receive(
        &self,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
    ) -> impl Future<Output = Result<usize>>;

    /// Sends all bytes of all parts, in order. There are at most 1024 parts (`IOV_MAX`).
    ///
    /// # Errors
    /// `Io` if the connection broke; how much was sent is then unknown.
    fn send(&self, parts: &[Part]) -> impl Future<Output = Result>;

    /// Says that nothing more will be sent: what was sent before still arrives, and then its end.
    /// Receiving goes on. Not during a `send`.
    fn finish(&self);

    /// Ends the connection both ways: a `receive` under way or to come returns 0, a `send` fails
    /// instead of waiting. What was sent before still arrives. Twice is the same as once.
    fn shutdown(&self);
}
