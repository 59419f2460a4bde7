//! Whether all parts of an operation have begun, on their lanes.

use lane::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Default)]
struct State {
    awaited: AtomicUsize,
    is_failed: AtomicBool,
    changed: Event,
}

/// Parts that have to begin.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<State>);

/// One part. If it is dropped before it begins, it has failed.
pub(super) struct Part {
    state: Arc<State>,
    has_begun: bool,
}

impl Begun {
    pub(super) fn part(&self) -> Part {
        self.0.awaited.fetch_add(1, Ordering::SeqCst);
        Part { state: self.0.clone(), has_begun: false }
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

impl Part {
    pub(super) fn note_begun(mut self) {
        self.has_begun = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.has_begun {
            self.state.is_failed.store(true, Ordering::SeqCst);
        }
        self.state.awaited.fetch_sub(1, Ordering::SeqCst);
        self.state.changed.notify();
    }
}
