//! Whether compression pays (`--compress auto`): the hits of the tier against the processor time of
//! all compressions, also of blocks that are never hit or do not become smaller.
//!
//! The hits of a block come long after it was compressed. So the first judgement is optimistic, and
//! fades with every block that is compressed, half of it with as many as the cache has slots.

use crate::bypass::balance::{Pressure, Reads, compressing};
use crate::stats::counters::Counters;

/// Time after which a compression that was paused is tried again.
const PAUSE_NS: u64 = 60_000_000_000;
/// Assumed time to compress a block until it is measured.
const COMPRESS_NS: f64 = 4_000.0;
/// The assumed hits of a compressed block until they are measured.
const HITS: f64 = 1.0;
/// A trial after a pause ends with this share of the slots, if it brings nothing.
const TRIAL_SHARE: f64 = 1.0 / 16.0;

/// Sums over compressed blocks; older ones count less.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Blocks that were compressed, stored or not.
    blocks: f64,
    /// Blocks that were answered from the tier.
    hits: f64,
    spent_ns: f64,
}

impl Sums {
    fn of(counters: &Counters) -> Sums {
        Sums {
            blocks: counters.blocks_compressed() as f64,
            hits: counters.compressed_used as f64,
            spent_ns: counters.compression_ns as f64,
        }
    }

    fn assumed(blocks: f64) -> Sums {
        Sums { blocks, hits: blocks * HITS, spent_ns: blocks * COMPRESS_NS }
    }

    fn combined(self, other: Sums, by: impl Fn(f64, f64) -> f64) -> Sums {
        Sums {
            blocks: by(self.blocks, other.blocks),
            hits: by(self.hits, other.hits),
            spent_ns: by(self.spent_ns, other.spent_ns),
        }
    }
}

/// The state of the judgement.
#[derive(Debug)]
pub(crate) struct Economics {
    slots: f64,
    lately: Sums,
    /// The volume's counts at the last judgement.
    counted: Sums,
    /// When compression was paused; None: it is not.
    paused_ns: Option<u64>,
}

impl Economics {
    /// Begins with the assumption that compression pays, in a cache of this many slots.
    pub(crate) fn new(slots: u32) -> Economics {
        let slots = f64::from(slots);
        Economics { slots, lately: Sums::assumed(slots), counted: Sums::default(), paused_ns: None }
    }

    /// Judges the time since the last call. Returns whether blocks should be compressed.
    pub(crate) fn judge(
        &mut self,
        counters: &Counters,
        reads: &Reads,
        pressure: Pressure,
        now_ns: u64,
    ) -> bool {
        let counted = Sums::of(counters);
        let new = counted.combined(self.counted, |now, before| now - before);
        self.counted = counted;
        let fades = half_to_the(new.blocks / self.slots);
        self.lately = self.lately.combined(new, |before, new| before * fades + new);
        let Sums { blocks, hits, spent_ns } = self.lately;
        let compress_ns = (spent_ns / blocks) as u64;
        let pays = reads.backing_ns == 0
            || compressing(reads, compress_ns, hits / blocks, pressure)
                .pays(self.paused_ns.is_some());
        match self.paused_ns {
            None if !pays => self.paused_ns = Some(now_ns),
            Some(_) if pays => self.paused_ns = None,
            Some(since_ns) if now_ns.saturating_sub(since_ns) > PAUSE_NS => {
                self.lately = Sums::assumed(self.slots * TRIAL_SHARE);
                self.paused_ns = None;
            }
            _ => {}
        }
        self.paused_ns.is_none()
    }
}

/// Returns one half to this power, linear between two whole numbers: `core` has no `powf`.
fn half_to_the(power: f64) -> f64 {
    let whole = power as u64;
    let lower = 1.0 / (1u64 << whole.min(62)) as f64;
    lower * (1.0 - (power - whole as f64).min(1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 1000;
    const CALM: Pressure = Pressure { waited: 0, wanted: 0 };
    const BUSY: Pressure = Pressure { waited: 900, wanted: 800 };

    /// A volume whose compressed blocks bring some hits.
    struct Volume {
        economics: Economics,
        counters: Counters,
        now_ns: u64,
        reads: Reads,
    }

    impl Volume {
        fn new(backing_ns: u64) -> Volume {
            Volume {
                economics: Economics::new(SLOTS),
                counters: Counters::default(),
                now_ns: 0,
                reads: Reads { backing_ns, hit_ns: 400, copy_ns: 400 },
            }
        }

        /// Compresses blocks, of which each brings this many hits.
        fn compress(&mut self, blocks: u64, hits: f64, pressure: Pressure) -> bool {
            self.now_ns += 50_000_000;
            self.counters.compressed_stored += blocks;
            self.counters.compressed_used += (blocks as f64 * hits) as u64;
            self.counters.compression_ns += blocks * 4_000;
            self.economics.judge(&self.counters, &self.reads, pressure, self.now_ns)
        }
    }

    #[test]
    fn compression_goes_on_while_its_hits_save_more_than_it_costs() {
        let mut slow = Volume::new(1_000_000);
        assert!((0..100).all(|_| slow.compress(500, 0.02, CALM)));
        let mut fast = Volume::new(20_000);
        assert!((0..100).all(|_| fast.compress(500, 0.5, CALM)));
    }

    #[test]
    fn it_is_paused_without_hits_and_tried_again_later() {
        let mut volume = Volume::new(100_000);
        let paused = (0..100).position(|_| !volume.compress(500, 0.0, CALM));
        assert!(paused.is_some_and(|windows| windows > 4), "{paused:?}");
        let tried = (0..2000).position(|_| volume.compress(0, 0.0, CALM));
        assert_eq!(tried, Some(1200), "after a minute");
        let paused = (0..100).position(|_| !volume.compress(50, 0.0, CALM));
        assert!(paused.is_some_and(|windows| (1..50).contains(&windows)), "{paused:?}");
    }

    #[test]
    fn a_busy_processor_pauses_it_over_a_fast_backing() {
        let mut fast = Volume::new(20_000);
        assert!((0..40).all(|_| fast.compress(500, 0.7, CALM)));
        assert!((0..40).any(|_| !fast.compress(500, 0.7, BUSY)));
        let mut slow = Volume::new(5_000_000);
        assert!((0..40).all(|_| slow.compress(500, 0.7, BUSY)));
    }

    #[test]
    fn waits_that_other_requests_fill_are_not_saved() {
        let while_reading = |wanted| Pressure { waited: 0, wanted };
        let mut alone = Volume::new(25_000);
        assert!((0..40).all(|_| alone.compress(500, 2.0, while_reading(20))));
        let mut among_many = Volume::new(25_000);
        assert!((0..40).any(|_| !among_many.compress(500, 2.0, while_reading(980))));
    }

    #[test]
    fn half_of_the_past_is_forgotten_with_each_turn_of_the_slots() {
        let powers = [0.0, 0.5, 1.0, 3.0, 1e9];
        let expected = [1.0, 0.75, 0.5, 0.125, 0.0];
        for (power, expected) in powers.into_iter().zip(expected) {
            assert!((half_to_the(power) - expected).abs() < 1e-9, "{power}");
        }
    }
}
