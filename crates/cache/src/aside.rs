//! Stepping aside: what requests ask about it, and the guard's view of a volume from window to window.

use crate::counters::Counters;
use crate::guard::{Aside, Guard, Pressure, Standing, Why, Window, is_probe};
use crate::shard::Gauges;
use crate::shared::Shared;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use lane::Lock;

const READS: u8 = 1;
const WRITES: u8 = 2;
const UNPROBED: u8 = 4;

/// Whether a volume's cache steps aside, and the guard that decides it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What is left out: [`READS`], [`WRITES`], and of those the probe as well: [`UNPROBED`].
    out: AtomicU8,
    /// The guard may not decide anything.
    off: AtomicBool,
    probe_reads: AtomicU64,
    probe_hits: AtomicU64,
    view: Lock<View>,
}

/// What the guard has seen.
#[derive(Debug, Default)]
struct View {
    guard: Guard,
    counted: Counters,
    probes: [u64; 2],
    aside: Aside,
    /// When it stepped aside; None: it does not.
    since_ns: Option<u64>,
    aside_ns: u64,
}

impl View {
    fn standing(&self, on: bool, now_ns: u64) -> Standing {
        let running = self.since_ns.map_or(0, |since| now_ns.saturating_sub(since));
        let times = self.guard.times();
        Standing { on, aside: self.aside, times, aside_ns: self.aside_ns + running }
    }

    /// Notes what is left out from now on; returns it as bits.
    fn put(&mut self, aside: Aside, now_ns: u64) -> u8 {
        let bits = u8::from(aside.reads.is_some()) * READS
            + u8::from(aside.writes.is_some()) * WRITES
            + u8::from(aside.writes_unprobed) * UNPROBED;
        match self.since_ns {
            None if bits != 0 => self.since_ns = Some(now_ns),
            Some(since) if bits == 0 => {
                self.aside_ns += now_ns.saturating_sub(since);
                self.since_ns = None;
            }
            _ => {}
        }
        self.aside = aside;
        bits
    }

    /// What has happened since the last window.
    fn window(
        &mut self,
        now: &Counters,
        probes: [u64; 2],
        cost_ns: u64,
        pressure: Pressure,
    ) -> Window {
        let before = core::mem::replace(&mut self.counted, *now);
        let probed = core::mem::replace(&mut self.probes, probes);
        let reads = |counters: &Counters| counters.read_hits + counters.read_misses;
        Window {
            reads: reads(now) - reads(&before),
            hits: now.read_hits - before.read_hits,
            kept: now.blocks_filled - before.blocks_filled,
            absorbed: now.blocks_absorbed - before.blocks_absorbed,
            saved: now.blocks_saved - before.blocks_saved,
            written: now.blocks_written - before.blocks_written,
            runs: now.runs_written - before.runs_written,
            probe_reads: probes[0] - probed[0],
            probe_hits: probes[1] - probed[1],
            backing_read_ns: now.backing_read_ns,
            hit_ns: now.hit_ns,
            cost_ns,
            pressure,
        }
    }
}

impl Watch {
    /// Whether what a read misses from this block on is not to be kept.
    #[inline]
    pub(crate) fn leaves_out(&self, block: u64) -> bool {
        self.out.load(Ordering::Relaxed) & READS != 0 && !is_probe(block)
    }

    /// Whether a write from this block on is to pass. Not while passing means to wait for what is
    /// closed: then the buffer is the faster way.
    #[inline]
    pub(crate) fn passes(&self, gauges: &Gauges, block: u64) -> bool {
        let out = self.out.load(Ordering::Relaxed);
        out & WRITES != 0 && (out & UNPROBED != 0 || !is_probe(block)) && !gauges.is_ordered()
    }

    /// A read from this block on was answered from memory, or was not.
    #[inline]
    pub(crate) fn saw(&self, block: u64, hit: bool) {
        if self.out.load(Ordering::Relaxed) & READS != 0 && is_probe(block) {
            self.probe_reads.fetch_add(1, Ordering::Relaxed);
            self.probe_hits.fetch_add(u64::from(hit), Ordering::Relaxed);
        }
    }

    /// Adds how it stands.
    pub(crate) fn count(&self, all: &mut Counters, now_ns: u64) {
        let standing = self.view.peek(|view| view.standing(true, now_ns));
        all.asides = standing.times;
        all.aside_ns = standing.aside_ns;
        all.aside = u64::from(self.out.load(Ordering::Relaxed) & (READS | WRITES));
    }
}

impl Shared {
    /// Lets the guard judge what has happened since this was called last: about every 50 ms, with how
    /// processors were to be had meanwhile. True: the cache steps aside, or comes back, or does so with
    /// more or less than before. It walks the shards, and allocates nothing.
    pub fn guard(&self, now_ns: u64, pressure: Pressure) -> bool {
        let watch = &self.watch;
        let counted = self.counters(now_ns);
        let load = |probes: &AtomicU64| probes.load(Ordering::Relaxed);
        let probes = [load(&watch.probe_reads), load(&watch.probe_hits)];
        let cost_ns = self.settings.fill_cost_ns;
        watch.view.peek(|view| {
            let window = view.window(&counted, probes, cost_ns, pressure);
            if watch.off.load(Ordering::SeqCst) {
                return false;
            }
            let aside = view.guard.decide(&window);
            let bits = view.put(aside, now_ns);
            (watch.out.swap(bits, Ordering::SeqCst) ^ bits) & (READS | WRITES) != 0
        })
    }

    /// Whether the guard decides anything from `now_ns` on. Off: the cache does not step aside.
    pub fn set_guard(&self, on: bool, now_ns: u64) {
        let watch = &self.watch;
        watch.view.peek(|view| {
            watch.off.store(!on, Ordering::SeqCst);
            if !on {
                let bits = view.put(Aside::default(), now_ns);
                view.guard.forget();
                watch.out.store(bits, Ordering::SeqCst);
            }
        });
    }

    /// How the guard stands.
    pub fn guard_standing(&self, now_ns: u64) -> Standing {
        let on = !self.watch.off.load(Ordering::SeqCst);
        self.watch.view.peek(|view| view.standing(on, now_ns))
    }

    /// Steps aside with reads, writes or both, or comes back, until the guard decides anew: for the
    /// laboratory, which does so at the worst of moments.
    pub fn step_aside(&self, reads: bool, writes: bool, now_ns: u64) {
        let why = |out: bool| out.then_some(Why::Told);
        let aside = Aside { reads: why(reads), writes: why(writes), writes_unprobed: false };
        self.watch.view.peek(|view| {
            let bits = view.put(aside, now_ns);
            self.watch.out.store(bits, Ordering::SeqCst);
        });
    }
}
