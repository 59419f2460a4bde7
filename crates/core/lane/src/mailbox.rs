//! Wake-ups: one static mailbox per lane, one bit per task.
//!
//! A wake-up sets a bit. It never allocates, never blocks, may come from any thread, and a second
//! one has no further effect. That is why a waker can be a packed number instead of a
//! reference-counted pointer.
//!
//! ```text
//! packed waker (u64):  | lane 16 | task 16 |
//! mailbox of a lane:   summary  u64       (bit w: word w has a bit)
//!                      words    u64 x 64  (bit t: task is woken)
//! ```

use crate::planted::{Race, planted};
use crate::primitives::Mutex;
use crate::primitives::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

const WORDS: usize = 64;
/// Number of mailboxes. The explorer creates all of them again for each execution, which needs only
/// a few.
pub(crate) const LANES_MAX: usize = if cfg!(feature = "explore") { 4 } else { 256 };

/// Rings when another thread wakes a parked lane (live: an eventfd that its ring polls).
pub trait Bell: Send + Sync {
    /// Makes the parked lane's thread return from its wait.
    fn ring(&self);
}

/// Receives the wake-ups of one lane.
pub struct Mailbox {
    taken: AtomicBool,
    parked: AtomicBool,
    summary: AtomicU64,
    words: [AtomicU64; WORDS],
    bell: Mutex<Option<Arc<dyn Bell>>>,
}

impl Mailbox {
    const fn new() -> Mailbox {
        Mailbox {
            taken: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            summary: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
            bell: Mutex::new(None),
        }
    }

    fn post(&self, task: usize) {
        self.words[task / 64].fetch_or(1 << (task % 64), Ordering::Release);
        // SeqCst on both sides: either the lane that is about to park sees the summary, or this
        // thread sees that it has parked, and rings.
        self.summary.fetch_or(1 << (task / 64), Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst) && self.parked.swap(false, Ordering::SeqCst) {
            let bell = self.bell.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
            if let Some(bell) = bell {
                bell.ring();
            }
        }
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.summary.load(Ordering::SeqCst) != 0
    }

    /// Empties the mailbox; calls `woken` with each task whose bit was set, in ascending order.
    pub(crate) fn drain(&self, mut woken: impl FnMut(usize)) {
        let mut summary = self.summary.swap(0, Ordering::Acquire);
        while summary != 0 {
            let word = summary.trailing_zeros() as usize;
            summary &= summary - 1;
            let mut bits = self.words[word].swap(0, Ordering::Acquire);
            while bits != 0 {
                woken(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Announces that the lane's thread is about to wait. Returns false if a task was woken: do not
    /// wait then.
    pub(crate) fn park(&self) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        if self.has_mail() && !planted(Race::ParkBlindly) {
            self.parked.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    pub(crate) fn unpark(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }

    pub(crate) fn set_bell(&self, bell: Option<Arc<dyn Bell>>) {
        *self.bell.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = bell;
    }
}

#[cfg(not(feature = "explore"))]
static MAILBOXES: [Mailbox; LANES_MAX] = [const { Mailbox::new() }; LANES_MAX];

// New for each execution, so that no state of one reaches the next.
#[cfg(feature = "explore")]
shuttle::lazy_static! {
    static ref MAILBOXES: [Mailbox; LANES_MAX] = [const { Mailbox::new() }; LANES_MAX];
}

/// Takes a free mailbox; its index is the lane's number.
pub(crate) fn claim() -> usize {
    let free = MAILBOXES.iter().position(|mailbox| !mailbox.taken.swap(true, Ordering::AcqRel));
    free.expect("more than 256 lanes in one process")
}

pub(crate) fn release(lane: usize) {
    let mailbox = &MAILBOXES[lane];
    mailbox.set_bell(None);
    mailbox.unpark();
    mailbox.drain(|_| ());
    mailbox.taken.store(false, Ordering::Release);
}

pub(crate) fn mailbox(lane: usize) -> &'static Mailbox {
    &MAILBOXES[lane]
}

/// The packed number of a task, stored in wait lists and wakers.
///
/// Waking a task that has ended is harmless: the slot's next owner gets a spurious poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskRef(u32);

impl TaskRef {
    pub(crate) fn new(lane: usize, task: usize) -> TaskRef {
        debug_assert!(lane < LANES_MAX && task < WORDS * 64);
        TaskRef((lane as u32) << 16 | task as u32)
    }

    pub(crate) fn pack(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn unpack(packed: usize) -> TaskRef {
        TaskRef(packed as u32)
    }

    /// Makes the task ready for a poll on its own lane. From any thread.
    pub fn wake(self) {
        MAILBOXES[(self.0 >> 16) as usize].post((self.0 & 0xffff) as usize);
    }
}
