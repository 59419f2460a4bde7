//! The guard: whether the cache should step aside, because at the moment it costs more than it brings
//! (C12).
//!
//! A decision over plain data, made anew for every window of about 50 ms. Reads and writes are judged
//! apart. Keeping a miss costs a copy ([`Window::cost_ns`]) and brings what later hits save. Absorbing
//! costs a copy and brings requests to the backing that are never sent, because blocks are overwritten
//! in time or written out in longer runs. While the lane gets the processors it wants, that is what
//! `policy::Admission` and the limits of the write buffer see to, and the guard steps in only where reads lose
//! all the same. When the lane has to wait for a processor, each copy makes all else later: then what
//! has not shown that it pays is left out. Not over a slow backing, though, whose requests take 20 times
//! as long as a copy or more: a cold cache has no hits to show yet, so what is read is kept, and what is
//! absorbed must spare as much of the backing's time as it costs.
//!
//! Stepping aside is not complete: one part in sixteen of the volume is treated as before, so that
//! the guard sees when it would pay again. With writes for a second in five only: what is absorbed there must
//! be flushed when its time has come, and a flush makes the backing write all that has passed as well, which
//! no client has asked for. Two bad windows make it step aside, a few good ones let it
//! come back; the more, the sooner it had to step aside again.
//!
//! (bcache has a crude form of this: above 2 ms a read, or 20 ms a write, of its own device's latency
//! it lets more pass. Ours looks at benefit, since memory has no latency to speak of.)

use core::fmt;
use policy::is_slow;

/// How processors were to be had in a window, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Of the time in which the lane wanted a processor: how much of it was spent waiting for one.
    pub waited: u32,
    /// Of the window: how much of it the lane wanted one.
    pub wanted: u32,
}
use policy::Hash;

/// What has happened in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Read requests.
    pub reads: u64,
    /// Those answered from memory.
    pub hits: u64,
    /// Blocks kept after misses.
    pub kept: u64,
    /// Blocks absorbed.
    pub absorbed: u64,
    /// Absorbed blocks that need not be written any more.
    pub saved: u64,
    /// Blocks written out.
    pub written: u64,
    /// Requests that took.
    pub runs: u64,
    /// Read requests to the part that is treated as ever while the cache steps aside, and ...
    pub probe_reads: u64,
    /// ... those answered from memory.
    pub probe_hits: u64,
    /// What a read of the backing takes, in nanoseconds; 0: not known.
    pub backing_read_ns: u64,
    /// The median of the same; 0: not known. A few reads that wait for a processor do not move it, nor do
    /// a few of holes in a file, which are answered at once.
    pub backing_read_median_ns: u64,
    /// What the backing takes to write a block when nothing stands before it, in nanoseconds; 0: not known.
    pub backing_write_ns: u64,
    /// What a hit takes, in nanoseconds.
    pub hit_ns: u64,
    /// What keeping or absorbing a block costs, in nanoseconds of a processor.
    pub cost_ns: u64,
    /// How processors were to be had.
    pub pressure: Pressure,
}

impl Window {
    /// Whether reads of the backing take so long that keeping a block costs little beside one.
    fn reads_slowly(&self) -> bool {
        is_slow(self.backing_read_median_ns, self.cost_ns)
    }

    /// What a request costs, in copies of a block: where the backing is slow, its time; else what a
    /// processor spends.
    fn request_costs(&self) -> u64 {
        match is_slow(self.backing_write_ns, self.cost_ns) {
            true => self.backing_write_ns / self.cost_ns.max(1),
            false => REQUEST_COSTS,
        }
    }
}

/// Why the cache steps aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Processors are busy, and what it does with them does not pay enough.
    Busy {
        /// [`Pressure::waited`] when it was decided.
        waited: u32,
    },
    /// Keeping costs more than it saves.
    Costs {
        /// So much more for each block that is kept, in nanoseconds.
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
                write!(f, "does not pay: keeping a block costs {loses_ns} ns more than it saves")
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

/// Blocks of a part that is treated as ever, as a power of two: neighbours are written out together.
const PROBE_BLOCKS_SHIFT: u32 = 6;
/// Waiting that is too much, and little enough again: thousandths of the time a processor was wanted.
const BUSY: u32 = 200;
const CALM: u32 = 100;
/// A lane that wants a processor for less than this, in thousandths of the window, is not held up by them.
const WANTED: u32 = 400;
/// Requests, or blocks, that tell something.
const ENOUGH: u64 = 32;
/// Bad windows in a row before the cache steps aside.
const BAD: u32 = 2;
/// Good windows in a row before it comes back: at first, and at most (0.6 s of 50 ms windows: it must be
/// back within a second, and some of them may be lost to what still runs).
const GOOD: u32 = 2;
const GOOD_MAX: u32 = 12;
/// Windows within which having to step aside again counts as again: two seconds of them.
const AGAIN: u32 = 40;
/// Windows after which the cache is tried again where the probe sees nothing: five seconds of them.
const TRY_AGAIN: u32 = 100;
/// Windows for which writes to the probe are absorbed, of so many: a second in five.
const PROBE: u32 = 20;
const PROBE_EVERY: u32 = TRY_AGAIN;
/// What a request to the backing costs a processor, in copies of a block into memory that is not at
/// hand. (On a busy host: some 3 us against 1 us.)
const REQUEST_COSTS: u64 = 3;

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
}

impl Buffered {
    /// Older windows count less and less.
    fn add(&mut self, window: &Window) {
        let ease = |sum: &mut u64, new: u64| *sum = *sum - *sum / 4 + new;
        ease(&mut self.absorbed, window.absorbed);
        ease(&mut self.saved, window.saved);
        ease(&mut self.written, window.written);
        ease(&mut self.runs, window.runs);
    }

    /// Whether absorbing spares more than it costs, where a request costs so many copies; None: too
    /// early to say.
    fn pays(&self, request_costs: u64) -> Option<bool> {
        if self.absorbed < ENOUGH || self.written + self.saved < ENOUGH {
            return None;
        }
        // What is saved never becomes a request; of the rest, `runs` stand for `written` blocks.
        let saved = self.saved.min(self.absorbed);
        let rest = self.absorbed - saved;
        let requests = match self.written {
            0 => 0,
            written => (u128::from(rest) * u128::from(self.runs) / u128::from(written)) as u64,
        };
        let spared = self.absorbed.saturating_sub(requests);
        Some(spared.saturating_mul(request_costs) > self.absorbed)
    }
}

/// The guard of one volume.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    reads: Side,
    writes: Side,
    buffered: Buffered,
    probe_reads: u64,
    probe_hits: u64,
    /// What a read of the backing took while processors were to be had; 0: not known.
    calm_read_ns: u64,
    is_busy: bool,
    times: u64,
}

impl Guard {
    /// Judges a window; returns what is left out from now on.
    pub fn decide(&mut self, window: &Window) -> Aside {
        self.feel(window);
        let was_aside = self.writes.aside.is_some();
        let reads = self.judge_reads(window);
        let writes = self.judge_writes(window);
        let steps = u64::from(self.reads.hear(reads)) + u64::from(self.writes.hear(writes));
        self.times += steps;
        if steps > 0 {
            (self.probe_reads, self.probe_hits) = (0, 0);
        }
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
        let measured = window.backing_read_ns;
        // A lane that waits for a processor when the answer comes takes that for the backing's time.
        if measured > 0 && (!self.is_busy || self.calm_read_ns == 0 || measured < self.calm_read_ns)
        {
            self.calm_read_ns = measured;
        }
    }

    /// What a hit saves. A lane that is short of processors answers more only where it spends less on
    /// each request; what the backing takes meanwhile is hidden behind the others.
    fn saves(&self, window: &Window) -> u64 {
        match self.is_busy {
            true => window.cost_ns * REQUEST_COSTS,
            false => self.calm_read_ns.saturating_sub(window.hit_ns),
        }
    }

    fn judge_reads(&mut self, window: &Window) -> Says {
        match self.reads.aside {
            None => self.judge_keeping(window),
            Some(why) => self.judge_return(window, why),
        }
    }

    fn judge_keeping(&self, window: &Window) -> Says {
        let Window { reads, hits, kept, cost_ns, .. } = *window;
        if self.is_busy && window.reads_slowly() {
            return Says::Good;
        }
        if reads < ENOUGH || self.calm_read_ns == 0 {
            return if self.is_busy { Says::Nothing } else { Says::Good };
        }
        let (costs, brings) = (kept * cost_ns, hits * self.saves(window));
        let loses = costs.saturating_sub(brings);
        let matters = match self.is_busy {
            true => kept * 50 > reads,
            false => loses * 33 > reads * self.calm_read_ns,
        };
        if loses == 0 || !matters {
            return Says::Good;
        }
        Says::Bad(match self.is_busy {
            true => Why::Busy { waited: window.pressure.waited },
            false => Why::Costs { loses_ns: loses / kept.max(1) },
        })
    }

    fn judge_return(&mut self, window: &Window, why: Why) -> Says {
        self.probe_reads += window.probe_reads;
        self.probe_hits += window.probe_hits;
        let told = self.probe_reads >= ENOUGH;
        let misses = self.probe_reads.saturating_sub(self.probe_hits);
        // A quarter more than it costs: at the border it would come and go.
        let (brings, costs) = (self.probe_hits * self.saves(window), misses * window.cost_ns);
        let pays = told && brings * 4 > costs * 5;
        if told {
            (self.probe_reads, self.probe_hits) = (self.probe_reads / 2, self.probe_hits / 2);
        }
        match why {
            _ if pays => Says::Good,
            Why::Busy { .. } if self.is_busy && !window.reads_slowly() => {
                Says::Bad(Why::Busy { waited: window.pressure.waited })
            }
            Why::Busy { .. } => Says::Good,
            Why::Costs { .. } if told => Says::Bad(why),
            Why::Costs { .. } if self.reads.since > TRY_AGAIN => Says::Good,
            Why::Costs { .. } => Says::Nothing,
            Why::Told => Says::Good,
        }
    }

    fn judge_writes(&mut self, window: &Window) -> Says {
        if window.absorbed + window.written > 0 {
            self.buffered.add(window);
        }
        let busy = Why::Busy { waited: window.pressure.waited };
        match (self.is_busy, self.buffered.pays(window.request_costs())) {
            (false, _) | (true, Some(true)) => Says::Good,
            (true, Some(false)) => Says::Bad(busy),
            // The part that is still absorbed has nothing to tell: it goes on as it is.
            (true, None) if self.writes.aside.is_some() => Says::Bad(busy),
            (true, None) => Says::Nothing,
        }
    }
}
