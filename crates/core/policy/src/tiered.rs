//! A cache without bytes whose evicted blocks stay in memory compressed: the simulation of the
//! engine's compressed tier (docs/design/compression.md).

use crate::arbiter::{Arbiter, Tuning};
use crate::tier_arbiter::TierArbiter;
use crate::tier_shard::{Sizes, TierShard};
use crate::{Hash, Kind, Sampler, TierShare, shard_of};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Returns the bytes of a compressed block, from 8 to 4096. None: it does not become small enough.
pub type CompressedBytes = dyn Fn(Hash) -> Option<u32> + Send + Sync;

/// The rules of the tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierRules {
    /// The share of the slots that the tier uses, and the blocks that enter it.
    pub share: TierShare,
    /// A block is admitted uncompressed again at its first read, not at its second one.
    pub admits_at_first_read: bool,
    /// Blocks that are admitted again are proven to the policy.
    pub are_proven: bool,
}

impl TierRules {
    /// The rules of the engine with this share. Others are only for comparisons.
    pub const fn engine(share: TierShare) -> TierRules {
        TierRules { share, admits_at_first_read: false, are_proven: true }
    }
}

/// A cache of one policy with a compressed tier, which holds block numbers only. Nothing allocates
/// except `new`.
pub struct TieredSimulation {
    shards: Vec<TierShard>,
    /// The arbiter of [`Kind::Adaptive`], and its sample.
    adaptive: Option<(Arbiter, Sampler)>,
    /// The arbiter of the tier's share. None: the share is fixed.
    tier: Option<TierArbiter>,
    compressed_bytes: Arc<CompressedBytes>,
    hits: u64,
}

/// The sizes of a simulated cache, which are reported to the tier's arbiter as the engine does.
struct Reported<'a> {
    bytes: &'a CompressedBytes,
    arbiter: Option<&'a mut TierArbiter>,
}

impl Sizes for Reported<'_> {
    fn compress(&mut self, hash: Hash) -> Option<u32> {
        let bytes = (self.bytes)(hash);
        if let Some(arbiter) = &mut self.arbiter
            && arbiter.sampler().takes(hash)
        {
            arbiter.record_size(bytes);
        }
        bytes
    }
}

impl TieredSimulation {
    /// Creates an empty cache of `shards` shards with `slots` slots each, whose tier's share is
    /// chosen as in the engine. It takes about 180 bytes per slot.
    ///
    /// # Panics
    /// If the kind does not work on slots (see [`Policy::new`](crate::Policy::new)), there are no
    /// slots or more than [`Simulation::SLOTS_MAX`](crate::Simulation::SLOTS_MAX), or the number
    /// of shards is not a power of two.
    pub fn new(
        kind: Kind,
        slots: u32,
        shards: u32,
        compressed_bytes: &Arc<CompressedBytes>,
    ) -> TieredSimulation {
        let rules = TierRules::engine(TierShare::NONE);
        let fixed = TieredSimulation::with_rules(kind, slots, shards, rules, compressed_bytes);
        let tier = TierArbiter::new(kind, slots.saturating_mul(shards));
        TieredSimulation { tier: Some(tier), ..fixed }
    }

    /// Creates an empty cache whose tier has fixed rules. Only for comparisons.
    ///
    /// # Panics
    /// As [`TieredSimulation::new`].
    pub fn with_rules(
        kind: Kind,
        slots: u32,
        shards: u32,
        rules: TierRules,
        compressed_bytes: &Arc<CompressedBytes>,
    ) -> TieredSimulation {
        assert!(shards.is_power_of_two(), "{shards} shards");
        assert!(slots > 0 && slots <= crate::Simulation::SLOTS_MAX, "{slots} slots");
        let adaptive = (kind == Kind::Adaptive).then(|| {
            let arbiter = Arbiter::with_tuning(slots.saturating_mul(shards), &Tuning::DEFAULT);
            let sampler = arbiter.sampler();
            (arbiter, sampler)
        });
        TieredSimulation {
            shards: (0..shards).map(|_| TierShard::new(kind, slots, rules)).collect(),
            adaptive,
            tier: None,
            compressed_bytes: compressed_bytes.clone(),
            hits: 0,
        }
    }

    /// Reads a block. Returns whether it was in memory, in a slot or compressed.
    #[inline]
    pub fn read(&mut self, block: u64) -> bool {
        let hash = Hash::of(block);
        self.sample(hash);
        let number = shard_of(block, self.shards.len() as u32);
        let shard = &mut self.shards[number as usize];
        if shard.hit(hash) {
            return true;
        }
        if let Some((arbiter, _)) = &self.adaptive {
            shard.set_window_share(arbiter.share());
        }
        if let Some(tier) = &self.tier {
            shard.set_rules(TierRules::engine(tier.share()));
        }
        let bytes = &*self.compressed_bytes;
        let mut sizes = Reported { bytes, arbiter: self.tier.as_mut() };
        let is_compressed = shard.read_tier_or_admit(hash, &mut sizes);
        self.hits += u64::from(is_compressed);
        is_compressed
    }

    /// Reports an access to the arbiters, if the block is in their samples.
    #[inline]
    fn sample(&mut self, hash: Hash) {
        if let Some((arbiter, sampler)) = &mut self.adaptive
            && sampler.takes(hash)
        {
            let window = arbiter.access(hash);
            if let (Some(tier), Some(share)) = (&mut self.tier, window) {
                tier.set_window_share(share);
            }
        }
        if let Some(tier) = &mut self.tier
            && tier.sampler().takes(hash)
        {
            let _ = tier.access(hash);
        }
    }

    /// Returns the arbiter of the tier's share, to examine its choices. None: the share is fixed.
    pub fn tier_arbiter(&self) -> Option<&TierArbiter> {
        self.tier.as_ref()
    }

    /// Number of reads that found their block compressed.
    pub fn compressed_hits(&self) -> u64 {
        self.hits
    }

    /// Number of blocks that are compressed.
    pub fn compressed_blocks(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.tier().held())).sum()
    }

    /// Number of slots with compressed blocks.
    pub fn compressed_slots(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.tier().pages())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use crate::misses;

    fn bytes(size: Option<u32>) -> Arc<CompressedBytes> {
        Arc::new(move |_| size)
    }

    /// Returns the misses of a cache with the tier.
    fn misses_of(cache: &mut TieredSimulation, blocks: &[u64]) -> u64 {
        blocks.iter().filter(|block| !cache.read(**block)).count() as u64
    }

    fn skewed(blocks: u64, count: usize) -> Vec<u64> {
        let mut state = 7;
        let mut one = || {
            let near = draw(&mut state, blocks) * draw(&mut state, blocks) / blocks;
            near * draw(&mut state, blocks) / blocks
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn slots_that_are_freed_ahead_of_need_hardly_cost_a_hit() {
        let blocks = skewed(40_000, 120_000);
        let rules = TierRules::engine(TierShare { percent: 50, stores_rejected: true });
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
            // Nothing becomes small enough, so only the time of the evictions differs.
            let mut cache = TieredSimulation::with_rules(kind, 2048, 1, rules, &bytes(None));
            let ahead = misses_of(&mut cache, &blocks);
            let plain = misses(kind, 2048, blocks.iter().copied());
            assert!(ahead * 100 <= plain * 102, "{kind:?}: {ahead} misses instead of {plain}");
        }
    }

    #[test]
    fn a_loop_that_fits_compressed_is_kept() {
        let blocks: Vec<u64> = (0..100_000).map(|read| read % 3000).collect();
        let mut cache = TieredSimulation::new(Kind::Lru, 2048, 1, &bytes(Some(1400)));
        let missed = misses_of(&mut cache, &blocks);
        assert!(missed < 10_000, "{missed} misses: LRU alone misses always");
        assert!(cache.compressed_hits() > 10_000);
    }

    #[test]
    fn a_tier_that_brings_no_hits_ends() {
        // A loop over more than the cache could hold compressed, and hot blocks that need most of
        // the slots: objects save so little that the tier only costs slots.
        let mut state = 3;
        let hot = |state: &mut u64| draw(state, 1900) * 2;
        let blocks: Vec<u64> = (0..400_000u64)
            .map(|read| if read % 2 == 0 { hot(&mut state) } else { read % 60_000 * 2 + 1 })
            .collect();
        let kind = Kind::Adaptive;
        let mut cache = TieredSimulation::new(kind, 2048, 1, &bytes(Some(3072)));
        let first = misses_of(&mut cache, &blocks[..200_000]);
        let last = misses_of(&mut cache, &blocks[200_000..]);
        let plain = misses(kind, 2048, blocks.iter().copied());
        let record = cache.tier_arbiter().expect("it is not fixed");
        assert_eq!(record.share(), TierShare::NONE, "{:?}", record.record());
        assert_eq!(cache.compressed_slots(), 0, "{first} and {last} misses");
        assert!((first + last) * 100 <= plain * 104, "{first} and {last} instead of {plain}");
    }
}
