//! A shard of a simulated cache with a compressed tier. It makes the decisions of a served one for
//! reads of single blocks, one after the other, as if compression took no time.

use crate::table::Table;
use crate::tier::Tier;
use crate::{Cause, Hash, Held, Kind, Links, Policy, TierRules, Verdict};
use alloc::vec::Vec;

/// Maximum number of blocks that are evicted ahead of need before the first of them is stored.
const BATCH_BLOCKS_MAX: u32 = 8;
/// Maximum number of pages that are turned to store one block.
const TURNS_MAX: u32 = 4;
/// Objects of eight bytes, the smallest ones, in a page.
const AGAIN_MAX: usize = 512;

/// Slots that are free, have a block, or are pages of the tier. Nothing allocates except `new`.
pub(crate) struct TierShard {
    policy: Policy,
    links: Links,
    /// The slot of each block that is cached uncompressed.
    held: Table,
    tier: Tier,
    slots: u32,
    free: u32,
    rules: TierRules,
    /// Evicted blocks that are about to be stored.
    batch: Vec<Hash>,
    /// Objects that are about to be appended again.
    again: Vec<(Hash, u32)>,
}

/// The compressed sizes of blocks, and a record of those that were compressed.
pub(crate) trait Sizes {
    /// Returns the bytes of a block that is compressed now. None: it does not become small enough.
    fn compress(&mut self, hash: Hash) -> Option<u32>;
}

impl TierShard {
    /// Creates an empty shard of this number of slots.
    pub(crate) fn new(kind: Kind, slots: u32, rules: TierRules) -> TierShard {
        TierShard {
            policy: Policy::new(kind, slots),
            links: Links::new(slots),
            held: Table::new(slots),
            tier: Tier::new(slots),
            slots,
            free: slots,
            rules,
            batch: Vec::with_capacity(BATCH_BLOCKS_MAX as usize),
            again: Vec::with_capacity(AGAIN_MAX),
        }
    }

    /// The compressed tier.
    pub(crate) fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Sets the share of the tier, and the blocks that enter it.
    pub(crate) fn set_rules(&mut self, rules: TierRules) {
        self.rules = rules;
    }

    /// Sets the share of the policy's window.
    pub(crate) fn set_window_share(&mut self, share: u32) {
        self.policy.set_window_share(share);
    }

    /// Reads a block if it is cached uncompressed. Returns whether it is.
    #[inline]
    pub(crate) fn hit(&mut self, hash: Hash) -> bool {
        let Some(slot) = self.held.find(hash) else { return false };
        self.policy.hit(&mut self.links, slot, || hash, Held::Clean);
        true
    }

    /// Reads a block that is not cached uncompressed. Returns whether it is compressed.
    pub(crate) fn read_tier_or_admit(&mut self, hash: Hash, sizes: &mut impl Sizes) -> bool {
        let used_before = self.tier.record_use(hash);
        let stays = used_before == Some(false) && !self.rules.admits_at_first_read;
        if !stays && self.policy.miss(hash) == Verdict::Keep {
            self.admit(hash, used_before.is_some() && self.rules.are_proven);
            self.compress(sizes);
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
        let cause = if is_proven { Cause::Compressed } else { Cause::Fetch };
        self.policy.admit(&mut self.links, slot, hash, cause);
    }

    /// Evicts a block: its slot is free afterwards. Returns the block.
    fn evict(&mut self, candidate: Hash) -> Option<Hash> {
        self.policy.set_room(self.slots - self.tier.pages(), self.free);
        let hash_of = |slot| self.held.hash(slot);
        let slot = self.policy.victim(&mut self.links, candidate, hash_of)?;
        let hash = self.held.hash(slot);
        self.policy.forget(&mut self.links, slot, Held::Clean);
        self.held.remove(slot);
        self.free += 1;
        Some(hash)
    }

    /// Evicts blocks ahead of need, and stores them, if the shard is short of free slots.
    fn compress(&mut self, sizes: &mut impl Sizes) {
        let free_wanted = self.rules.share.free_wanted(self.slots);
        if self.free >= free_wanted.div_ceil(2) {
            return;
        }
        loop {
            let mut batch = core::mem::take(&mut self.batch);
            batch.clear();
            let mut evicted = 0;
            while self.free < free_wanted && evicted < BATCH_BLOCKS_MAX {
                if self.tier.pages() > self.pages_max() {
                    self.drop_page();
                    evicted += 1;
                    continue;
                }
                // No block is about to be cached: none is compared with the victim.
                let Some(hash) = self.evict(Hash::of(u64::MAX)) else { break };
                evicted += 1;
                if self.rules.share.stores_rejected || !self.policy.has_rejected() {
                    batch.push(hash);
                }
            }
            batch.iter().for_each(|hash| self.store(*hash, sizes));
            self.batch = batch;
            if evicted == 0 || self.free >= free_wanted {
                return;
            }
        }
    }

    fn store(&mut self, hash: Hash, sizes: &mut impl Sizes) {
        if let Some(bytes) = sizes.compress(hash)
            && self.make_room(bytes)
        {
            self.tier.store(hash, bytes);
            self.return_pages();
        }
    }

    /// Makes room in the tier for an object of this many bytes. Returns false if there is none.
    fn make_room(&mut self, bytes: u32) -> bool {
        for _ in 0..TURNS_MAX {
            if self.grow_tier(bytes) {
                return true;
            }
            if !self.turn_oldest_page() {
                return false;
            }
        }
        self.grow_tier(bytes)
    }

    /// Adds a page to the tier, if an object of this many bytes needs one. Returns whether the
    /// object can be stored.
    fn grow_tier(&mut self, bytes: u32) -> bool {
        while !self.tier.is_full() && self.tier.needs_page(bytes) {
            if !self.may_add_page() || !self.add_page() {
                return false;
            }
        }
        !self.tier.is_full()
    }

    /// Maximum number of slots for the tier.
    fn pages_max(&self) -> u32 {
        let available = self.free + self.policy.clean() + self.tier.pages();
        self.rules.share.pages_max(available)
    }

    /// Whether the tier may have another page.
    fn may_add_page(&self) -> bool {
        self.tier.pages() < self.pages_max()
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
    /// were stored, as far as the tier may be that large. Returns false if there is no page.
    fn turn_oldest_page(&mut self) -> bool {
        let mut again = core::mem::take(&mut self.again);
        again.clear();
        let turned = self.tier.evict_oldest(Some(&mut again));
        self.return_pages();
        for (hash, bytes) in &again {
            if !self.grow_tier(*bytes) {
                break;
            }
            self.tier.store(*hash, *bytes);
        }
        self.return_pages();
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
