//! Learns the best share of the cache for the compressed tier while the cache works.
//!
//! As in `arbiter.rs`, *shadows* are small caches without bytes that see the accesses to a sample
//! of all blocks. One has no tier; the others have tiers of several shares, of which some store all
//! evicted blocks and some only those that the policy has not rejected. Their blocks have the mean
//! of the measured compressed sizes. The cache takes the share of the shadow with the fewest
//! misses, once the difference is statistically significant: so the memory goes to the slots or to
//! the tier, by the hits that it brings there.
//!
//! The shadows of the tier follow the share of the policy's window; each sees one block in twice as
//! many as the shadows of the window do, because it takes about four times the memory.

use crate::paired_misses::PairedMisses;
use crate::sampler::{Owner, Sampler};
use crate::tier_shard::{Sizes, TierShard};
use crate::tier_sizes::MeanSizes;
use crate::{Hash, Kind, TierRules, TierShare};

/// The shares of the shadows.
const SHARES: [TierShare; 5] = [
    TierShare::NONE,
    TierShare { percent: 25, stores_rejected: false },
    TierShare { percent: 50, stores_rejected: false },
    TierShare { percent: 75, stores_rejected: false },
    TierShare { percent: 75, stores_rejected: true },
];
/// Index of the share of a cache without a tier.
const WITHOUT: usize = 0;
/// Index of half of the slots.
const HALF: usize = 2;
/// Number of comparisons while a shadow sees as many accesses as it has slots.
const LOOKS: u32 = 8;
/// Factor by which the counts of misses fade at each comparison: a half-life of 128 of them.
const KEEPS: f64 = 0.9946;
/// The minimum difference, in standard deviations, squared.
const DEVIATIONS_SQUARED: f64 = 16.0;
/// The minimum difference, in misses for each slot of a shadow: a change of the share costs the
/// cache many of its blocks, while the shadow of the new share has all of its own already. Where
/// most accesses hit, it is `DEVIATIONS_SQUARED` of all misses, if that is less.
const GAIN_PER_SLOT_MIN: f64 = 0.3;
/// Slots of a shadow; up to twice that.
const SAMPLED: u32 = 512;
/// Factor by which measured sizes fade at each comparison.
const SIZES_KEEP: f64 = 0.98;

/// The accesses that the shadows have seen since the start, and their misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierRecord {
    /// Number of accesses; each shadow has seen all of them.
    pub accesses: u64,
    /// The misses of each shadow, in the order of [`TierArbiter::shares`].
    pub misses: [u64; SHARES.len()],
    /// Number of changes of the share.
    pub changes: u64,
}

/// Chooses the share of a volume's compressed tier, common to all its shards.
pub struct TierArbiter {
    shadows: [TierShard; SHARES.len()],
    sizes: MeanSizes,
    sampler: Sampler,
    /// Accesses between two comparisons, and those since the last one.
    every: u32,
    seen: u32,
    current: usize,
    misses: PairedMisses<{ SHARES.len() }>,
    /// [`GAIN_PER_SLOT_MIN`] for all slots of a shadow.
    large_gain: f64,
    /// The accesses, which fade as `misses` do.
    accesses: f64,
    record: TierRecord,
}

/// Returns the index of the first choice: of all fixed shares, the one that never costs much.
fn first_choice(kind: Kind) -> usize {
    match kind {
        // Their main part gives up only the blocks with the fewest requests. A tier of these alone
        // hardly has a hit, so half of the slots would cost up to a third more misses.
        Kind::WTinyLfu | Kind::WTinyLfu10 => WITHOUT,
        _ => HALF,
    }
}

/// Of how many blocks one is in the sample, as a power of two.
fn one_in_log2(slots: u32) -> u32 {
    (slots / SAMPLED).max(1).ilog2()
}

impl Sizes for MeanSizes {
    fn compress(&mut self, hash: Hash) -> Option<u32> {
        self.of(hash)
    }
}

impl TierArbiter {
    /// Creates an arbiter for a cache of this policy with `slots` slots in all its shards. It
    /// begins with [`TierArbiter::first_share`].
    ///
    /// # Panics
    /// As [`Policy::new`](crate::Policy::new).
    pub fn new(kind: Kind, slots: u32) -> TierArbiter {
        let one_in_log2 = one_in_log2(slots);
        let sampled = (slots >> one_in_log2).max(1);
        TierArbiter {
            shadows: SHARES.map(|share| TierShard::new(kind, sampled, TierRules::engine(share))),
            sizes: MeanSizes::NONE,
            sampler: TierArbiter::sampler_of(slots),
            every: (sampled / LOOKS).max(16),
            seen: 0,
            current: first_choice(kind),
            misses: PairedMisses::NONE,
            large_gain: GAIN_PER_SLOT_MIN * f64::from(sampled),
            accesses: 0.0,
            record: TierRecord::default(),
        }
    }

    /// The sample of an arbiter for a cache with this number of slots: a part of that of
    /// [`Arbiter`](crate::Arbiter).
    pub fn sampler_of(slots: u32) -> Sampler {
        Sampler::new(Owner::Arbiter, one_in_log2(slots))
    }

    /// The first share in a cache of this policy.
    pub fn first_share(kind: Kind) -> TierShare {
        SHARES[first_choice(kind)]
    }

    /// Begins with the share that an earlier arbiter has chosen, if it is one of the shares.
    pub fn begin_at(&mut self, share: TierShare) {
        if let Some(choice) = SHARES.iter().position(|other| *other == share) {
            self.current = choice;
        }
    }

    /// The sample of blocks whose accesses and compressed sizes it must see.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Returns the share of the tier.
    pub fn share(&self) -> TierShare {
        SHARES[self.current]
    }

    /// The shares from which it chooses.
    pub fn shares() -> &'static [TierShare] {
        &SHARES
    }

    /// Returns the misses of each share's shadow since the start, to examine choices.
    pub fn record(&self) -> &TierRecord {
        &self.record
    }

    /// Returns the share of the recent accesses that hit because of the tier: that a cache without
    /// one would have missed. None: there was no access.
    pub fn saved_share(&self) -> Option<f64> {
        let saved = self.misses.gain(self.current, WITHOUT);
        (self.accesses > 0.0).then(|| (saved / self.accesses).clamp(0.0, 1.0))
    }

    /// Sets the share of the policy's window, as
    /// [`Policy::set_window_share`](crate::Policy::set_window_share).
    pub fn set_window_share(&mut self, share: u32) {
        self.shadows.iter_mut().for_each(|shadow| shadow.set_window_share(share));
    }

    /// Records the compressed size of a block of the sample. None: it did not become small enough.
    pub fn record_size(&mut self, bytes: Option<u32>) {
        self.sizes.add(bytes);
    }

    /// Records an access to a block of the sample. Returns the new share if it changes.
    pub fn access(&mut self, hash: Hash) -> Option<TierShare> {
        let mut missed = [false; SHARES.len()];
        for (shadow, shard) in self.shadows.iter_mut().enumerate() {
            if !shard.hit(hash) && !shard.read_tier_or_admit(hash, &mut self.sizes) {
                missed[shadow] = true;
                self.record.misses[shadow] += 1;
            }
        }
        self.misses.add(&missed);
        self.accesses += 1.0;
        self.record.accesses += 1;
        self.seen += 1;
        if self.seen < self.every {
            return None;
        }
        self.seen = 0;
        self.sizes.fade(SIZES_KEEP);
        let better = self.better_choice();
        self.accesses *= KEEPS;
        self.misses.fade(KEEPS);
        self.current = better?;
        self.record.changes += 1;
        Some(self.share())
    }

    /// Returns the best of the choices that are significantly better than the current one.
    fn better_choice(&self) -> Option<usize> {
        let gain = |choice: &usize| self.misses.gain(*choice, self.current);
        let deviation_squared = self.misses.misses(self.current).max(1.0);
        let is_better = |choice: &usize| {
            let gain = gain(choice).max(0.0);
            let is_large =
                gain >= self.large_gain || gain * gain >= DEVIATIONS_SQUARED * deviation_squared;
            is_large && self.misses.is_significant(*choice, self.current, DEVIATIONS_SQUARED)
        };
        let better = (0..SHARES.len()).filter(is_better);
        better.max_by(|one, other| gain(one).total_cmp(&gain(other)))
    }
}
