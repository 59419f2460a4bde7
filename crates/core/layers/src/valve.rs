//! The valve: holds changes back while it is closed.
//!
//! It is a part of the [top layer](crate::Top). When it is closed and quiet, and everything below
//! was made durable, the backing is a consistent source for a snapshot: nothing changes until the
//! valve is opened again. Reads and flushes are still served.

use crate::wanted::Since;
use alloc::sync::Arc;
use block::{Error, Kind, Result, Stack};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use lane::Event;

const STOPPING: Error = Error::new(Kind::Stopping, "change a frozen volume that is stopping");

/// The part of a valve that all lanes share.
#[derive(Default, Debug)]
pub struct ValveShared {
    closed: AtomicBool,
    /// Whether waiting changes get an error.
    refusing: AtomicBool,
    /// Number of changes below the valve.
    under_way: AtomicU64,
    /// Number of changes that wait above it.
    held: AtomicU64,
    /// Notified when it is opened.
    opened: Event,
    /// Notified when it is opened or closed, or has become quiet.
    changed: Event,
}

impl ValveShared {
    /// An open valve.
    pub fn new() -> Arc<ValveShared> {
        Arc::default()
    }

    /// Holds changes back from now on. Changes in flight continue: [`ValveShared::quiet`] waits for
    /// them. Returns false if it was already closed.
    pub fn close(&self) -> bool {
        let was_open = !self.closed.swap(true, Ordering::SeqCst);
        self.changed.notify();
        was_open
    }

    /// Lets changes through again.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
        self.opened.notify();
        self.changed.notify();
    }

    /// Answers all held and later changes with an error: the volume stops while it is frozen, and
    /// unacknowledged changes must not reach the backing.
    pub fn refuse(&self) {
        self.refusing.store(true, Ordering::SeqCst);
        self.opened.notify();
        self.changed.notify();
    }

    /// Whether changes are held back.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Number of changes that wait for the valve to open.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Waits until no change is in flight below a closed valve. Calls `give_up` at each change of
    /// the valve's state. Returns false if `give_up` has returned true, or the valve was opened.
    pub async fn quiet(&self, give_up: impl Fn() -> bool) -> bool {
        loop {
            let seen = self.changed.seen();
            if !self.is_closed() || give_up() {
                return false;
            }
            if self.under_way.load(Ordering::SeqCst) == 0 {
                return true;
            }
            self.changed.after(seen).await;
        }
    }

    /// Makes [`ValveShared::quiet`] call `give_up` again.
    pub fn nudge(&self) {
        self.changed.notify();
    }

    /// Counts a change. Returns false if the valve is closed; it is not counted then.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        // Counted before the check: a task that closes the valve and then reads a count of 0 can be
        // sure that no other is between the two steps.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if self.is_closed() {
            self.leave();
            return false;
        }
        true
    }

    #[inline]
    pub(crate) fn leave(&self) {
        let last = self.under_way.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.is_closed() {
            self.changed.notify();
        }
    }
    /// Waits until the valve is open, and counts a change that arrives now. A change that waits
    /// here may have got an error meanwhile, if the backing has stalled: then it fails.
    pub(crate) async fn wait(&self, below: &Stack) -> Result {
        let since = Since::now(below);
        loop {
            let seen = self.opened.seen();
            if self.enter() {
                break;
            }
            if self.refusing.load(Ordering::SeqCst) {
                return Err(STOPPING);
            }
            self.held.fetch_add(1, Ordering::Relaxed);
            self.opened.after(seen).await;
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
        since.still_wanted(below).inspect_err(|_| self.leave())
    }
}
