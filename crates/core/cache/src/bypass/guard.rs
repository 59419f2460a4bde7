//! The guard: whether the cache should step aside, because at the moment it costs more than it
//! brings (C12).
//!
//! A decision over plain data, made anew for every window of about 50 ms. Reads and writes are
//! judged apart; what a block brings and costs at the present prices is `balance.rs`. Two bad
//! windows make the cache step aside, a few good ones let it come back; the more, the sooner it had
//! to step aside again.
//!
//! How many hits a kept miss brings, the shadow of the cache tells (`policy::Expectation`). It sees
//! what is read whether that is kept or not, so reads need no trial. What absorbing spares is only
//! seen where it is done: while writes are left out, one part in sixteen of the volume is treated
//! as before, for a second in five only. What is absorbed there must be flushed when its time has
//! come, and a flush makes the backing write all that has passed as well, which no client has asked
//! for. That a backing has become slow, the writes tell that pass.

use crate::bypass::balance::{Balance, Pressure, Reads, Writes, absorbing, is_slow, keeping};
use core::fmt;
use policy::Hash;

/// What has happened in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Window {
    /// Read requests.
    pub reads: u64,
    /// Hits to be expected of a miss that is kept; None: too early to say.
    pub expected_hits: Option<f64>,
    /// Blocks absorbed.
    pub absorbed: u64,
    /// Absorbed blocks that need not be written any more.
    pub saved: u64,
    /// Blocks written out.
    pub written: u64,
    /// Requests that took.
    pub runs: u64,
    /// How long writers were made to wait because the buffer was nearly full, in nanoseconds,
    /// summed over them.
    pub slowed_ns: u64,
    /// What a read of the backing takes, in nanoseconds; 0: not known.
    pub backing_read_ns: u64,
    /// The median of the same; 0: not known. A few reads that wait for a processor do not move it,
    /// nor do a few of holes in a file, which are answered at once.
    pub backing_read_median_ns: u64,
    /// What the backing takes to write a block when nothing stands before it, in nanoseconds; 0:
    /// not known.
    pub backing_write_ns: u64,
    /// What a block took at least that was written past the cache while that stepped aside, in
    /// nanoseconds; 0: not known.
    pub passed_write_ns: u64,
    /// What a hit takes, in nanoseconds.
    pub hit_ns: u64,
    /// What keeping or absorbing a block costs, in nanoseconds of a processor.
    pub copy_ns: u64,
    /// How processors were to be had.
    pub pressure: Pressure,
}

/// Why the cache steps aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Processors are busy, and what it does with them does not pay enough.
    Busy {
        /// [`Pressure::waited`] when it was decided.
        waited: u32,
    },
    /// Keeping, or absorbing, costs more than it saves, however free processors are.
    Costs {
        /// So much more for each block, in nanoseconds.
        loses_ns: u64,
    },
    /// The laboratory has said so.
    Told,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Busy { waited } => {
                write!(f, "processors busy: waited {} % of the time", (waited + 5) / 10)
            }
            Why::Costs { loses_ns } => {
                write!(f, "does not pay: a block costs {loses_ns} ns more than it saves")
            }
            Why::Told => f.write_str("told to"),
        }
    }
}

/// What the cache leaves out, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aside {
    /// No miss is kept.
    pub reads: Option<Why>,
    /// Nor is what is sure to be read: advice is not followed, and nothing is fetched ahead.
    pub sure_reads: bool,
    /// No write is absorbed, unless it meets dirty data.
    pub writes: Option<Why>,
    /// Not even in the part of the volume that is to show when it would pay again: not now.
    pub writes_unprobed: bool,
}

/// How the guard stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// It may make the cache step aside.
    pub on: bool,
    /// What is left out at the moment.
    pub aside: Aside,
    /// How often the cache has stepped aside, with its reads or its writes.
    pub times: u64,
    /// How long it did so with either, in nanoseconds.
    pub bypass_ns: u64,
}

/// Blocks of a part that is treated as ever, as a power of two: neighbours are written out
/// together.
const PROBE_BLOCKS_SHIFT: u32 = 6;
/// Waiting that is too much, and little enough again: thousandths of the time a processor was
/// wanted.
const BUSY: u32 = 200;
const CALM: u32 = 100;
/// A lane that wants a processor for less than this, in thousandths of the window, is not held up
/// by them.
const WANTED: u32 = 400;
/// Blocks that tell something.
const ENOUGH: u64 = 32;
/// Bad windows in a row before the cache steps aside.
const BAD: u32 = 2;
/// Good windows in a row before it comes back: at first, and at most (0.6 s of 50 ms windows: it
/// must be back within a second, and some of them may be lost to what still runs).
const GOOD: u32 = 2;
const GOOD_MAX: u32 = 12;
/// Windows within which having to step aside again counts as again: two seconds of them.
const AGAIN: u32 = 40;
/// Windows for which writes to the probe are absorbed, of so many: a second in five.
const PROBE: u32 = 20;
const PROBE_EVERY: u32 = 100;
/// What writes that passed have told is forgotten by one part in so many in each window: within
/// some seconds.
const PASSED_FORGETS: u64 = 16;

/// Whether a block belongs to the part that is treated as ever.
#[inline]
pub(crate) fn is_probe(block: u64) -> bool {
    // Not the first part: there lie the tables and superblocks of whatever is on the volume.
    Hash::of(!(block >> PROBE_BLOCKS_SHIFT)).is_sampled()
}

/// One of the two things that can be left out.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    aside: Option<Why>,
    /// Windows in a row that spoke for a change.
    streak: u32,
    /// Good windows that are asked for.
    good: u32,
    /// Windows since it stepped aside or came back.
    since: u32,
}

/// What a window says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    Good,
    Bad(Why),
}

impl Side {
    /// What a balance says to it.
    fn weigh(&self, balance: &Balance, pressure: Pressure) -> Says {
        if balance.pays(self.aside.is_some()) {
            return Says::Good;
        }
        Says::Bad(match balance.pays_in_calm() {
            true => Why::Busy { waited: pressure.waited },
            false => Why::Costs { loses_ns: balance.loses_ns() },
        })
    }

    /// True: it steps aside now.
    fn hear(&mut self, says: Says) -> bool {
        self.since = self.since.saturating_add(1);
        match (self.aside, says) {
            (_, Says::Nothing) => {}
            (None, Says::Good) => self.streak = 0,
            (None, Says::Bad(why)) => {
                self.streak += 1;
                if self.streak >= BAD {
                    let again = self.good > 0 && self.since < AGAIN;
                    let good = if again { (self.good * 2).min(GOOD_MAX) } else { GOOD };
                    *self = Side { aside: Some(why), good, ..Side::default() };
                    return true;
                }
            }
            (Some(_), Says::Bad(why)) => (self.aside, self.streak) = (Some(why), 0),
            (Some(_), Says::Good) => {
                self.streak += 1;
                if self.streak >= self.good {
                    *self = Side { good: self.good, ..Side::default() };
                }
            }
        }
        false
    }
}

/// What has become of absorbed blocks lately.
#[derive(Clone, Copy, Debug, Default)]
struct Buffered {
    absorbed: u64,
    saved: u64,
    written: u64,
    runs: u64,
    slowed_ns: u64,
}

impl Buffered {
    /// Older windows count less and less.
    fn add(&mut self, window: &Window) {
        let ease = |sum: &mut u64, new: u64| *sum = *sum - *sum / 4 + new;
        ease(&mut self.absorbed, window.absorbed);
        ease(&mut self.saved, window.saved);
        ease(&mut self.written, window.written);
        ease(&mut self.runs, window.runs);
        ease(&mut self.slowed_ns, window.slowed_ns);
    }

    /// Of what was absorbed, the share that has taken no request of its own; None: too early to
    /// say.
    fn spared(&self) -> Option<f64> {
        if self.absorbed < ENOUGH || self.written + self.saved < ENOUGH {
            return None;
        }
        // What is saved never becomes a request; of the rest, `runs` stand for `written` blocks.
        let saved = self.saved.min(self.absorbed) as f64;
        let rest = self.absorbed as f64 - saved;
        let requests = rest * self.runs as f64 / (self.written as f64).max(1.0);
        Some((1.0 - requests / self.absorbed as f64).max(0.0))
    }

    /// How long clients have waited for each block that was absorbed.
    fn slowed_ns(&self) -> f64 {
        self.slowed_ns as f64 / (self.absorbed as f64).max(1.0)
    }
}

/// The guard of one volume.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    reads: Side,
    /// Of what is sure to be read.
    sure: Side,
    writes: Side,
    buffered: Buffered,
    /// What the backing takes for a block by the writes that have passed, in nanoseconds.
    /// Write-outs tell better; but what they told holds while there are none, and the first ones
    /// after it are too few to change it.
    passed_ns: u64,
    is_busy: bool,
    times: u64,
}

impl Guard {
    /// Judges a window; returns what is left out from now on.
    pub fn decide(&mut self, window: &Window) -> Aside {
        self.feel(window);
        let was_aside = self.writes.aside.is_some();
        let reads = self.judge_reads(window, window.expected_hits.unwrap_or(1.0), &self.reads);
        let sure = self.judge_reads(window, 1.0, &self.sure);
        let writes = self.judge_writes(window);
        self.sure.hear(sure);
        self.times += u64::from(self.reads.hear(reads)) + u64::from(self.writes.hear(writes));
        if was_aside != self.writes.aside.is_some() {
            self.buffered = Buffered::default();
        }
        self.aside()
    }

    /// Nothing is left out any more, and nothing is remembered but how often it was.
    pub(crate) fn forget(&mut self) {
        *self = Guard { times: self.times, ..Guard::default() };
    }

    /// What is left out at the moment.
    pub fn aside(&self) -> Aside {
        Aside {
            reads: self.reads.aside,
            sure_reads: self.sure.aside.is_some(),
            writes: self.writes.aside,
            writes_unprobed: self.writes.aside.is_some()
                && self.writes.since % PROBE_EVERY >= PROBE,
        }
    }

    /// How often the cache has stepped aside.
    pub fn times(&self) -> u64 {
        self.times
    }

    fn feel(&mut self, window: &Window) {
        let Pressure { waited, wanted } = window.pressure;
        let limit = if self.is_busy { CALM } else { BUSY };
        self.is_busy = waited >= limit && wanted >= WANTED;
    }

    /// What a read of the backing takes. A lane that waits for a processor when the answer comes
    /// takes that for the backing's time: then the median tells more than the mean.
    fn backing_read_ns(&self, window: &Window) -> u64 {
        match self.is_busy {
            true if window.backing_read_median_ns > 0 => window.backing_read_median_ns,
            _ => window.backing_read_ns,
        }
    }

    fn judge_reads(&self, window: &Window, hits: f64, side: &Side) -> Says {
        let reads = Reads {
            backing_ns: self.backing_read_ns(window),
            hit_ns: window.hit_ns,
            copy_ns: window.copy_ns,
        };
        if reads.backing_ns == 0 || window.reads == 0 && side.aside.is_none() {
            return Says::Nothing;
        }
        side.weigh(&keeping(&reads, hits, window.pressure), window.pressure)
    }

    fn judge_writes(&mut self, window: &Window) -> Says {
        if window.absorbed + window.written > 0 {
            self.buffered.add(window);
        }
        self.passed_ns -= self.passed_ns.div_ceil(PASSED_FORGETS);
        if window.passed_write_ns > 0 {
            self.passed_ns = window.passed_write_ns;
        }
        let is_slow = is_slow(window.backing_write_ns.max(self.passed_ns), window.copy_ns);
        // A copy is little beside a request to a slow backing, and clients do not wait for that.
        if !self.is_busy && (is_slow || window.backing_write_ns == 0) {
            return Says::Good;
        }
        let (side, pressure) = (&self.writes, window.pressure);
        match (self.buffered.spared(), side.aside) {
            (Some(spared), _) => {
                let writes = Writes {
                    backing_ns: window.backing_write_ns,
                    copy_ns: window.copy_ns,
                    spared,
                    slowed_ns: self.buffered.slowed_ns(),
                };
                side.weigh(&absorbing(&writes, pressure), pressure)
            }
            // The part that is still absorbed has nothing to tell. What was left out for want of a
            // processor comes back when there is one; else it goes on as it is.
            (None, Some(Why::Busy { .. })) if !self.is_busy => Says::Good,
            (None, Some(why)) => Says::Bad(why.at(pressure)),
            (None, None) => Says::Nothing,
        }
    }
}

impl Why {
    /// The same, as it is under this pressure.
    fn at(self, pressure: Pressure) -> Why {
        match self {
            Why::Busy { .. } => Why::Busy { waited: pressure.waited },
            why => why,
        }
    }
}
