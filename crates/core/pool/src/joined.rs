//! Waits for several requests at a time, without allocating memory.

use block::Result;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use lane::Pooled;

/// Ends when all its requests have ended; returns a bit for each that failed.
pub(crate) struct Joined<const N: usize> {
    running: [Option<Pooled<Result>>; N],
    failed: u32,
}

impl<const N: usize> Joined<N> {
    pub(crate) fn new() -> Joined<N> {
        Joined { running: [const { None }; N], failed: 0 }
    }

    /// Adds a request, with the bit of `index`.
    pub(crate) fn add(&mut self, index: usize, request: Pooled<Result>) {
        self.running[index] = Some(request);
    }
}

impl<const N: usize> Future for Joined<N> {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        let joined = &mut *self;
        let mut pending = false;
        for (index, slot) in joined.running.iter_mut().enumerate() {
            let Some(running) = slot else { continue };
            match Pin::new(running).poll(context) {
                Poll::Pending => pending = true,
                Poll::Ready(result) => {
                    joined.failed |= u32::from(result.is_err()) << index;
                    *slot = None;
                }
            }
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready(joined.failed),
        }
    }
}
