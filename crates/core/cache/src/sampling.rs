//! What a sample of the accesses tells while the volume is served: which share of the cache the
//! policy's window is to have, what more or less memory would give, and how many hits a miss brings
//! that is kept.
//!
//! Shards have these in common, so that each learns from all accesses. They are told of the
//! accesses to sampled blocks, of one block in 64 or fewer (of caches below 256 MiB more, of tiny
//! ones all), in the section in which a shard decides: under a lock of their own, which no section
//! is entered beneath. What is learnt comes back through a word that is read without a lock.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use lane::Lock;
use policy::{Access, Answer, Arbiter, Curve, Expectation, Hash, Kind, Sampler};

/// Smaller caches have no curve: of 64 slots it would tell nothing.
const CURVE_SLOTS_MIN: u32 = 64 * 64;

/// The samplers of a volume and what they have learnt.
pub(crate) struct Sampling {
    samplers: Samplers,
    /// The window's share, in 1024ths; 0: the policy has none. Whichever value is seen is right, so
    /// it is none of the atomics that the explorer tries all orders of.
    share: AtomicU32,
    arbiter: Option<Lock<Arbiter>>,
    curve: Option<Lock<Window>>,
    expectation: Lock<Expectation>,
}

/// Which blocks' accesses are to be told of.
#[derive(Clone, Copy)]
pub(crate) struct Samplers {
    arbiter: Sampler,
    curve: Sampler,
    expectation: Sampler,
}

impl Samplers {
    /// Whether accesses to a block are to be told of.
    #[inline]
    pub(crate) fn take(&self, hash: Hash) -> bool {
        self.arbiter.takes(hash) || self.curve.takes(hash) || self.expectation.takes(hash)
    }
}

/// The curve, and what shards have told of in its window.
struct Window {
    curve: Curve,
    accesses: u64,
    misses: u64,
    /// How long the window has lasted, and until when that is known. 0: it has not begun.
    elapsed_ns: u64,
    until_ns: u64,
}

/// How the policy stands.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyReport {
    /// Which it is.
    pub kind: Kind,
    /// Its queues of clean blocks, with their names and how many blocks are in each, over all
    /// shards.
    pub queues: Vec<(&'static str, u64)>,
    /// The share of the clean blocks that the window is to have, in 1024ths, if the policy has one.
    pub window_share: Option<u32>,
}

/// The curve, and how much there was to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurveReport {
    /// What caches of other sizes would have missed.
    pub answer: Answer,
    /// How long the window is that this is about, in nanoseconds.
    pub window_ns: u64,
}

/// What a shard has counted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) accesses: u64,
    pub(crate) misses: u64,
}

impl Sampling {
    /// For a cache of this policy with so many slots, in all its shards.
    pub(crate) fn new(kind: Kind, slots: u32) -> Sampling {
        let arbiter = (kind == Kind::Adaptive).then(|| Arbiter::new(slots));
        let curve = (slots >= CURVE_SLOTS_MIN).then(|| Curve::new(kind, slots));
        let expectation = Expectation::new(kind, slots);
        Sampling {
            samplers: Samplers {
                arbiter: arbiter.as_ref().map_or(Sampler::NONE, Arbiter::sampler),
                curve: curve.as_ref().map_or(Sampler::NONE, Curve::sampler),
                expectation: expectation.sampler(),
            },
            share: AtomicU32::new(arbiter.as_ref().map_or(0, Arbiter::share)),
            arbiter: arbiter.map(Lock::new),
            curve: curve.map(|curve| {
                let (accesses, misses, elapsed_ns, until_ns) = (0, 0, 0, 0);
                Lock::new(Window { curve, accesses, misses, elapsed_ns, until_ns })
            }),
            expectation: Lock::new(expectation),
        }
    }

    /// Which blocks' accesses are to be told of.
    pub(crate) fn samplers(&self) -> Samplers {
        self.samplers
    }

    /// The share that the policy's window is to have, in 1024ths, if it has one.
    #[inline]
    pub(crate) fn window_share(&self) -> Option<u32> {
        match self.share.load(Ordering::Relaxed) {
            0 => None,
            share => Some(share),
        }
    }

    /// From now on the policy's window is to have this share, in 1024ths.
    pub(crate) fn set_window_share(&self, share: u32) {
        self.share.store(share, Ordering::Relaxed);
        self.in_window(|window| window.curve.set_window_share(share));
        self.expectation.peek(|expectation| expectation.set_window_share(share));
    }

    /// The hits to be expected of a miss that is kept, if that is known.
    pub(crate) fn expected_hits(&self) -> Option<f64> {
        self.expectation.peek(|expectation| expectation.hits())
    }

    /// A block of a sample was accessed. `told` is what its shard had counted when it told of one
    /// before, and becomes what it has counted `now`.
    #[cold]
    pub(crate) fn access(&self, hash: Hash, access: Access, told: &mut Counted, now: Counted) {
        if let Some(arbiter) = &self.arbiter
            && self.samplers.arbiter.takes(hash)
            && let Some(share) = arbiter.peek(|arbiter| arbiter.access(hash))
        {
            self.set_window_share(share);
        }
        if self.samplers.expectation.takes(hash) {
            self.expectation.peek(|expectation| expectation.access(hash, access));
        }
        if self.samplers.curve.takes(hash) {
            let before = core::mem::replace(told, now);
            let accesses = now.accesses - before.accesses;
            let misses = now.misses - before.misses;
            let is_read = access == Access::Read;
            self.in_window(|window| window.access(hash, is_read, accesses, misses));
        }
    }

    /// What time it is: the window lasts so long.
    pub(crate) fn tick(&self, now_ns: u64) {
        self.in_window(|window| window.tick(now_ns));
    }

    fn in_window(&self, step: impl FnOnce(&mut Window)) {
        if let Some(window) = &self.curve {
            window.peek(step);
        }
    }

    /// The curve of the last accesses, 8 to 16 times as many as the cache has blocks, or of all
    /// since the start. None: there were none, or the cache is too small for a curve.
    pub(crate) fn report(&self, now_ns: u64) -> Option<CurveReport> {
        self.curve.as_ref()?.peek(|window| {
            window.tick(now_ns);
            let answer = window.curve.answer(window.accesses, window.misses)?;
            Some(CurveReport { answer, window_ns: window.elapsed_ns })
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
        }
    }

    fn tick(&mut self, now_ns: u64) {
        if self.until_ns > 0 {
            self.elapsed_ns += now_ns.saturating_sub(self.until_ns);
        }
        self.until_ns = self.until_ns.max(now_ns);
    }
}
