//! Whether what long streams bring is asked for again while a cache that kept it would still hold
//! it.
//!
//! Of a sample of the blocks that long streams bring, the hashes and the time are noted, whether
//! the blocks are kept or not. Time counts in blocks that the cache would have taken in. A block
//! that is read again within as many as the cache has slots would have been a hit: a file that is
//! read in a circle and fits is worth its place, a copy is not.

use alloc::boxed::Box;
use alloc::vec;
use policy::Hash;

/// Blocks that are remembered at most; of a smaller cache, twice as many as it has slots. A sample
/// of a cache's slots is not larger than half of this.
const PLACES_MAX: usize = 8192;
/// Blocks of the sample after which the older half of them fades.
const NOTED: u32 = 1024;
/// Below so many nothing is known.
const ENOUGH: u32 = 32;
/// One in so many must be read again.
const ONE_IN: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct Note {
    hash: u32,
    came: u32,
}

#[derive(Debug)]
pub(super) struct Reuse {
    notes: Box<[Option<Note>]>,
    /// Slots of the cache.
    slots: u32,
    noted: u32,
    again: u32,
}

impl Reuse {
    pub(super) fn new(slots: u32) -> Reuse {
        let places = (slots as usize * 2).min(PLACES_MAX);
        Reuse { notes: vec![None; places].into_boxed_slice(), slots, noted: 0, again: 0 }
    }

    fn place(&mut self, hash: Hash) -> &mut Option<Note> {
        let places = self.notes.len();
        &mut self.notes[(hash.bits() >> 20) as usize % places]
    }

    /// A long stream has brought a block of the sample, when so many blocks had been brought in
    /// all, modulo 2^32.
    pub(super) fn note(&mut self, hash: Hash, came: u32) {
        *self.place(hash) = Some(Note { hash: hash.bits() as u32, came });
        self.noted += 1;
        if self.noted >= NOTED {
            (self.noted, self.again) = (self.noted / 2, self.again / 2);
        }
    }

    /// A block of the sample is read, when so many blocks have been brought.
    pub(super) fn asked(&mut self, hash: Hash, now: u32) {
        let note = self.place(hash);
        if let Some(Note { hash: tag, came }) = *note
            && tag == hash.bits() as u32
        {
            *note = None;
            self.again += u32::from(now.wrapping_sub(came) <= self.slots);
        }
    }

    /// Whether what long streams bring is worth its place.
    pub(super) fn pays(&self) -> bool {
        self.noted >= ENOUGH && self.again * ONE_IN >= self.noted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it pays to keep a stream that goes round over so many blocks, in a cache of a
    /// thousand.
    fn pays(blocks: u64) -> bool {
        let mut reuse = Reuse::new(1000);
        for read in 0..10_000 {
            let hash = Hash::of(read % blocks);
            reuse.asked(hash, read as u32);
            reuse.note(hash, read as u32);
        }
        reuse.pays()
    }

    #[test]
    fn what_comes_again_in_time_is_worth_its_place() {
        assert!(pays(500));
        assert!(pays(900));
        assert!(!pays(1100), "it would be gone by then");
        assert!(!pays(1_000_000));
        let mut reuse = Reuse::new(1000);
        reuse.note(Hash::of(1), 0);
        reuse.asked(Hash::of(1), 1);
        assert!(!reuse.pays(), "too early to say");
    }
}
