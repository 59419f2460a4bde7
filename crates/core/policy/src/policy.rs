//! The policy of a shard: one of those that there are, asked by value.

use crate::clock::Clock;
use crate::fifo::Fifo;
use crate::lru::Lru;
use crate::s3_fifo::S3Fifo;
use crate::sieve::Sieve;
use crate::two_q::TwoQ;
use crate::w_tiny_lfu::WTinyLfu;
use crate::window::{FIRST_SHARE, Window};
use crate::{Cause, Hash, Held, Kind, Links, List, Replacement, Verdict, WALK_MAX};

/// A policy and its state.
pub struct Policy(Which);

/// An enum, not a trait object: it is asked on every hit.
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

/// The same call of whichever it is. What most caches are served with is asked for first: a jump by a table costs a
/// hit nanoseconds.
macro_rules! ask {
    ($policy:expr, $it:ident => $call:expr) => {
        match $policy {
            Which::Lru($it) => $call,
            others => match others {
                Which::Lru(_) => unreachable!("it has been asked"),
                Which::Fifo($it) => $call,
                Which::Clock($it) => $call,
                Which::TwoQ($it) => $call,
                Which::S3Fifo($it) => $call,
                Which::Sieve($it) => $call,
                Which::WTinyLfu($it) => $call,
                Which::Window($it) => $call,
            },
        }
    };
}

impl Policy {
    /// A policy over slots from 0 to `slots`, none of them clean.
    ///
    /// # Panics
    /// With [`Kind::Arc`] and [`Kind::Lirs`], which are no policies over slots; every kind that
    /// [`Kind::is_served`] is one.
    pub fn new(kind: Kind, slots: u32) -> Policy {
        let mut policy = Policy(match kind {
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

    /// The same, with searches for a victim that are not bounded, and S3-FIFO as libcachesim fills it.
    pub(crate) fn as_libcachesim(kind: Kind, slots: u32) -> Policy {
        let mut policy = match kind {
            Kind::Clock => Policy(Which::Clock(Clock::new(u32::MAX))),
            Kind::Sieve => Policy(Which::Sieve(Sieve::new(u32::MAX))),
            Kind::S3Fifo => Policy(Which::S3Fifo(S3Fifo::new(u32::MAX, true))),
            _ => return Policy::new(kind, slots),
        };
        policy.resize(slots);
        policy
    }

    /// The clean slots, in lists of the policy's own order.
    pub fn lists(&self) -> &[List] {
        ask!(&self.0, policy => policy.lists())
    }

    /// How many slots are clean.
    #[inline]
    pub fn clean(&self) -> u32 {
        self.lists().iter().map(|list| list.length).sum()
    }

    /// A slot was read; `hash` tells its block, to a policy that asks. Of a dirty one the policy may remember it for the time
    /// when it is clean.
    #[inline]
    pub fn hit(&mut self, links: &mut Links, slot: u32, hash: impl FnOnce() -> Hash, held: Held) {
        ask!(&mut self.0, policy => policy.hit(links, slot, hash, held));
    }

    /// A block is missing. To be called once for each missing block of a read that goes to the backing, also where the
    /// read is not kept for another reason, and of a write that is kept, whatever comes of it. Whether a copy is worth
    /// a slot.
    #[inline]
    pub fn miss(&mut self, hash: Hash) -> Verdict {
        ask!(&mut self.0, policy => policy.miss(hash))
    }

    /// A slot, in no list so far, holds a clean copy of this block: it may be chosen from now on.
    #[inline]
    pub fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) {
        ask!(&mut self.0, policy => policy.admit(links, slot, hash, cause));
    }

    /// The clean slot to give up for a candidate, which is to be forgotten next; until then it is in a
    /// list. `hash_of` tells which block a clean slot holds. None: no slot is clean.
    #[inline]
    pub fn victim(
        &mut self,
        links: &mut Links,
        candidate: Hash,
        hash_of: impl Fn(u32) -> Hash,
    ) -> Option<u32> {
        ask!(&mut self.0, policy => policy.victim(links, candidate, hash_of))
    }

    /// A write has put a newer version of the block of `old` into `new`, which is in no list. What is known of the
    /// block is known of `new` from now on; what is still in `old` is to be forgotten next. Where `new` is clean, `old`
    /// must be, too: it leaves its list, and `new` has its place there.
    #[inline]
    pub fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        ask!(&mut self.0, policy => policy.succeed(links, old, new, held));
    }

    /// A slot gives up its block. A clean one leaves its list.
    #[inline]
    pub fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        ask!(&mut self.0, policy => policy.forget(links, slot, held));
    }

    /// The window has this share of the cache from now on, in 1024ths, where the policy is [`Kind::Adaptive`].
    pub fn set_window_share(&mut self, share: u32) {
        if let Which::Window(window) = &mut self.0 {
            window.set_share(share);
        }
    }

    /// There are so many slots from now on. Those beyond were forgotten before. Allocates.
    pub fn resize(&mut self, slots: u32) {
        ask!(&mut self.0, policy => policy.resize(slots));
    }
}

#[cfg(test)]
mod tests {
    use crate::brute_force::keeps_its_lists;
    use crate::{Kind, Policy};

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
