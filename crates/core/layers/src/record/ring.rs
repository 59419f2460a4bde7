//! A bounded ring of events: any lane adds events, one reader takes them, and neither waits.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use trace::WORDS;

/// Room for one event.
#[derive(Default)]
struct RingSlot {
    /// The number of the complete event in it, plus one.
    filled: AtomicU64,
    words: [AtomicU64; WORDS],
}

pub(super) struct Ring {
    slots: Box<[RingSlot]>,
    /// Number of events that were assigned a slot, and number of events that were taken.
    given: AtomicU64,
    taken: AtomicU64,
    dropped: AtomicU64,
}

impl Ring {
    pub(super) fn new(events_max: usize) -> Ring {
        let slots = (0..events_max.max(1)).map(|_| RingSlot::default()).collect();
        let [given, taken, dropped] = [const { AtomicU64::new(0) }; 3];
        Ring { slots, given, taken, dropped }
    }

    fn slot(&self, number: u64) -> &RingSlot {
        &self.slots[(number % self.slots.len() as u64) as usize]
    }

    /// Adds an event, or drops and counts it. Returns whether it was added.
    #[inline]
    pub(super) fn push(&self, words: [u64; WORDS]) -> bool {
        let room = self.slots.len() as u64;
        let next = |given: u64| {
            // Acquire: the reader has finished with the slot. A stale `given` may be below `taken`;
            // then the exchange fails.
            let taken = self.taken.load(Ordering::Acquire);
            (given.saturating_sub(taken) < room).then_some(given + 1)
        };
        let given = self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let Ok(number) = given else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let slot = self.slot(number);
        for (to, word) in slot.words.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        slot.filled.store(number + 1, Ordering::Release);
        true
    }

    /// Takes the oldest event. None: there is none, or it is not complete yet. For one reader at a
    /// time.
    pub(super) fn pop(&self) -> Option<[u64; WORDS]> {
        let number = self.taken.load(Ordering::Relaxed);
        let slot = self.slot(number);
        if slot.filled.load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let words = slot.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.taken.store(number + 1, Ordering::Release);
        Some(words)
    }

    /// Returns the number of events dropped since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_drops_and_goes_on_where_it_was() {
        let ring = Ring::new(3);
        for round in 0..10u64 {
            assert_eq!(ring.pop(), None);
            let pushed = [0, 1, 2, 3].map(|number| ring.push([round * 10 + number; WORDS]));
            assert_eq!(pushed, [true, true, true, false]);
            for number in 0..3 {
                assert_eq!(ring.pop(), Some([round * 10 + number; WORDS]));
            }
            assert_eq!(ring.take_dropped(), 1);
        }
    }

    #[test]
    fn threads_that_push_beside_a_reader_tear_and_lose_nothing() {
        const EACH: u64 = 20_000;
        let ring = Ring::new(7);
        let next = std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let ring = &ring;
                scope.spawn(move || {
                    for number in 0..EACH {
                        while !ring.push([thread << 32 | number; WORDS]) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0u64; 3];
            while next.iter().sum::<u64>() < 3 * EACH {
                let Some(words) = ring.pop() else {
                    std::thread::yield_now();
                    continue;
                };
                assert!(words.iter().all(|word| *word == words[0]), "torn");
                let (thread, number) = ((words[0] >> 32) as usize, words[0] & 0xffff_ffff);
                assert_eq!(number, next[thread], "each thread's in their order");
                next[thread] += 1;
            }
            next
        });
        assert_eq!((next, ring.pop()), ([EACH; 3], None));
    }
}
