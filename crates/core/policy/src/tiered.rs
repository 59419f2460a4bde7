//! A cache without bytes whose evicted blocks stay in memory compressed: the simulation of the
//! engine's compressed tier (docs/design/compression.md).
//!
//! A shard makes the decisions of a served one for reads of single blocks, one after the other, as
//! if compression took no time.

use crate::arbiter::{Arbiter, Tuning};
use crate::table::Table;
use crate::tier::Tier;
use crate::{Cause, Hash, Held, Kind, Links, Policy, Sampler, Verdict, shard_of};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Slots are freed ahead of need while fewer than one in this number are free ...
const FREE_ONE_IN: u32 = 64;
/// ... but no more than this number.
const FREE_MAX: u32 = 256;
/// Maximum number of blocks that are evicted ahead of need before the first of them is stored.
const BATCH_BLOCKS_MAX: u32 = 8;
/// Pages that are evicted at most to store one block.
const EVICTIONS_MAX: u32 = 4;

/// Objects of eight bytes, the smallest ones, in a page.
const AGAIN_MAX: usize = 512;

/// Returns the bytes of a compressed block, from 8 to 4096. None: it does not become small enough.
pub type CompressedBytes = dyn Fn(Hash) -> Option<u32> + Send + Sync;

/// The rules of the tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierRules {
    /// Maximum share of the slots that the tier uses, in percent.
    pub pages_percent_max: u32,
    /// A block is admitted uncompressed again at its first read, not at its second one.
    pub admits_at_first_read: bool,
    /// Blocks that are admitted again are proven to the policy.
    pub are_proven: bool,
    /// Only blocks that were read again after they had been admitted are stored.
    pub stores_only_read: bool,
}

impl TierRules {
    /// The rules of the engine. Others are only for comparisons.
    pub const ENGINE: TierRules = TierRules {
        pages_percent_max: 50,
        admits_at_first_read: false,
        are_proven: false,
        stores_only_read: false,
    };
}

/// A cache of one policy with a compressed tier, which holds block numbers only. Nothing allocates
/// except `new`.
pub struct TieredSimulation {
    shards: Vec<Shard>,
    /// The arbiter of [`Kind::Adaptive`], and its sample.
    adaptive: Option<(Arbiter, Sampler)>,
    hits: u64,
}

impl TieredSimulation {
    /// Creates an empty cache of `shards` shards with `slots` slots each. It takes about 180 bytes
    /// per slot.
    ///
    /// # Panics
    /// If the kind does not work on slots (see [`Policy::new`]), there are no slots or more than
    /// [`Simulation::SLOTS_MAX`](crate::Simulation::SLOTS_MAX), or the number of shards is not a
    /// power of two.
    pub fn new(
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
        let shard = |_| Shard::new(kind, slots, rules, compressed_bytes.clone());
        TieredSimulation { shards: (0..shards).map(shard).collect(), adaptive, hits: 0 }
    }

    /// Reads a block. Returns whether it was in memory, in a slot or compressed.
    #[inline]
    pub fn read(&mut self, block: u64) -> bool {
        let hash = Hash::of(block);
        if let Some((arbiter, sampler)) = &mut self.adaptive
            && sampler.takes(hash)
        {
            let _ = arbiter.access(hash);
        }
        let number = shard_of(block, self.shards.len() as u32);
        let shard = &mut self.shards[number as usize];
        if shard.hit(hash) {
            return true;
        }
        if let Some((arbiter, _)) = &self.adaptive {
            shard.policy.set_window_share(arbiter.share());
        }
        let is_compressed = shard.read_tier_or_admit(hash);
        self.hits += u64::from(is_compressed);
        is_compressed
    }

    /// Number of reads that found their block compressed.
    pub fn compressed_hits(&self) -> u64 {
        self.hits
    }

    /// Number of blocks that are compressed.
    pub fn compressed_blocks(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.tier.held())).sum()
    }

    /// Number of slots with compressed blocks.
    pub fn compressed_slots(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(shard.tier.pages())).sum()
    }
}

/// A shard: slots that are free, have a block, or are pages of the tier.
struct Shard {
    policy: Policy,
    links: Links,
    /// The slot of each block that is cached uncompressed.
    held: Table,
    /// Whether the block of each slot was read since it was admitted.
    is_read: Vec<bool>,
    tier: Tier,
    free: u32,
    free_wanted: u32,
    rules: TierRules,
    compressed_bytes: Arc<CompressedBytes>,
    /// Evicted blocks that are about to be stored.
    batch: Vec<Hash>,
    /// Objects that are about to be appended again.
    again: Vec<(Hash, u32)>,
}

impl Shard {
    fn new(
        kind: Kind,
        slots: u32,
        rules: TierRules,
        compressed_bytes: Arc<CompressedBytes>,
    ) -> Shard {
        Shard {
            policy: Policy::new(kind, slots),
            links: Links::new(slots),
            held: Table::new(slots),
            is_read: vec![false; slots as usize],
            tier: Tier::new(slots),
            free: slots,
            free_wanted: (slots / FREE_ONE_IN).clamp(1, FREE_MAX),
            rules,
            compressed_bytes,
            batch: Vec::with_capacity(BATCH_BLOCKS_MAX as usize),
            again: Vec::with_capacity(AGAIN_MAX),
        }
    }

    /// Reads a block if it is cached uncompressed. Returns whether it is.
    #[inline]
    fn hit(&mut self, hash: Hash) -> bool {
        let Some(slot) = self.held.find(hash) else { return false };
        self.policy.hit(&mut self.links, slot, || hash, Held::Clean);
        self.is_read[slot as usize] = true;
        true
    }

    /// Reads a block that is not cached uncompressed. Returns whether it is compressed.
    fn read_tier_or_admit(&mut self, hash: Hash) -> bool {
        let used_before = self.tier.record_use(hash);
        let stays = used_before == Some(false) && !self.rules.admits_at_first_read;
        if !stays && self.policy.miss(hash) == Verdict::Keep {
            self.admit(hash, used_before.is_some() && self.rules.are_proven);
            self.compress();
        }
        used_before.is_some()
    }

    fn admit(&mut self, hash: Hash, is_proven: bool) {
        if self.free == 0 && self.tier.pages() > self.pages_max() {
            self.drop_page();
        }
        if self.free == 0 && self.evict(hash).is_none() {
            self.drop_page();
        }
        self.free -= 1;
        self.tier.forget(hash);
        self.return_pages();
        let slot = self.held.insert(hash);
        self.is_read[slot as usize] = is_proven;
        let cause = if is_proven { Cause::Compressed } else { Cause::Fetch };
        self.policy.admit(&mut self.links, slot, hash, cause);
    }

    /// Evicts a block: its slot is free afterwards. Returns the block, and whether it was read
    /// since it was admitted.
    fn evict(&mut self, candidate: Hash) -> Option<(Hash, bool)> {
        let hash_of = |slot| self.held.hash(slot);
        let slot = self.policy.victim(&mut self.links, candidate, hash_of)?;
        let hash = self.held.hash(slot);
        self.policy.forget(&mut self.links, slot, Held::Clean);
        self.held.remove(slot);
        self.free += 1;
        Some((hash, self.is_read[slot as usize]))
    }

    /// Evicts blocks ahead of need, and stores them, if the shard is short of free slots.
    fn compress(&mut self) {
        if self.free >= self.free_wanted.div_ceil(2) {
            return;
        }
        loop {
            let mut batch = core::mem::take(&mut self.batch);
            batch.clear();
            let mut evicted = 0;
            while self.free < self.free_wanted && evicted < BATCH_BLOCKS_MAX {
                // No block is about to be cached: none is compared with the victim.
                let Some((hash, is_read)) = self.evict(Hash::of(u64::MAX)) else { break };
                evicted += 1;
                if is_read || !self.rules.stores_only_read {
                    batch.push(hash);
                }
            }
            batch.iter().for_each(|hash| self.store(*hash));
            self.batch = batch;
            if evicted == 0 {
                return;
            }
        }
    }

    fn store(&mut self, hash: Hash) {
        if let Some(bytes) = (self.compressed_bytes)(hash)
            && self.make_room(bytes)
        {
            self.tier.store(hash, bytes);
            self.return_pages();
        }
    }

    /// Makes room in the tier for an object of this many bytes. Returns false if there is none.
    fn make_room(&mut self, bytes: u32) -> bool {
        for _ in 0..EVICTIONS_MAX {
            let needs_page = self.tier.needs_page(bytes);
            let is_full = self.tier.is_full();
            if !is_full && !needs_page {
                return true;
            }
            let may_grow = !is_full && self.tier.pages() < self.pages_max();
            let has_grown = may_grow && self.add_page();
            if !has_grown && !self.turn_oldest_page() {
                return false;
            }
        }
        !self.tier.is_full() && !self.tier.needs_page(bytes)
    }

    /// Maximum number of slots for the tier.
    fn pages_max(&self) -> u32 {
        let available = u64::from(self.free + self.policy.clean() + self.tier.pages());
        (available * u64::from(self.rules.pages_percent_max) / 100) as u32
    }

    fn add_page(&mut self) -> bool {
        let has_slot = self.free > 0;
        if has_slot {
            self.free -= 1;
            self.tier.add_page();
        }
        has_slot
    }

    /// Releases the oldest page, and stores those of its blocks again that were read since they
    /// were stored.
    fn turn_oldest_page(&mut self) -> bool {
        let mut again = core::mem::take(&mut self.again);
        again.clear();
        let turned = self.tier.evict_oldest(Some(&mut again));
        self.return_pages();
        for (hash, bytes) in &again {
            if self.tier.is_full() || self.tier.needs_page(*bytes) && !self.add_page() {
                break;
            }
            self.tier.store(*hash, *bytes);
        }
        self.again = again;
        turned
    }

    /// Releases the oldest page with its blocks.
    fn drop_page(&mut self) {
        self.tier.evict_oldest(None);
        self.return_pages();
    }

    /// Counts the slots that the tier has released as free.
    fn return_pages(&mut self) {
        self.free += self.tier.take_released();
    }
}
