//! Waits until all parts of an operation have started, each on its lane.

use lane::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Default)]
struct State {
    awaited: AtomicUsize,
    is_failed: AtomicBool,
    changed: Event,
}

/// Parts that have to start.
#[derive(Clone, Default)]
pub(super) struct Starts(Arc<State>);

/// One part. If it is dropped before it starts, it has failed.
pub(super) struct Start {
    state: Arc<State>,
    has_started: bool,
}

impl Starts {
    pub(super) fn add(&self) -> Start {
        self.0.awaited.fetch_add(1, Ordering::SeqCst);
        Start { state: self.0.clone(), has_started: false }
    }

    /// Waits for all parts. False: one has failed.
    pub(super) async fn all(&self) -> bool {
        loop {
            let seen = self.0.changed.seen();
            if self.0.awaited.load(Ordering::SeqCst) == 0 {
                return !self.0.is_failed.load(Ordering::SeqCst);
            }
            self.0.changed.after(seen).await;
        }
    }
}

impl Start {
    pub(super) fn note_started(mut self) {
        self.has_started = true;
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if !self.has_started {
            self.state.is_failed.store(true, Ordering::SeqCst);
        }
        self.state.awaited.fetch_sub(1, Ordering::SeqCst);
        self.state.changed.notify();
    }
}
