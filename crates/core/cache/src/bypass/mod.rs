//! The bypass: its state for requests, and the guard's view of a volume from window to window.

pub(crate) mod balance;
pub(crate) mod guard;

use crate::admission::Rules;
use crate::bypass::balance::{Pressure, Reads};
use crate::bypass::guard::{BypassState, Guard, GuardState, Why, Window, is_probe};
use crate::dirty::gauges::Gauges;
use crate::stats::counters::Counters;
use block::WriteMode;
use lane::Lock;
use lane::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const READS: u8 = 1;
const WRITES: u8 = 2;
const UNPROBED: u8 = 4;
const SURE: u8 = 8;

/// While the cost of admission is not measured, one part in this number of its excess over the
/// usual cost is forgotten in each window: most of it in two seconds.
const FORGETS: u64 = 32;

/// Returns an estimate of a median after one more sample: moved up or down by an eighth. The
/// estimate is stable where half of the samples are above it, and no samples need to be stored (Q.
/// Ma, S. Muthukrishnan, M. Sandler, "Frugal Streaming for Estimating Quantiles", 2013).
fn toward_median(before_ns: u64, sample_ns: u64) -> u64 {
    let step = before_ns / 8;
    match sample_ns > before_ns {
        true if before_ns == 0 => sample_ns,
        true => before_ns.saturating_add(step + 1),
        false => before_ns - step,
    }
}

/// The bypass of a volume's cache, and the guard that decides it.
#[derive(Debug, Default)]
pub(crate) struct Bypass {
    /// The bypassed requests: [`READS`], also blocks that are certain to be read: [`SURE`],
    /// [`WRITES`], also those to the probe: [`UNPROBED`].
    bypassed: AtomicU8,
    /// The guard is switched off.
    off: AtomicBool,
    /// Approximate median latency of the backing's reads, in nanoseconds; 0: not measured yet.
    backing_read_median_ns: AtomicU64,
    sleep_in_reads: SleepInReads,
    /// Approximate median cost of admitting a block, in nanoseconds; 0: not measured yet.
    keep_median_ns: AtomicU64,
    /// That cost was measured since the guard's last window.
    keep_measured: AtomicBool,
    write_throughs: WriteThroughTimes,
    view: Lock<View>,
}

/// The part of a read of the backing in which its lane slept: the mean of recent reads. A mean of
/// the times would be that of the few reads that end while the lane waits for a processor.
#[derive(Debug, Default)]
struct SleepInReads {
    /// Sum over the last reads, in thousandths; older ones count less. 0: there was none.
    sum: AtomicU64,
}

/// With each read, one part in this number of the sum is forgotten.
const READS_FORGET: u64 = 64;

impl SleepInReads {
    fn add(&self, took_ns: u64, slept_ns: u64) {
        let part = u128::from(slept_ns) * 1000 / u128::from(took_ns.max(1));
        let part = part.min(1000) as u64;
        let now = match self.sum.load(Ordering::Relaxed) {
            0 => part * READS_FORGET,
            before => before - before / READS_FORGET + part,
        };
        self.sum.store(now.max(1), Ordering::Relaxed);
    }

    /// Returns the mean, in thousandths.
    fn mean(&self) -> u32 {
        (self.sum.load(Ordering::Relaxed) / READS_FORGET).min(1000) as u32
    }
}

/// Recent times of writes that were written through because of the bypass.
#[derive(Debug, Default)]
struct WriteThroughTimes {
    writes: AtomicU64,
    /// Minimum time of them, in nanoseconds, plus one; 0: there was none.
    least_ns: AtomicU64,
}

/// Minimum number of samples for an estimate.
const WRITE_THROUGHS_ENOUGH: u64 = 4;

impl WriteThroughTimes {
    fn took(&self, ns: u64) {
        let (ns, before) = (ns.saturating_add(1), self.least_ns.load(Ordering::Relaxed));
        if before == 0 || ns < before {
            self.least_ns.store(ns, Ordering::Relaxed);
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the minimum time of a block since the last result; None: there were too few
    /// write-throughs.
    fn take(&self) -> Option<u64> {
        if self.writes.load(Ordering::Relaxed) < WRITE_THROUGHS_ENOUGH {
            return None;
        }
        self.writes.store(0, Ordering::Relaxed);
        Some(self.least_ns.swap(0, Ordering::Relaxed).saturating_sub(1))
    }
}

/// The guard's state.
#[derive(Debug, Default)]
struct View {
    guard: Guard,
    counted: Counters,
    bypass: BypassState,
    /// When the bypass began; None: there is none.
    since_ns: Option<u64>,
    bypass_ns: u64,
}

impl View {
    fn state(&self, on: bool, now_ns: u64) -> GuardState {
        let running = self.since_ns.map_or(0, |since| now_ns.saturating_sub(since));
        let times = self.guard.times();
        GuardState { on, bypass: self.bypass, times, bypass_ns: self.bypass_ns + running }
    }

    /// Records the bypass from now on; returns it as bits.
    fn put(&mut self, bypass: BypassState, now_ns: u64) -> u8 {
        let bits = u8::from(bypass.reads.is_some()) * READS
            + u8::from(bypass.sure_reads) * SURE
            + u8::from(bypass.writes.is_some()) * WRITES
            + u8::from(bypass.writes_unprobed) * UNPROBED;
        match self.since_ns {
            None if bits & (READS | WRITES) != 0 => self.since_ns = Some(now_ns),
            Some(since) if bits & (READS | WRITES) == 0 => {
                self.bypass_ns += now_ns.saturating_sub(since);
                self.since_ns = None;
            }
            _ => {}
        }
        self.bypass = bypass;
        bits
    }

    /// Returns the events since the last window.
    fn window(&mut self, now: &Counters) -> Window {
        let before = core::mem::replace(&mut self.counted, *now);
        let reads = |counters: &Counters| counters.read_hits + counters.read_misses;
        Window {
            reads: reads(now) - reads(&before),
            absorbed: now.blocks_absorbed - before.blocks_absorbed,
            saved: now.blocks_saved - before.blocks_saved,
            written: now.blocks_written - before.blocks_written,
            runs: now.runs_written - before.runs_written,
            slowed_ns: now.slowed_ns - before.slowed_ns,
            backing_read_ns: now.backing_read_ns,
            hit_ns: now.hit_ns,
            ..Window::default()
        }
    }
}

impl Bypass {
    /// Returns the admission rules of the guard in this write mode.
    #[inline]
    pub(crate) fn rules(&self, write: WriteMode) -> Rules {
        let bypassed = self.bypassed.load(Ordering::Relaxed);
        Rules {
            write,
            bypasses_reads: bypassed & READS != 0,
            bypasses_sure: bypassed & SURE != 0,
            is_unsettled: false,
        }
    }

    /// Whether a write that begins with this block bypasses the cache. Not while a write-through
    /// must wait for closed epochs: then the buffer is faster.
    #[inline]
    pub(crate) fn bypasses_write(&self, gauges: &Gauges, block: u64) -> bool {
        let bypassed = self.bypassed.load(Ordering::Relaxed);
        bypassed & WRITES != 0
            && (bypassed & UNPROBED != 0 || !is_probe(block))
            && !gauges.is_ordered()
    }

    /// Records the total time of admitting these blocks; 0: no clock was available.
    pub(crate) fn admission_took(&self, ns: u64, blocks: u64) {
        if let Some(each_ns @ 1..) = ns.checked_div(blocks) {
            let before = self.keep_median_ns.load(Ordering::Relaxed);
            self.keep_median_ns.store(toward_median(before, each_ns), Ordering::Relaxed);
            self.keep_measured.store(true, Ordering::Relaxed);
        }
    }

    /// Records the latency of a read of the backing, and the part of it in which the lane slept.
    pub(crate) fn backing_read_took(&self, ns: u64, slept_ns: u64) {
        let before = self.backing_read_median_ns.load(Ordering::Relaxed);
        self.backing_read_median_ns.store(toward_median(before, ns), Ordering::Relaxed);
        self.sleep_in_reads.add(ns, slept_ns);
    }

    /// Returns the times that decide about compression: the median of the backing's reads, which
    /// contains no wait for a processor, and the pressure while one of them is in flight. With many
    /// requests at a time, the lane sleeps when there is none, and hardly ever while it waits for
    /// the backing.
    pub(crate) fn times_of_reads(
        &self,
        counted: &Counters,
        usual_copy_ns: u64,
        pressure: Pressure,
    ) -> (Reads, Pressure) {
        let copy_ns = match self.keep_median_ns.load(Ordering::Relaxed) {
            0 => usual_copy_ns,
            measured_ns => measured_ns,
        };
        let backing_ns = self.backing_read_median_ns.load(Ordering::Relaxed);
        let reads = Reads { backing_ns, hit_ns: counted.hit_ns, copy_ns };
        (reads, Pressure { wanted: 1000 - self.sleep_in_reads.mean(), ..pressure })
    }

    /// Records the time of a write-through of `blocks` blocks, beside `others` other changes in
    /// flight. During the bypass of writes, it shows the backing's speed. At a fast backing each
    /// write waits for the others: then only its share of the time is the backing's.
    #[inline]
    pub(crate) fn write_through_took(&self, ns: u64, blocks: u32, others: u32) {
        if self.bypassed.load(Ordering::Relaxed) & WRITES != 0 {
            self.write_throughs.took(ns / u64::from(blocks.max(1)) / (u64::from(others) + 1));
        }
    }

    /// Adds the counters of the bypass.
    pub(crate) fn count(&self, all: &mut Counters, now_ns: u64) {
        let state = self.view.peek(|view| view.state(true, now_ns));
        all.bypasses = state.times;
        all.bypass_ns = state.bypass_ns;
        all.keep_ns = self.keep_median_ns.load(Ordering::Relaxed);
        all.backing_read_median_ns = self.backing_read_median_ns.load(Ordering::Relaxed);
        all.backing_read_slept = self.sleep_in_reads.mean().into();
        all.bypass_now = u64::from(self.bypassed.load(Ordering::Relaxed) & (READS | WRITES));
    }
}

/// Inputs of the guard in addition to the counters.
#[derive(Clone, Copy)]
pub(crate) struct Costs {
    /// The CPU pressure.
    pub(crate) pressure: Pressure,
    /// Minimum time of the backing for a write of one block, in nanoseconds; 0: not measured yet.
    pub(crate) backing_write_ns: u64,
    /// Assumed cost of admitting a block, in nanoseconds, until it is measured.
    pub(crate) copy_ns: u64,
    /// Expected number of hits of an admitted miss, if known.
    pub(crate) expected_hits: Option<f64>,
}

impl Bypass {
    /// Judges the time since the last window. Returns true if the bypass begins, ends or changes.
    pub(crate) fn judge(&self, counted: &Counters, costs: Costs, now_ns: u64) -> bool {
        self.view.peek(|view| {
            let copy_ns = self.copy_ns(costs.copy_ns);
            let window = Window {
                expected_hits: costs.expected_hits,
                backing_read_median_ns: self.backing_read_median_ns.load(Ordering::Relaxed),
                backing_write_ns: costs.backing_write_ns,
                bypassed_write_ns: self.write_throughs.take().unwrap_or(0),
                copy_ns,
                pressure: costs.pressure,
                ..view.window(counted)
            };
            if self.off.load(Ordering::SeqCst) {
                return false;
            }
            let bypass = view.guard.decide(&window);
            let bits = view.put(bypass, now_ns);
            (self.bypassed.swap(bits, Ordering::SeqCst) ^ bits) & (READS | WRITES) != 0
        })
    }

    /// Returns the cost of admitting a block, in nanoseconds. A measurement made while processors
    /// were busy must not be used forever: while nothing is admitted, or no clock is available, the
    /// value moves towards the usual cost.
    fn copy_ns(&self, usual_ns: u64) -> u64 {
        let is_fresh = self.keep_measured.swap(false, Ordering::Relaxed);
        match self.keep_median_ns.load(Ordering::Relaxed) {
            0 => usual_ns,
            measured if is_fresh || measured <= usual_ns => measured,
            measured => {
                let believed = measured - (measured - usual_ns).div_ceil(FORGETS);
                self.keep_median_ns.store(believed, Ordering::Relaxed);
                believed
            }
        }
    }

    /// Switches the guard on or off from `now_ns` on.
    pub(crate) fn set_guard(&self, on: bool, now_ns: u64) {
        self.view.peek(|view| {
            self.off.store(!on, Ordering::SeqCst);
            if !on {
                let bits = view.put(BypassState::default(), now_ns);
                view.guard.forget();
                self.bypassed.store(bits, Ordering::SeqCst);
            }
        });
    }

    /// Returns the state of the guard.
    pub(crate) fn state(&self, now_ns: u64) -> GuardState {
        let on = !self.off.load(Ordering::SeqCst);
        self.view.peek(|view| view.state(on, now_ns))
    }

    /// Forces or ends the bypass of reads, writes or both (with both, also of blocks that are
    /// certain to be read), until the guard's next decision.
    pub(crate) fn force(&self, reads: bool, writes: bool, now_ns: u64) {
        let why = |out: bool| out.then_some(Why::Forced);
        let (reads, writes) = (why(reads), why(writes));
        let sure_reads = reads.is_some() && writes.is_some();
        let bypass = BypassState { reads, sure_reads, writes, writes_unprobed: false };
        self.view.peek(|view| {
            let bits = view.put(bypass, now_ns);
            self.bypassed.store(bits, Ordering::SeqCst);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Bypass, Counters, toward_median};

    /// Returns the estimate after a thousand reads, of which those whose number modulo ten is below
    /// `odd` took `others_ns`, and the rest `most_ns`.
    fn after(first_ns: u64, most_ns: u64, odd: u64, others_ns: u64) -> u64 {
        let samples = (0..1000).map(|read| if read % 10 < odd { others_ns } else { most_ns });
        samples.fold(first_ns, toward_median)
    }

    #[test]
    fn what_keeping_takes_is_known_where_a_clock_can_tell() {
        let bypass = Bypass::default();
        let known = || {
            let mut counters = Counters::default();
            bypass.count(&mut counters, 0);
            counters.keep_ns
        };
        (0..20).for_each(|_| bypass.admission_took(0, 4));
        (0..20).for_each(|_| bypass.admission_took(1000, 0));
        assert_eq!(known(), 0, "no clock, or nothing was kept");
        (0..200).for_each(|_| bypass.admission_took(8000, 4));
        assert!((1700..2300).contains(&known()), "{}", known());
    }

    #[test]
    fn what_keeping_took_on_a_busy_machine_is_forgotten_while_it_is_not_measured() {
        let bypass = Bypass::default();
        (0..400).for_each(|_| bypass.admission_took(50_000, 1));
        for _ in 0..100 {
            bypass.admission_took(50_000, 1);
            assert!(bypass.copy_ns(400) > 40_000, "it is measured");
        }
        // Blocks that are admitted without timing change nothing.
        (0..200).for_each(|_| {
            bypass.admission_took(0, 4);
            bypass.copy_ns(400);
        });
        assert!(bypass.copy_ns(400) < 500);
        (0..400).for_each(|_| _ = bypass.copy_ns(400));
        assert_eq!(bypass.copy_ns(400), 400);
    }

    #[test]
    fn the_quickest_of_some_bypassed_writes_measures_what_the_backing_takes() {
        let bypass = Bypass::default();
        (0..8).for_each(|_| bypass.write_through_took(5000, 1, 0));
        assert_eq!(bypass.write_throughs.take(), None, "writes are not bypassed");
        bypass.force(false, true, 0);
        (0..3).for_each(|_| bypass.write_through_took(5000, 1, 0));
        assert_eq!(bypass.write_throughs.take(), None, "too few");
        // One of eight blocks, and one beside thirty-one others that were fast.
        bypass.write_through_took(32_000, 8, 0);
        assert_eq!(bypass.write_throughs.take(), Some(4000));
        (0..4).for_each(|_| bypass.write_through_took(32_000, 1, 31));
        assert_eq!(bypass.write_throughs.take(), Some(1000));
        assert_eq!(bypass.write_throughs.take(), None, "each tells once");
    }

    #[test]
    fn most_reads_measure_what_the_backing_takes() {
        const WAIT_NS: u64 = 8_000_000;
        let about = |ns: u64, expected: u64| ns > expected / 2 && ns < expected * 2;
        assert!(about(after(0, 500_000, 0, 0), 500_000));
        // Even from a first one that has waited, and with four in ten that wait for a processor.
        assert!(about(after(WAIT_NS, 5_000, 4, WAIT_NS), 5_000));
        // Even from a first one of a hole, and with four in ten of holes.
        assert!(about(after(3_000, 500_000, 4, 3_000), 500_000));
        assert!(after(500_000, 0, 0, 0) < 10, "what answers at once");
        assert!(about(after(0, 100_000, 1, 0), 100_000));
        assert!(toward_median(u64::MAX, u64::MAX) > u64::MAX / 2);
    }
}
