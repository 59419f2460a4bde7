//! The layer `valve`: changes are held while it is closed.
//!
//! It stands on top of a stack. Closed and quiet, with everything below made durable, the backing is
//! a consistent source for a snapshot: nothing changes until the valve is opened again. Reads and
//! flushes go on.

use crate::wanted::Since;
use alloc::sync::Arc;
use block::{Error, Kind, Layer, Padding, Request, Result, Stack};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use lane::Event;

const STOPPING: Error = Error::new(Kind::Stopping, "change a frozen volume that stops");

/// The half of a valve that all lanes share.
#[derive(Default, Debug)]
pub struct ValveShared {
    closed: AtomicBool,
    /// What is held gets an error.
    refusing: AtomicBool,
    /// Changes below the valve.
    under_way: AtomicU64,
    /// Changes that wait above it.
    held: AtomicU64,
    /// It was opened.
    opened: Event,
    /// It was opened or closed, or has become quiet.
    changed: Event,
}

impl ValveShared {
    /// An open valve.
    pub fn new() -> Arc<ValveShared> {
        Arc::default()
    }

    /// Holds changes from now on. What is under way goes on: [`ValveShared::quiet`] waits for it.
    /// False: it was closed already.
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

    /// Answers whatever is held, and will be, with an error: the volume stops while it is frozen, and
    /// what no client was promised must not reach the backing.
    pub fn refuse(&self) {
        self.refusing.store(true, Ordering::SeqCst);
        self.opened.notify();
        self.changed.notify();
    }

    /// Whether changes are held.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Changes that wait for the valve to open.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Waits until no change is under way below a closed valve. False: it was opened meanwhile, or
    /// `give_up` said so, which is asked whenever something has changed.
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

    /// Makes [`ValveShared::quiet`] ask whether it should give up.
    pub fn nudge(&self) {
        self.changed.notify();
    }

    /// Counts a change in. False: the valve is closed, it is not counted.
    fn enter(&self) -> bool {
        // Counted before the look: a task that closes the valve and then sees a count of 0 knows that
        // no other is between the two.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if self.is_closed() {
            self.leave();
            return false;
        }
        true
    }

    fn leave(&self) {
        let last = self.under_way.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.is_closed() {
            self.changed.notify();
        }
    }
}

/// One lane's handle on a valve.
pub struct Valve {
    shared: Arc<ValveShared>,
    below: Stack,
}

impl Valve {
    /// The valve as one lane sees it, on top of `below`.
    pub fn attach(shared: &Arc<ValveShared>, below: Stack) -> Valve {
        Valve { shared: shared.clone(), below }
    }

    /// Apart from [`Layer::try_now`], so that what is no change only passes there by a jump.
    #[inline(never)]
    fn try_change(&self, request: &Request) -> Option<Result> {
        if !self.shared.enter() {
            return None;
        }
        let answer = self.below.try_now(request);
        self.shared.leave();
        answer
    }
}

impl Layer for Valve {
    fn below(&self) -> &Stack {
        &self.below
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        if request.is_change() { self.try_change(request) } else { self.below.try_now(request) }
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        if !request.is_change() {
            return self.below.serve(request, padding).await;
        }
        let since = Since::now(&self.below);
        let mut waited = false;
        loop {
            let seen = self.shared.opened.seen();
            if self.shared.enter() {
                break;
            }
            waited = true;
            if self.shared.refusing.load(Ordering::SeqCst) {
                return Err(STOPPING);
            }
            self.shared.held.fetch_add(1, Ordering::Relaxed);
            self.shared.opened.after(seen).await;
            self.shared.held.fetch_sub(1, Ordering::Relaxed);
        }
        if waited && let Err(told) = since.still_wanted(&self.below) {
            self.shared.leave();
            return Err(told);
        }
        let result = self.below.serve(request, padding).await;
        self.shared.leave();
        result
    }
}
