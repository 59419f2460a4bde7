//! Limit on the number of connections.

use lane::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of connections at a time, on all lanes of a server. While all places are
/// taken, [`crate::Options::rest_ms`] limits the time of a client that has sent an incomplete
/// request.
#[derive(Debug)]
pub struct ConnectionLimit {
    most: usize,
    taken: AtomicUsize,
    /// Triggered when the last place is taken.
    full: Event,
    left: Event,
}

/// A place of a connection; dropping it frees the place.
#[derive(Debug)]
pub struct ConnectionPermit(Arc<ConnectionLimit>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify();
    }
}

impl Default for ConnectionLimit {
    /// More than there can be connections.
    fn default() -> ConnectionLimit {
        ConnectionLimit::new(usize::MAX)
    }
}

impl ConnectionLimit {
    /// Creates `most` free places.
    pub fn new(most: usize) -> ConnectionLimit {
        ConnectionLimit { most, taken: AtomicUsize::new(0), full: Event::new(), left: Event::new() }
    }

    /// Takes a place. None: all are taken.
    pub fn take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let add = |taken| (taken < self.most).then(|| taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).ok()?;
        if self.are_taken() {
            self.full.notify();
        }
        Some(ConnectionPermit(self.clone()))
    }

    /// Number of places taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// The event of a place becoming free.
    pub fn left(&self) -> &Event {
        &self.left
    }

    fn are_taken(&self) -> bool {
        self.taken() >= self.most
    }

    /// Waits until all places are taken.
    pub(crate) async fn full(&self) {
        loop {
            let seen = self.full.seen();
            if self.are_taken() {
                return;
            }
            self.full.after(seen).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_and_left() {
        let places = Arc::new(ConnectionLimit::new(2));
        let first = places.take();
        assert!(first.is_some() && !places.are_taken());
        let second = places.take().expect("the last one");
        assert!(places.are_taken() && places.take().is_none());
        assert_eq!(places.taken(), 2);
        let (full, left) = (places.full.seen(), places.left().seen());
        drop(second);
        assert!(places.left().seen() != left && !places.are_taken());
        let again = places.take();
        assert!(again.is_some() && places.full.seen() != full);
    }
}
