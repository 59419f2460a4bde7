//! The first minutes of a volume: clients' first reads are noted for the next start, and the
//! start-up list of earlier ones is followed.

use super::first_reads::FirstReads;
use super::shape::{Piece, Shape};
use super::start_up::StartUp;
use crate::stats::counters::Counters;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use hotlist::{START_BLOCKS_MAX, StartList};
use lane::{Event, Lock};

const NONE: u8 = 0;
const FOLLOWED: u8 = 1;
const STOPPED: u8 = 2;

/// The first minutes, until they are over.
#[derive(Debug)]
pub(super) struct Starting {
    noted: Lock<Option<Box<Noted>>>,
    /// The same as whether there is something: checked before the lock is taken.
    is_noting: AtomicBool,
    /// A piece of the list may be taken.
    is_due: AtomicBool,
    state: AtomicU8,
    /// Time of the first noted read; 0: there was none. Notified then.
    first_ns: AtomicU64,
    began: Event,
    listed: AtomicU64,
    /// When its first piece was sent, and its last one answered; 0: none.
    sent_ns: AtomicU64,
    answered_ns: AtomicU64,
}

#[derive(Debug)]
struct Noted {
    reads: FirstReads,
    list: Option<StartUp>,
}

impl Starting {
    pub(super) fn new() -> Starting {
        Starting {
            noted: Lock::new(None),
            is_noting: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            state: AtomicU8::new(NONE),
            first_ns: AtomicU64::new(0),
            began: Event::new(),
            listed: AtomicU64::new(0),
            sent_ns: AtomicU64::new(0),
            answered_ns: AtomicU64::new(0),
        }
    }

    /// Begins to note reads, for a cache with this number of slots.
    pub(super) fn begin(&self, slots: u32) {
        let reads = FirstReads::new(START_BLOCKS_MAX.min(slots as usize));
        self.noted.peek(|noted| *noted = Some(Box::new(Noted { reads, list: None })));
        self.is_noting.store(true, Ordering::SeqCst);
    }

    /// Follows a list from now on, if the first minutes are not over.
    pub(super) fn follow(&self, list: StartList, slots: u32) {
        let mut list = StartUp::new(list, slots);
        self.noted.peek(|noted| {
            let Some(noted) = noted.as_mut().filter(|_| list.len() > 0) else { return };
            noted.reads.blocks().iter().for_each(|block| list.follow(*block));
            self.listed.store(list.len() as u64, Ordering::Relaxed);
            self.state.store(FOLLOWED, Ordering::Relaxed);
            self.is_due.store(list.is_due(), Ordering::SeqCst);
            noted.list = Some(list);
        });
    }

    /// Notes that a client reads these blocks. It costs every read one comparison.
    #[inline]
    pub(super) fn note(&self, blocks: Range<u64>, now_ns: impl FnOnce() -> u64) {
        if self.is_noting.load(Ordering::Relaxed) {
            self.note_now(blocks, now_ns);
        }
    }

    #[cold]
    fn note_now(&self, blocks: Range<u64>, now_ns: impl FnOnce() -> u64) {
        self.noted.peek(|noted| {
            let Some(Noted { reads, list }) = noted.as_deref_mut() else { return };
            for block in blocks {
                if reads.insert(block)
                    && let Some(list) = list
                {
                    list.follow(block);
                }
            }
            self.note_due(list.as_ref());
        });
        if self.first_ns.load(Ordering::Relaxed) == 0 {
            self.first_ns.store(now_ns().max(1), Ordering::SeqCst);
            self.began.notify();
        }
    }

    fn note_due(&self, list: Option<&StartUp>) {
        self.is_due.store(list.is_some_and(StartUp::is_due), Ordering::SeqCst);
    }

    /// The time of the first noted read, if there was one.
    pub(super) fn first_ns(&self) -> Option<u64> {
        Some(self.first_ns.load(Ordering::SeqCst)).filter(|ns| *ns > 0)
    }

    /// Notified at the first noted read.
    pub(super) fn began(&self) -> &Event {
        &self.began
    }

    /// Whether a piece of the list may be taken.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Returns the next piece of the list, if one may be taken. It must be tried, or is left out.
    pub(super) fn next_piece(&self, shape: &Shape, gap: u64, now_ns: u64) -> Option<Piece> {
        if !self.is_due() {
            return None;
        }
        self.noted.peek(|noted| {
            let list = noted.as_mut()?.list.as_mut()?;
            let piece = list.next_piece(shape, gap);
            self.is_due.store(list.is_due(), Ordering::SeqCst);
            if piece.is_some() && self.sent_ns.load(Ordering::Relaxed) == 0 {
                self.sent_ns.store(now_ns.max(1), Ordering::Relaxed);
            }
            piece
        })
    }

    /// Notes that a piece was answered.
    pub(super) fn answered(&self, now_ns: u64) {
        self.answered_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The number of blocks of the list that were taken and lie beyond the guest. None: no list is
    /// followed.
    pub(super) fn beyond_guest(&self) -> Option<u64> {
        self.noted.peek(|noted| Some(noted.as_ref()?.list.as_ref()?.beyond_guest()))
    }

    /// Ends following the list, and does not note that.
    pub(super) fn forget(&self) {
        drop(self.take_list());
        let _ = self.state.compare_exchange(FOLLOWED, NONE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Ends following the list early.
    pub(super) fn stop(&self) {
        if self.take_list().is_some() {
            self.state.store(STOPPED, Ordering::SeqCst);
        }
    }

    fn take_list(&self) -> Option<StartUp> {
        self.noted.peek(|noted| {
            self.is_due.store(false, Ordering::SeqCst);
            noted.as_mut()?.list.take()
        })
    }

    /// Ends the first minutes. Returns the noted blocks in order; None: they were over.
    pub(super) fn end(&self) -> Option<Vec<u64>> {
        self.forget();
        self.is_noting.store(false, Ordering::SeqCst);
        let noted = self.noted.peek(Option::take)?;
        Some(noted.reads.into_blocks())
    }

    /// Adds the counters.
    pub(super) fn count(&self, all: &mut Counters) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        all.start_listed = load(&self.listed);
        all.start_ns = load(&self.answered_ns).saturating_sub(load(&self.sent_ns));
        all.start_state = self.state.load(Ordering::SeqCst).into();
    }
}
