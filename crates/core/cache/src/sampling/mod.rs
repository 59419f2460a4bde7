//! The results of a sample of the accesses while the volume is served: the best share of the cache
//! for the policy's window, the effect of more or less memory, and the expected hits of an admitted
//! miss.
//!
//! The shards share the samplers, so that each benefits from all accesses. Shards report the
//! accesses to sampled blocks, one block in 64 or fewer (more for caches below 256 MiB, all for
//! tiny ones), in the section in which they decide. Each sampler has its own lock, under which no
//! other lock is taken. The results are returned in a word that is read without a lock.

mod hints;
mod state;

pub use hints::{ClassFigures, HintsReport, MapWrites};
pub use state::PolicyState;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use hints::VolumeHints;
use lane::Lock;
use policy::{
    Access, Answer, Arbiter, Curve, Expectation, Hash, Kind, Sampler, TierArbiter, TierShare,
};

/// Smaller caches have no curve: one of 64 slots would be meaningless.
const CURVE_SLOTS_MIN: u32 = 64 * 64;

/// The samplers of a volume and their results.
pub(crate) struct Sampling {
    samplers: Samplers,
    /// The window's share, as the arbiter returns it; 0: the policy has none. Every value that a
    /// reader may see is valid, so it is not one of the atomics of which the explorer tries all
    /// orders.
    share: AtomicU32,
    arbiter: Option<Lock<Arbiter>>,
    kind: Kind,
    slots: u32,
    /// The share of the compressed tier, as [`TierShare::bits`].
    tier_share: AtomicU32,
    /// The share with which its arbiter begins.
    tier_first: AtomicU32,
    /// Whether there is an arbiter of the compressed tier.
    has_tier: AtomicBool,
    /// Whether the share of the tier is fixed, without an arbiter.
    is_tier_fixed: AtomicBool,
    tier: Lock<Option<TierArbiter>>,
    curve: Option<Lock<Window>>,
    expectation: Lock<Expectation>,
    hints: VolumeHints,
}

/// The blocks whose accesses are reported.
#[derive(Clone, Copy)]
pub(crate) struct Samplers {
    arbiter: Sampler,
    tier: Sampler,
    curve: Sampler,
    expectation: Sampler,
}

impl Samplers {
    /// Whether accesses to a block are reported.
    #[inline]
    pub(crate) fn take(&self, hash: Hash) -> bool {
        self.arbiter.takes(hash)
            || self.tier.takes(hash)
            || self.curve.takes(hash)
            || self.expectation.takes(hash)
    }
}

/// The curve, and the accesses that shards have counted in its window.
struct Window {
    curve: Curve,
    accesses: u64,
    misses: u64,
    /// The duration of the window, and the time up to which it is known. 0: it has not begun.
    elapsed_ns: u64,
    until_ns: u64,
    /// The part of the duration in which earlier processes served the volume.
    earlier_ns: u64,
}

/// The state of the policy.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyReport {
    /// The kind of policy.
    pub kind: Kind,
    /// Its queues of clean blocks, with their names and numbers of blocks, over all shards.
    pub queues: Vec<(&'static str, u64)>,
    /// The window's share of the clean blocks, in 1024ths, if the policy has a window.
    pub window_share: Option<u32>,
}

/// The curve, and its window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurveReport {
    /// The estimated misses of caches of other sizes.
    pub answer: Answer,
    /// The duration of the window to which the curve applies, in nanoseconds.
    pub window_ns: u64,
    /// The part of it in which earlier processes served the volume.
    pub earlier_ns: u64,
}

/// The counts of a shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) accesses: u64,
    pub(crate) misses: u64,
}

impl Sampling {
    /// Makes the samplers for a cache of this policy with `slots` slots, in all its shards.
    pub(crate) fn new(kind: Kind, slots: u32) -> Sampling {
        let arbiter = (kind == Kind::Adaptive).then(|| Arbiter::new(slots));
        let curve = (slots >= CURVE_SLOTS_MIN).then(|| Curve::new(kind, slots));
        let expectation = Expectation::new(kind, slots);
        let tier_first = TierArbiter::first_share(kind).bits();
        Sampling {
            samplers: Samplers {
                arbiter: arbiter.as_ref().map_or(Sampler::NONE, Arbiter::sampler),
                tier: TierArbiter::sampler_of(slots),
                curve: curve.as_ref().map_or(Sampler::NONE, Curve::sampler),
                expectation: expectation.sampler(),
            },
            share: AtomicU32::new(arbiter.as_ref().map_or(0, Arbiter::share)),
            arbiter: arbiter.map(Lock::new),
            kind,
            slots,
            tier_share: AtomicU32::new(tier_first),
            tier_first: AtomicU32::new(tier_first),
            has_tier: AtomicBool::new(false),
            is_tier_fixed: AtomicBool::new(false),
            tier: Lock::new(None),
            curve: curve.map(|curve| {
                let (accesses, misses, elapsed_ns, until_ns, earlier_ns) = (0, 0, 0, 0, 0);
                Lock::new(Window { curve, accesses, misses, elapsed_ns, until_ns, earlier_ns })
            }),
            expectation: Lock::new(expectation),
            hints: VolumeHints::default(),
        }
    }

    /// Returns the blocks whose accesses are reported, as long as the same hints are set.
    pub(crate) fn samplers(&self) -> Samplers {
        match self.hints.sampler() {
            // The sample of the arbiter, if there is one.
            Some(sampler) => Samplers { arbiter: sampler, ..self.samplers },
            None => self.samplers,
        }
    }

    /// Returns the window's share for the policy, if it has a window.
    #[inline]
    pub(crate) fn window_share(&self) -> Option<u32> {
        match self.share.load(Ordering::Relaxed) {
            0 => None,
            share => Some(share),
        }
    }

    /// Sets the share of the policy's window.
    pub(crate) fn set_window_share(&self, share: u32) {
        self.share.store(share, Ordering::Relaxed);
        self.in_window(|window| window.curve.set_window_share(share));
        self.in_tier(|tier| tier.set_window_share(share));
        self.expectation.peek(|expectation| expectation.set_window_share(share));
        self.hints.set_window_share(share);
    }

    /// Returns the share of the compressed tier.
    #[inline]
    pub(crate) fn tier_share(&self) -> TierShare {
        TierShare::from_bits(self.tier_share.load(Ordering::Relaxed))
    }

    /// Makes the arbiter of the compressed tier, if there is none. Its tables take about 1 MiB.
    pub(crate) fn open_tier(&self) {
        let is_fixed = self.is_tier_fixed.load(Ordering::Relaxed);
        if is_fixed || self.has_tier.load(Ordering::Relaxed) {
            return;
        }
        let mut arbiter = TierArbiter::new(self.kind, self.slots);
        if let Some(share) = self.window_share() {
            arbiter.set_window_share(share);
        }
        let unused = self.tier.peek(|tier| {
            if tier.is_some() {
                return Some(arbiter);
            }
            arbiter.begin_at(TierShare::from_bits(self.tier_first.load(Ordering::Relaxed)));
            self.tier_share.store(arbiter.share().bits(), Ordering::Relaxed);
            tier.replace(arbiter)
        });
        drop(unused);
        self.has_tier.store(true, Ordering::Relaxed);
    }

    /// Goes on from the share of the compressed tier that an earlier process has chosen.
    fn restore_tier_share(&self, share: TierShare) {
        self.tier.peek(|tier| {
            self.tier_first.store(share.bits(), Ordering::Relaxed);
            if let Some(arbiter) = tier {
                arbiter.begin_at(share);
                self.tier_share.store(arbiter.share().bits(), Ordering::Relaxed);
            }
        });
    }

    /// Fixes the share of the compressed tier.
    pub(crate) fn force_tier_share(&self, share: TierShare) {
        self.is_tier_fixed.store(true, Ordering::Relaxed);
        self.close_tier();
        self.tier_share.store(share.bits(), Ordering::Relaxed);
    }

    /// Drops the arbiter of the compressed tier.
    pub(crate) fn close_tier(&self) {
        self.has_tier.store(false, Ordering::Relaxed);
        drop(self.tier.peek(Option::take));
    }

    /// Records the number of bytes of a block that was compressed. None: it did not become small
    /// enough.
    pub(crate) fn record_compressed(&self, block: u64, bytes: Option<usize>) {
        if self.samplers.tier.takes(Hash::of(block)) {
            self.in_tier(|tier| tier.record_size(bytes.map(|bytes| bytes as u32)));
        }
    }

    fn in_tier(&self, step: impl FnOnce(&mut TierArbiter)) {
        if self.has_tier.load(Ordering::Relaxed) {
            self.tier.peek(|tier| tier.as_mut().map(step));
        }
    }

    /// Returns the expected number of hits of an admitted miss, if it is known.
    pub(crate) fn expected_hits(&self) -> Option<f64> {
        self.expectation.peek(|expectation| expectation.hits())
    }

    /// Records an access to a block of a sample. `reported` is the count of its shard at the
    /// shard's last report, and is set to the count `now`.
    #[cold]
    pub(crate) fn access(&self, hash: Hash, access: Access, reported: &mut Counted, now: Counted) {
        if let Some(arbiter) = &self.arbiter
            && self.samplers.arbiter.takes(hash)
            && let Some(share) = arbiter.peek(|arbiter| arbiter.access(hash))
        {
            self.set_window_share(share);
        }
        self.hints.access(hash);
        if self.samplers.tier.takes(hash) {
            self.in_tier(|tier| {
                if let Some(share) = tier.access(hash) {
                    self.tier_share.store(share.bits(), Ordering::Relaxed);
                }
            });
        }
        if self.samplers.expectation.takes(hash) {
            self.expectation.peek(|expectation| expectation.access(hash, access));
        }
        if self.samplers.curve.takes(hash) {
            let before = core::mem::replace(reported, now);
            let accesses = now.accesses - before.accesses;
            let misses = now.misses - before.misses;
            let is_read = access == Access::Read;
            self.in_window(|window| window.access(hash, is_read, accesses, misses));
        }
    }

    /// Updates the duration of the window to the current time.
    pub(crate) fn tick(&self, now_ns: u64) {
        self.in_window(|window| window.tick(now_ns));
    }

    fn in_window(&self, step: impl FnOnce(&mut Window)) {
        if let Some(window) = &self.curve {
            window.peek(step);
        }
    }

    /// Returns the curve of the last accesses, 8 to 16 times the number of blocks in the cache, or
    /// of all since the start. None: there were none, or the cache is too small for a curve.
    pub(crate) fn report(&self, now_ns: u64) -> Option<CurveReport> {
        let saved = self.tier.peek(|tier| tier.as_ref().and_then(TierArbiter::saved_share));
        self.curve.as_ref()?.peek(|window| {
            window.tick(now_ns);
            let answer = window.curve.answer(window.accesses, window.misses)?;
            let answer = saved.map_or(answer, |saved| answer.with_tier(saved));
            let (window_ns, earlier_ns) = (window.elapsed_ns, window.earlier_ns);
            Some(CurveReport { answer, window_ns, earlier_ns })
        })
    }
}

impl Window {
    fn access(&mut self, hash: Hash, is_read: bool, accesses: u64, misses: u64) {
        self.accesses += accesses;
        self.misses += misses;
        if self.curve.access(hash, is_read) {
            self.accesses /= 2;
            self.misses /= 2;
            self.elapsed_ns /= 2;
            self.earlier_ns /= 2;
        }
    }

    fn tick(&mut self, now_ns: u64) {
        if self.until_ns > 0 {
            self.elapsed_ns += now_ns.saturating_sub(self.until_ns);
        }
        self.until_ns = self.until_ns.max(now_ns);
    }
}
