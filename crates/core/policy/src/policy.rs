//! The policy of a shard: an enum of all policies.

use crate::clock::Clock;
use crate::fifo::Fifo;
use crate::hints::{PolicyHints, SPARED_MAX};
use crate::lru::Lru;
use crate::s3_fifo::S3Fifo;
use crate::sieve::Sieve;
use crate::two_q::TwoQ;
use crate::w_tiny_lfu::WTinyLfu;
use crate::window::{FIRST_SHARE, Window};
use crate::{
    CLASSES_MAX, Cause, ClassCounts, Hash, Held, Kind, Links, List, ListsByHeat, Replacement,
    Verdict, WALK_MAX,
};
use alloc::boxed::Box;
use core::ops::Range;

/// A policy and its state.
pub struct Policy {
    which: Which,
    /// The hints that its misses and victims pass.
    hints: Option<Box<PolicyHints>>,
}

/// An enum, not a trait object, because it is called on every hit.
enum Which {
    Lru(Lru),
    Fifo(Fifo),
    Clock(Clock),
    TwoQ(TwoQ),
    S3Fifo(S3Fifo),
    Sieve(Sieve),
    WTinyLfu(WTinyLfu),
    Window(Window),
}

/// Calls a method of the current policy. The default is tested first: a jump through a table would
/// cost a hit some nanoseconds.
macro_rules! dispatch {
    ($policy:expr, $it:ident => $call:expr) => {
        match $policy {
            Which::Window($it) => $call,
            others => match others {
                Which::Window(_) => unreachable!("it was tested first"),
                Which::Lru($it) => $call,
                Which::Fifo($it) => $call,
                Which::Clock($it) => $call,
                Which::TwoQ($it) => $call,
                Which::S3Fifo($it) => $call,
                Which::Sieve($it) => $call,
                Which::WTinyLfu($it) => $call,
            },
        }
    };
}

impl Policy {
    /// Creates a policy for slots 0 to `slots` - 1, none of them clean.
    ///
    /// # Panics
    /// If the kind does not work on slots: [`Kind::Arc`] and [`Kind::Lirs`]. Every kind that
    /// [`Kind::is_served`] does.
    pub fn new(kind: Kind, slots: u32) -> Policy {
        let mut policy = Policy::without_hints(match kind {
            Kind::Lru => Which::Lru(Lru::EMPTY),
            Kind::Fifo => Which::Fifo(Fifo::EMPTY),
            Kind::Clock => Which::Clock(Clock::new(WALK_MAX)),
            Kind::TwoQ => Which::TwoQ(TwoQ::new()),
            Kind::S3Fifo => Which::S3Fifo(S3Fifo::new(WALK_MAX, false)),
            Kind::Sieve => Which::Sieve(Sieve::new(WALK_MAX)),
            Kind::WTinyLfu => Which::WTinyLfu(WTinyLfu::new(1)),
            Kind::WTinyLfu10 => Which::WTinyLfu(WTinyLfu::new(10)),
            Kind::Adaptive => Which::Window(Window::new(FIRST_SHARE)),
            Kind::Arc | Kind::Lirs => panic!("{} can only be simulated", kind.name()),
        });
        policy.resize(slots);
        policy
    }

    fn without_hints(which: Which) -> Policy {
        Policy { which, hints: None }
    }

    /// Replaces the hints; later ones continue the counts of earlier ones. Returns the earlier
    /// ones, to be dropped outside of a section. Allocates nothing.
    pub fn replace_hints(&mut self, hints: Option<Box<PolicyHints>>) -> Option<Box<PolicyHints>> {
        let mut earlier = core::mem::replace(&mut self.hints, hints);
        if let (Some(hints), Some(earlier)) = (&mut self.hints, &mut earlier) {
            hints.continue_from(earlier);
        }
        earlier
    }

    /// The counts of each class, if there are hints.
    pub fn class_counts(&self) -> Option<&[ClassCounts; CLASSES_MAX]> {
        self.hints.as_ref().map(|hints| hints.counts())
    }

    /// Whether hints name a block as one of a class that is never admitted.
    pub fn never_admits(&self, block: u64) -> bool {
        self.hints.as_ref().is_some_and(|hints| hints.never_admits(block))
    }

    /// Whether a write to these blocks may change the map of files that the hints were made from.
    /// False without hints.
    #[inline]
    pub fn outdates_map(&self, blocks: Range<u64>) -> bool {
        self.hints.as_ref().is_some_and(|hints| hints.outdates_map(blocks))
    }

    /// Same as `new`, with unbounded searches for a victim, and S3-FIFO filled as in libcachesim.
    pub(crate) fn as_libcachesim(kind: Kind, slots: u32) -> Policy {
        let mut policy = match kind {
            Kind::Clock => Policy::without_hints(Which::Clock(Clock::new(u32::MAX))),
            Kind::Sieve => Policy::without_hints(Which::Sieve(Sieve::new(u32::MAX))),
            Kind::S3Fifo => Policy::without_hints(Which::S3Fifo(S3Fifo::new(u32::MAX, true))),
            _ => return Policy::new(kind, slots),
        };
        policy.resize(slots);
        policy
    }

    /// The lists of the clean slots, in the policy's own order.
    pub fn lists(&self) -> &[List] {
        dispatch!(&self.which, policy => policy.lists())
    }

    /// Returns the lists of the clean slots, the coldest first; each begins with its coldest slot.
    pub fn coldest_first(&self) -> ListsByHeat {
        dispatch!(&self.which, policy => policy.coldest_first())
    }

    /// The number of reads of a slot, up to three, that the policy remembers apart from its
    /// position in a list.
    pub fn reads(&self, slot: u32) -> u32 {
        dispatch!(&self.which, policy => policy.reads(slot))
    }

    /// Number of clean slots.
    #[inline]
    pub fn clean(&self) -> u32 {
        self.lists().iter().map(|list| list.length).sum()
    }

    /// Records a read of a slot; `hash` returns the hash of its block, and is called only if the
    /// policy needs it. The policy may remember a read of a dirty slot until the slot is clean.
    #[inline]
    pub fn hit(&mut self, links: &mut Links, slot: u32, hash: impl FnOnce() -> Hash, held: Held) {
        dispatch!(&mut self.which, policy => policy.hit(links, slot, hash, held));
    }

    /// Records a missing block and returns whether to admit it. Call it once per missing block of a
    /// read that goes to the backing, even if the read is not admitted for another reason, and of a
    /// write that is admitted, whatever its result.
    #[inline]
    pub fn miss(&mut self, hash: Hash) -> Verdict {
        let verdict = dispatch!(&mut self.which, policy => policy.miss(hash));
        let is_skipped = self.hints.as_mut().is_some_and(|hints| hints.skips(hash));
        if is_skipped { Verdict::Skip } else { verdict }
    }

    /// Adds a slot, which is in no list, with a clean copy of this block. It may be chosen as a
    /// victim from now on.
    #[inline]
    pub fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) {
        dispatch!(&mut self.which, policy => policy.admit(links, slot, hash, cause));
    }

    /// Returns the clean slot to evict for a candidate. The caller must forget it next; until then
    /// it is in a list. `hash_of` returns the hash of a clean slot's block. None: no slot is clean.
    #[inline]
    pub fn victim(
        &mut self,
        links: &mut Links,
        candidate: Hash,
        hash_of: impl Fn(u32) -> Hash,
    ) -> Option<u32> {
        if let Some(hints) = &mut self.hints
            && let Some(weight) = hints.weight_of(candidate)
        {
            for _ in 0..SPARED_MAX {
                let next =
                    dispatch!(&mut self.which, policy => policy.victim(links, candidate, &hash_of));
                let slot = next?;
                let hash = hash_of(slot);
                if !hints.spares(hash, weight) {
                    return next;
                }
                dispatch!(&mut self.which, policy => policy.spare(links, slot, hash));
            }
        }
        dispatch!(&mut self.which, policy => policy.victim(links, candidate, hash_of))
    }

    /// Whether the last victim was rejected: it leaves the queue that new blocks enter, and the
    /// policy prefers all blocks of its main part to it.
    #[inline]
    pub fn has_rejected(&self) -> bool {
        dispatch!(&self.which, policy => policy.has_rejected())
    }

    /// Moves the block of `old` to `new`, which is in no list: a write has stored a newer version
    /// there. The block's history moves to `new`; `old` must be forgotten next. If `new` is clean,
    /// `old` must be clean too: it leaves its list, and `new` takes its position.
    #[inline]
    pub fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        dispatch!(&mut self.which, policy => policy.succeed(links, old, new, held));
    }

    /// Adds a slot, which is in no list, with a clean block that an earlier process had in this
    /// list, with this number of reads, at most three. Lists are restored one after the other, the
    /// last one first, each in its order. Policies other than LRU, FIFO and the project's own
    /// restore an approximation.
    pub(crate) fn restore(
        &mut self,
        links: &mut Links,
        slot: u32,
        hash: Hash,
        list: usize,
        reads: u32,
    ) {
        dispatch!(&mut self.which, policy => policy.restore(links, slot, hash, list, reads));
    }

    /// Fingerprints of blocks that were evicted recently, if the policy has these: to save them.
    pub fn ghosts(&self) -> &[u16] {
        dispatch!(&self.which, policy => policy.ghosts())
    }

    /// Restores the fingerprints of evicted blocks that an earlier process had, if their number is
    /// that of this policy. Returns whether it is.
    pub fn restore_ghosts(&mut self, ghosts: &[u16]) -> bool {
        let own = dispatch!(&mut self.which, policy => policy.ghosts_mut());
        let is_same = own.len() == ghosts.len();
        if is_same {
            own.copy_from_slice(ghosts);
        }
        is_same
    }

    /// Records that a slot no longer holds its block. A clean slot leaves its list.
    #[inline]
    pub fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        dispatch!(&mut self.which, policy => policy.forget(links, slot, held));
    }

    /// Sets the window's share of the cache if the policy is [`Kind::Adaptive`]: in 1024ths, as in
    /// [`window_share`](crate::window_share), or as [`Arbiter`](crate::Arbiter) returns it, with
    /// the rules for main.
    pub fn set_window_share(&mut self, share: u32) {
        if let Which::Window(window) = &mut self.which {
            window.set_share(share);
        }
    }

    /// Sets the room of the policy: the number of slots that are for it, which is smaller if others
    /// are pages of a compressed tier, and how many of them were freed ahead of need.
    #[inline]
    pub fn set_room(&mut self, slots: u32, free: u32) {
        dispatch!(&mut self.which, policy => policy.set_room(slots, free));
    }

    /// Changes the number of slots. Slots beyond it were forgotten before. Allocates.
    pub fn resize(&mut self, slots: u32) {
        dispatch!(&mut self.which, policy => policy.resize(slots));
    }
}

#[cfg(test)]
mod tests {
    use crate::brute_force::keeps_its_lists;
    use crate::{Kind, Policy};

    /// The order of the lists is the order in which unread slots would be evicted.
    #[test]
    fn the_coldest_slots_come_first() {
        use crate::{Cause, Hash, Held, Links};
        const SLOTS: u32 = 64;
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
            let (mut links, mut policy) = (Links::new(SLOTS), Policy::new(kind, SLOTS));
            let hash_of = |slot: u32| Hash::of(u64::from(slot));
            (0..SLOTS).for_each(|slot| policy.admit(&mut links, slot, hash_of(slot), Cause::Fetch));
            let hot = 7;
            for _ in 0..4 {
                policy.hit(&mut links, hot, || hash_of(hot), Held::Clean);
            }
            let mut order = std::vec::Vec::new();
            for list in policy.coldest_first() {
                let mut slot = list.head;
                while slot != crate::NIL {
                    order.push(slot);
                    slot = links.after(slot);
                }
            }
            assert_eq!(order.len(), SLOTS as usize, "{kind:?}");
            let position = order.iter().position(|slot| *slot == hot).expect("it is there");
            let is_last = position == SLOTS as usize - 1;
            let learns = kind != Kind::Fifo;
            assert_eq!(is_last || policy.reads(hot) > 0, learns, "{kind:?}: {position}");
            assert_eq!(policy.reads(8), 0, "{kind:?}");
        }
    }

    #[test]
    fn every_clean_slot_is_in_one_list_whatever_the_calls() {
        let over_slots = |kind: &Kind| !matches!(kind, Kind::Arc | Kind::Lirs);
        Kind::ALL.into_iter().filter(over_slots).for_each(keeps_its_lists);
        for kind in Kind::ALL.into_iter().filter(over_slots) {
            assert_eq!(Policy::new(kind, 4).lists().len(), kind.queues().len(), "{kind:?}");
        }
        assert!(
            Kind::ALL.into_iter().filter(|kind| kind.is_served()).all(|kind| over_slots(&kind))
        );
    }
}
