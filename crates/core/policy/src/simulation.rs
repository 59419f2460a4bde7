//! A cache without bytes: simulates a policy for a sequence of accesses.

use crate::arbiter::{Arbiter, Tuning};
use crate::arc::Arc;
use crate::lirs::Lirs;
use crate::slots::Slots;
use crate::{Hash, Kind, Policy, Reads, Sampler, shard_of};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A cache that holds block numbers only. Nothing allocates except `new`.
pub struct Simulation(Which);

enum Which {
    Slots(Slots),
    Adaptive(Box<Adaptive>),
    Arc(Arc),
    Lirs(Lirs),
    /// Shards of other kinds, each with an equal part of the slots.
    Shards(Vec<Simulation>),
}

/// The project's own policy, in one or several shards with a common arbiter.
struct Adaptive {
    shards: Vec<Slots>,
    arbiter: Arbiter,
    sampler: Sampler,
}

impl Adaptive {
    fn new(slots: u32, shards: u32, tuning: &Tuning) -> Adaptive {
        let arbiter = Arbiter::with_tuning(slots.saturating_mul(shards), tuning);
        let shard = || Slots::with_window(arbiter.share(), slots);
        let shards = (0..shards).map(|_| shard()).collect();
        Adaptive { shards, sampler: arbiter.sampler(), arbiter }
    }

    /// A shard applies a new share at its next miss, as in a served cache.
    #[inline]
    fn read(&mut self, shard: usize, hash: Hash) -> bool {
        if self.sampler.takes(hash) {
            let _ = self.arbiter.access(hash);
        }
        let slots = &mut self.shards[shard];
        let is_hit = slots.hit(hash).is_some();
        if !is_hit {
            slots.set_window_share(self.arbiter.share());
            slots.miss(hash);
        }
        is_hit
    }
}

impl Simulation {
    /// Maximum number of slots of a simulation: 4 TiB of 4 KiB blocks.
    pub const SLOTS_MAX: u32 = 1 << 30;

    /// Creates an empty cache of `slots` slots. It takes about 34 bytes per slot (LRU, FIFO, CLOCK,
    /// SIEVE), 36 (W-TinyLFU, and the project's own policy without its shadows), 50 (2Q), 64
    /// (S3-FIFO), 67 (ARC), 84 (LIRS).
    ///
    /// # Panics
    /// If `slots` is 0 or more than [`Simulation::SLOTS_MAX`].
    pub fn new(kind: Kind, slots: u32) -> Simulation {
        assert!(slots > 0, "a cache has at least one slot");
        assert!(slots <= Simulation::SLOTS_MAX, "a simulated cache has 2^30 slots at most");
        Simulation(match kind {
            Kind::Adaptive => return Simulation::with_tuning(slots, &Tuning::DEFAULT),
            Kind::Arc => Which::Arc(Arc::new(slots)),
            Kind::Lirs if slots > 1 => Which::Lirs(Lirs::new(slots, false)),
            Kind::Lirs => Which::Slots(Slots::new(Policy::new(Kind::Lru, slots), slots)),
            _ => Which::Slots(Slots::new(Policy::new(kind, slots), slots)),
        })
    }

    /// Creates an empty cache of `shards` shards with `slots` slots each, over which blocks are
    /// spread as in the engine.
    ///
    /// # Panics
    /// As [`Simulation::new`], or if the number of shards is not a power of two.
    pub fn with_shards(kind: Kind, slots: u32, shards: u32) -> Simulation {
        assert!(shards.is_power_of_two(), "{shards} shards");
        match (shards, kind) {
            (1, _) => Simulation::new(kind, slots),
            (_, Kind::Adaptive) => {
                let adaptive = Adaptive::new(slots, shards, &Tuning::DEFAULT);
                Simulation(Which::Adaptive(Box::new(adaptive)))
            }
            _ => {
                let all = (0..shards).map(|_| Simulation::new(kind, slots));
                Simulation(Which::Shards(all.collect()))
            }
        }
    }

    /// Creates an empty cache of [`Kind::Adaptive`] whose arbiter has these numbers. Only for
    /// comparisons.
    ///
    /// # Panics
    /// If `slots` is 0.
    pub fn with_tuning(slots: u32, tuning: &Tuning) -> Simulation {
        assert!(slots > 0, "a cache has at least one slot");
        Simulation(Which::Adaptive(Box::new(Adaptive::new(slots, 1, tuning))))
    }

    /// Returns the arbiter of [`Kind::Adaptive`], to examine its choices.
    pub fn arbiter(&self) -> Option<&Arbiter> {
        match &self.0 {
            Which::Adaptive(adaptive) => Some(&adaptive.arbiter),
            _ => None,
        }
    }

    /// Same as `new`, but follows libcachesim 0.3.5 where that differs: searches for a victim are
    /// unbounded, and S3-FIFO and LIRS differ as their files describe. Only for comparisons with
    /// libcachesim.
    ///
    /// # Panics
    /// As [`Simulation::new`].
    pub fn as_libcachesim(kind: Kind, slots: u32) -> Simulation {
        match kind {
            Kind::Lirs if slots > 1 => Simulation(Which::Lirs(Lirs::new(slots, true))),
            Kind::Clock | Kind::Sieve | Kind::S3Fifo if slots > 0 => {
                let policy = Policy::as_libcachesim(kind, slots);
                Simulation(Which::Slots(Slots::new(policy, slots)))
            }
            _ => Simulation::new(kind, slots),
        }
    }

    /// Reads a block. Returns whether it was cached.
    #[inline]
    pub fn read(&mut self, block: u64) -> bool {
        match &mut self.0 {
            Which::Slots(slots) => slots.read(block),
            Which::Adaptive(adaptive) => {
                let shard = shard_of(block, adaptive.shards.len() as u32);
                adaptive.read(shard as usize, Hash::of(block))
            }
            Which::Arc(arc) => arc.read(block),
            Which::Lirs(lirs) => lirs.read(block),
            Which::Shards(shards) => {
                let shard = shard_of(block, shards.len() as u32);
                shards[shard as usize].read(block)
            }
        }
    }
}

/// Returns the number of misses of these reads in an empty cache of `slots` slots (at least one).
pub fn misses(kind: Kind, slots: u32, blocks: impl IntoIterator<Item = u64>) -> u64 {
    let mut simulation = Simulation::new(kind, slots);
    blocks.into_iter().filter(|&block| !simulation.read(block)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_one_unused_for_longest_goes() {
        let mut simulation = Simulation::new(Kind::Lru, 2);
        let hits: Vec<bool> =
            [1, 2, 1, 3, 2, 1, 1].into_iter().map(|block| simulation.read(block)).collect();
        assert_eq!(hits, [false, false, true, false, false, false, true]);
    }

    #[test]
    fn a_scan_misses_each_time_and_a_loop_that_fits_once() {
        for kind in Kind::ALL {
            assert_eq!(misses(kind, 8, 0..100), 100, "{kind:?}");
            assert_eq!(misses(kind, 8, (0..100).map(|read| read % 8)), 8, "{kind:?}");
            assert_eq!(misses(kind, 1, [1, 1, 2, 2, 1]), 3, "{kind:?}");
        }
        let looped = |kind| misses(kind, 8, (0..900).map(|read| read % 9));
        assert_eq!(looped(Kind::Lru), 900, "each is gone just before it is read");
        assert_eq!(looped(Kind::Sieve), 900, "nothing is read while it is held");
        assert!(looped(Kind::Lirs) < 250, "all but the HIR blocks stay");
    }
}
