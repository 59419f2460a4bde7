//! The guard: decides whether to bypass the cache, because at the moment it costs more than it
//! gains (C12).
//!
//! A decision over plain data, made for every window of about 50 ms. Reads and writes are judged
//! separately; `balance.rs` computes a block's gain and cost at the present prices. Two bad windows
//! begin the bypass, a few good ones end it. If a bypass begins soon after the last one, its end
//! takes more good windows.
//!
//! The expected hits of an admitted miss come from the shadow of the cache (`policy::Expectation`).
//! The shadow sees all reads, admitted or not, so reads need no trial. The savings of absorbing can
//! only be measured where writes are absorbed: while writes bypass the cache, one sixteenth of the
//! volume is still absorbed, for only one second in five. Blocks absorbed there must be flushed
//! when they are due, and a flush makes the backing also write all write-throughs, which no client
//! has requested. Write-throughs show when a backing has become slow.

use crate::bypass::balance::{Balance, Pressure, Reads, Writes, absorbing, admitting, is_slow};
use core::fmt;
use policy::Hash;

/// The events of a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Window {
    /// Read requests.
    pub reads: u64,
    /// Expected number of hits of an admitted miss; None: too early to estimate.
    pub expected_hits: Option<f64>,
    /// Blocks absorbed.
    pub absorbed: u64,
    /// Absorbed blocks that no longer need to be written.
    pub saved: u64,
    /// Blocks written back.
    pub written: u64,
    /// Requests for these writes.
    pub runs: u64,
    /// Delay of writers because the buffer was nearly full, in nanoseconds, summed over them.
    pub slowed_ns: u64,
    /// Mean latency of a read of the backing, in nanoseconds; 0: not known.
    pub backing_read_ns: u64,
    /// Median of the same latency; 0: not known. It is not moved by a few reads that wait for a
    /// processor, nor by a few reads of holes in a file, which are answered immediately.
    pub backing_read_median_ns: u64,
    /// Time of the backing to write a block without a queue, in nanoseconds; 0: not known.
    pub backing_write_ns: u64,
    /// Minimum time of a block that was written through during the bypass, in nanoseconds; 0: not
    /// known.
    pub bypassed_write_ns: u64,
    /// Latency of a hit, in nanoseconds.
    pub hit_ns: u64,
    /// Cost of admitting or absorbing a block, in nanoseconds of a processor.
    pub copy_ns: u64,
    /// The CPU pressure.
    pub pressure: Pressure,
}

/// The reason for the bypass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Processors are busy, and the gain is too small for the processor time.
    Busy {
        /// [`Pressure::waited`] at the decision.
        waited: u32,
    },
    /// Admitting, or absorbing, costs more than it saves, even with free processors.
    Costs {
        /// The loss per block, in nanoseconds.
        loses_ns: u64,
    },
    /// The laboratory has forced it.
    Forced,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Busy { waited } => {
                write!(
                    f,
                    "processors are busy: tasks waited for them {} % of the time",
                    (waited + 5) / 10
                )
            }
            Why::Costs { loses_ns } => {
                write!(f, "a cached block costs {loses_ns} ns more than it saves")
            }
            Why::Forced => f.write_str("forced by a test"),
        }
    }
}

/// The requests that bypass the cache, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BypassState {
    /// No miss is admitted.
    pub reads: Option<Why>,
    /// Blocks that are certain to be read are not admitted either: advice is not followed, and
    /// nothing is fetched ahead.
    pub sure_reads: bool,
    /// No write is absorbed, unless it overlaps dirty data.
    pub writes: Option<Why>,
    /// At the moment no write is absorbed in the probe either, the part of the volume that shows
    /// when absorbing would be worthwhile again.
    pub writes_unprobed: bool,
}

/// The state of the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuardState {
    /// It may begin a bypass.
    pub on: bool,
    /// The current bypass.
    pub bypass: BypassState,
    /// The number of bypasses that have begun, of reads or writes.
    pub times: u64,
    /// The time in which either was bypassed, in nanoseconds.
    pub bypass_ns: u64,
}

/// The size of a contiguous part of the probe in blocks, as a power of two: neighbours are written
/// together.
const PROBE_BLOCKS_SHIFT: u32 = 6;
/// Waiting that counts as busy, and as calm again: thousandths of the time in which a processor was
/// needed.
const BUSY: u32 = 200;
const CALM: u32 = 100;
/// A lane that needs a processor for less than this, in thousandths of the window, is not delayed
/// by busy processors.
const WANTED: u32 = 400;
/// Minimum number of blocks for an estimate.
const ENOUGH: u64 = 32;
/// Consecutive bad windows before a bypass begins.
const BAD: u32 = 2;
/// Consecutive good windows before it ends: at first, and at most (0.6 s of 50 ms windows: it must
/// end within a second, and some windows may be lost to requests that still run).
const GOOD: u32 = 2;
const GOOD_MAX: u32 = 12;
/// Windows within which another bypass counts as a repetition: two seconds.
const AGAIN: u32 = 40;
/// Windows in which writes to the probe are absorbed, out of this number: one second in five.
const PROBE: u32 = 20;
const PROBE_EVERY: u32 = 100;
/// One part in this number of the measurement by write-throughs is forgotten in each window: most
/// of it within some seconds.
const WRITE_THROUGH_FORGETS: u64 = 16;

/// Whether a block belongs to the probe.
#[inline]
pub(crate) fn is_probe(block: u64) -> bool {
    // Not the first part: it contains the partition tables and superblocks of the volume's
    // contents.
    Hash::of(!(block >> PROBE_BLOCKS_SHIFT)).is_sampled()
}

/// The state of one of the bypasses.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    bypass: Option<Why>,
    /// Consecutive windows for a change.
    streak: u32,
    /// Good windows that are required.
    good: u32,
    /// Windows since the bypass began or ended.
    since: u32,
}

/// The verdict on a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Nothing,
    Good,
    Bad(Why),
}

impl Side {
    /// Returns the verdict of a balance.
    fn weigh(&self, balance: &Balance, pressure: Pressure) -> Verdict {
        if balance.pays(self.bypass.is_some()) {
            return Verdict::Good;
        }
        Verdict::Bad(match balance.pays_in_calm() {
            true => Why::Busy { waited: pressure.waited },
            false => Why::Costs { loses_ns: balance.loses_ns() },
        })
    }

    /// Follows a verdict. Returns true if a bypass begins.
    fn follow(&mut self, verdict: Verdict) -> bool {
        self.since = self.since.saturating_add(1);
        match (self.bypass, verdict) {
            (_, Verdict::Nothing) => {}
            (None, Verdict::Good) => self.streak = 0,
            (None, Verdict::Bad(why)) => {
                self.streak += 1;
                if self.streak >= BAD {
                    let again = self.good > 0 && self.since < AGAIN;
                    let good = if again { (self.good * 2).min(GOOD_MAX) } else { GOOD };
                    *self = Side { bypass: Some(why), good, ..Side::default() };
                    return true;
                }
            }
            (Some(_), Verdict::Bad(why)) => (self.bypass, self.streak) = (Some(why), 0),
            (Some(_), Verdict::Good) => {
                self.streak += 1;
                if self.streak >= self.good {
                    *self = Side { good: self.good, ..Side::default() };
                }
            }
        }
        false
    }
}

/// Statistics of recently absorbed blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Buffered {
    absorbed: u64,
    saved: u64,
    written: u64,
    runs: u64,
    slowed_ns: u64,
}

impl Buffered {
    /// Adds a window; older windows count less and less.
    fn add(&mut self, window: &Window) {
        let ease = |sum: &mut u64, new: u64| *sum = *sum - *sum / 4 + new;
        ease(&mut self.absorbed, window.absorbed);
        ease(&mut self.saved, window.saved);
        ease(&mut self.written, window.written);
        ease(&mut self.runs, window.runs);
        ease(&mut self.slowed_ns, window.slowed_ns);
    }

    /// Returns the share of absorbed blocks that needed no separate request; None: too early to
    /// estimate.
    fn spared(&self) -> Option<f64> {
        if self.absorbed < ENOUGH || self.written + self.saved < ENOUGH {
            return None;
        }
        // Saved blocks never become requests; of the rest, `runs` requests wrote `written` blocks.
        let saved = self.saved.min(self.absorbed) as f64;
        let rest = self.absorbed as f64 - saved;
        let requests = rest * self.runs as f64 / (self.written as f64).max(1.0);
        Some((1.0 - requests / self.absorbed as f64).max(0.0))
    }

    /// Returns the delay of clients per absorbed block.
    fn slowed_ns(&self) -> f64 {
        self.slowed_ns as f64 / (self.absorbed as f64).max(1.0)
    }
}

/// The guard of one volume.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    reads: Side,
    /// For blocks that are certain to be read.
    sure: Side,
    writes: Side,
    buffered: Buffered,
    /// The backing's time for a block, measured by write-throughs, in nanoseconds. Writeback
    /// measures it better; but its result stays unchanged while there is no writeback, and the
    /// first runs afterwards are too few to change it.
    write_through_ns: u64,
    is_busy: bool,
    times: u64,
}

impl Guard {
    /// Judges a window; returns the bypass from now on.
    pub fn decide(&mut self, window: &Window) -> BypassState {
        self.update_pressure(window);
        let was_bypassed = self.writes.bypass.is_some();
        let reads = self.judge_reads(window, window.expected_hits.unwrap_or(1.0), &self.reads);
        let sure = self.judge_reads(window, 1.0, &self.sure);
        let writes = self.judge_writes(window);
        self.sure.follow(sure);
        self.times += u64::from(self.reads.follow(reads)) + u64::from(self.writes.follow(writes));
        if was_bypassed != self.writes.bypass.is_some() {
            self.buffered = Buffered::default();
        }
        self.bypass()
    }

    /// Ends every bypass, and forgets everything except the number of bypasses.
    pub(crate) fn forget(&mut self) {
        *self = Guard { times: self.times, ..Guard::default() };
    }

    /// Returns the current bypass.
    pub fn bypass(&self) -> BypassState {
        BypassState {
            reads: self.reads.bypass,
            sure_reads: self.sure.bypass.is_some(),
            writes: self.writes.bypass,
            writes_unprobed: self.writes.bypass.is_some()
                && self.writes.since % PROBE_EVERY >= PROBE,
        }
    }

    /// Returns the number of bypasses that have begun.
    pub fn times(&self) -> u64 {
        self.times
    }

    fn update_pressure(&mut self, window: &Window) {
        let Pressure { waited, wanted } = window.pressure;
        let limit = if self.is_busy { CALM } else { BUSY };
        self.is_busy = waited >= limit && wanted >= WANTED;
    }

    /// Returns the latency of a read of the backing. A lane that waits for a processor when the
    /// answer arrives counts that wait as the backing's time: then the median is more accurate than
    /// the mean.
    fn backing_read_ns(&self, window: &Window) -> u64 {
        match self.is_busy {
            true if window.backing_read_median_ns > 0 => window.backing_read_median_ns,
            _ => window.backing_read_ns,
        }
    }

    fn judge_reads(&self, window: &Window, hits: f64, side: &Side) -> Verdict {
        let reads = Reads {
            backing_ns: self.backing_read_ns(window),
            hit_ns: window.hit_ns,
            copy_ns: window.copy_ns,
        };
        if reads.backing_ns == 0 || window.reads == 0 && side.bypass.is_none() {
            return Verdict::Nothing;
        }
        side.weigh(&admitting(&reads, hits, window.pressure), window.pressure)
    }

    fn judge_writes(&mut self, window: &Window) -> Verdict {
        if window.absorbed + window.written > 0 {
            self.buffered.add(window);
        }
        self.write_through_ns -= self.write_through_ns.div_ceil(WRITE_THROUGH_FORGETS);
        if window.bypassed_write_ns > 0 {
            self.write_through_ns = window.bypassed_write_ns;
        }
        let is_slow = is_slow(window.backing_write_ns.max(self.write_through_ns), window.copy_ns);
        // A copy is cheap compared with a request to a slow backing, and clients do not wait for
        // that request.
        if !self.is_busy && (is_slow || window.backing_write_ns == 0) {
            return Verdict::Good;
        }
        let (side, pressure) = (&self.writes, window.pressure);
        match (self.buffered.spared(), side.bypass) {
            (Some(spared), _) => {
                let writes = Writes {
                    backing_ns: window.backing_write_ns,
                    copy_ns: window.copy_ns,
                    spared,
                    slowed_ns: self.buffered.slowed_ns(),
                };
                side.weigh(&absorbing(&writes, pressure), pressure)
            }
            // The probe has too few blocks for an estimate. A bypass that began because processors
            // were busy ends when they are free; otherwise it continues.
            (None, Some(Why::Busy { .. })) if !self.is_busy => Verdict::Good,
            (None, Some(why)) => Verdict::Bad(why.at(pressure)),
            (None, None) => Verdict::Nothing,
        }
    }
}

impl Why {
    /// Returns the same reason under this pressure.
    fn at(self, pressure: Pressure) -> Why {
        match self {
            Why::Busy { .. } => Why::Busy { waited: pressure.waited },
            why => why,
        }
    }
}
