//! Regions whose blocks were not compressible: their blocks are not tried for a while.
//!
//! Regions share counters, so that a large volume needs no more of them than a small one. After
//! some failures in a row, more than programs have by chance, each failure multiplies the number of
//! blocks that are skipped before the next trial, up to [`SKIPS_MAX`]; a success ends it. So a
//! region that was overwritten with other data is found after a few blocks, and no clock is needed.

use alloc::boxed::Box;
use alloc::vec;

/// Blocks of a region: 256 KiB, less than most pictures and films.
const REGION_SHIFT: u32 = 6;
/// Slots for each counter, as in the engine's counts of regions.
const SLOTS_PER_COUNTER: u32 = 128;
/// Maximum number of blocks that are skipped between two trials.
const SKIPS_MAX: u8 = 31;

/// Failures in a row, and blocks to skip.
#[derive(Clone, Copy, Default)]
struct Counter(u8);

impl Counter {
    const SKIPS: u8 = SKIPS_MAX;
    const FAILURE: u8 = SKIPS_MAX + 1;

    fn skips(self) -> u8 {
        self.0 & Counter::SKIPS
    }

    /// Returns the counter after a failure: 0, 0, 0, 0, 3, 15 and then 31 blocks are skipped.
    fn failed(self) -> Counter {
        let failures = (self.0 / Counter::FAILURE + 1).min(u8::MAX / Counter::FAILURE);
        let skips = match failures {
            0..=4 => 0,
            5 => 3,
            6 => 15,
            _ => SKIPS_MAX,
        };
        Counter(failures * Counter::FAILURE + skips)
    }
}

/// The counters of a shard.
pub struct Incompressible {
    counters: Box<[Counter]>,
}

impl Incompressible {
    /// Makes the counters for a shard of this many slots.
    pub fn new(slots: u32) -> Incompressible {
        let counters = 1 << (slots / SLOTS_PER_COUNTER).max(1).ilog2();
        Incompressible { counters: vec![Counter::default(); counters].into_boxed_slice() }
    }

    fn counter(&mut self, block: u64) -> &mut Counter {
        let region = block >> REGION_SHIFT;
        let mixed = region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = mixed as usize & (self.counters.len() - 1);
        &mut self.counters[at]
    }

    /// Whether to try a block. Counts the block as skipped if not.
    pub fn is_to_try(&mut self, block: u64) -> bool {
        let counter = self.counter(block);
        let is_to_try = counter.skips() == 0;
        if !is_to_try {
            counter.0 -= 1;
        }
        is_to_try
    }

    /// Records the result of a trial.
    pub fn record(&mut self, block: u64, is_compressible: bool) {
        let counter = self.counter(block);
        *counter = if is_compressible { Counter::default() } else { counter.failed() };
    }

    /// Returns the number of bytes that it occupies.
    pub fn bytes(&self) -> usize {
        size_of::<Incompressible>() + size_of_val(&*self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries blocks of one region that are compressible from `from` on. Returns the trials.
    fn trials(table: &mut Incompressible, blocks: u32, from: u32) -> u32 {
        (0..blocks)
            .filter(|at| {
                table.is_to_try(70) && {
                    table.record(70, *at >= from);
                    true
                }
            })
            .count() as u32
    }

    #[test]
    fn trials_become_rare_where_they_fail_and_a_success_ends_that() {
        let mut table = Incompressible::new(1 << 20);
        assert_eq!(trials(&mut table, 7 + 3 + 15 + 31, u32::MAX), 7);
        assert_eq!(trials(&mut table, 320, u32::MAX), 10);
        // At most the last skips are lost when the data becomes compressible.
        let found = trials(&mut table, 1000, 0);
        assert!((1000 - 31..=1000).contains(&found), "{found}");
        assert_eq!(trials(&mut table, 100, 0), 100);
    }

    #[test]
    fn other_regions_are_tried() {
        let mut table = Incompressible::new(1 << 20);
        for _ in 0..1000 {
            if table.is_to_try(0) {
                table.record(0, false);
            }
        }
        assert!(!(0..32).all(|_| table.is_to_try(0)), "one trial in 32");
        assert!((1..100).all(|region| table.is_to_try(region << REGION_SHIFT)));
    }

    #[test]
    fn it_needs_less_than_a_hundredth_of_a_byte_for_each_slot() {
        let slots = 1 << 20;
        let bytes = Incompressible::new(slots).bytes();
        assert!(bytes <= slots as usize / 100, "{bytes}");
    }
}
