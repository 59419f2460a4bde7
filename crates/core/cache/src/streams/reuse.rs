//! Whether the blocks of long streams are accessed again while a cache that admitted them would
//! still hold them.
//!
//! For a sample of the blocks of long streams, the hash and the time are stored, whether or not the
//! block is admitted. Time is counted in blocks that the cache would have admitted. A block that is
//! read again within as many blocks as the cache has slots would have been a hit: a file that is
//! read in a loop and fits is worth caching, a copy is not.

use alloc::boxed::Box;
use alloc::vec;
use policy::Hash;

/// Maximum number of stored blocks; for a smaller cache, twice the number of its slots. A sample of
/// a cache's slots has at most half of this size.
const PLACES_MAX: usize = 8192;
/// Blocks of the sample after which the weight of older ones is halved.
const NOTE_COUNT_MAX: u32 = 1024;
/// Minimum number of blocks for a judgement.
const ENOUGH: u32 = 32;
/// One in this number must be read again.
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
    note_count: u32,
    again: u32,
}

impl Reuse {
    pub(super) fn new(slots: u32) -> Reuse {
        let places = (slots as usize * 2).min(PLACES_MAX);
        Reuse { notes: vec![None; places].into_boxed_slice(), slots, note_count: 0, again: 0 }
    }

    fn place(&mut self, hash: Hash) -> &mut Option<Note> {
        let places = self.notes.len();
        &mut self.notes[(hash.bits() >> 20) as usize % places]
    }

    /// Stores a block of the sample that a long stream has accessed at the time `came`, modulo
    /// 2^32.
    pub(super) fn note(&mut self, hash: Hash, came: u32) {
        *self.place(hash) = Some(Note { hash: hash.bits() as u32, came });
        self.note_count += 1;
        if self.note_count >= NOTE_COUNT_MAX {
            (self.note_count, self.again) = (self.note_count / 2, self.again / 2);
        }
    }

    /// Checks a block of the sample that is read at the time `now`.
    pub(super) fn check_read(&mut self, hash: Hash, now: u32) {
        let note = self.place(hash);
        if let Some(Note { hash: tag, came }) = *note
            && tag == hash.bits() as u32
        {
            *note = None;
            self.again += u32::from(now.wrapping_sub(came) <= self.slots);
        }
    }

    /// Whether the blocks of long streams are worth caching.
    pub(super) fn pays(&self) -> bool {
        self.note_count >= ENOUGH && self.again * ONE_IN >= self.note_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether caching pays for a stream that loops over `blocks` blocks, in a cache of a thousand.
    fn pays(blocks: u64) -> bool {
        let mut reuse = Reuse::new(1000);
        for read in 0..10_000 {
            let hash = Hash::of(read % blocks);
            reuse.check_read(hash, read as u32);
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
        reuse.check_read(Hash::of(1), 1);
        assert!(!reuse.pays(), "too early to say");
    }
}
