//! What keeping a block, or absorbing one, brings and what it costs: the one decision behind
//! stepping aside (C12).
//!
//! Both cost a copy, with what goes with it: a look for a victim, its end, a new header. That is
//! timed while the volume is served, because it differs tenfold between machines. What they bring
//! is requests that the backing is not sent: of a miss that is kept, as many as hits are expected
//! of it (`policy::Expectation`); of what is absorbed, as many as overwriting and longer runs have
//! spared. A request has two parts. *Work* is what a processor spends on it. The rest is *waiting*,
//! which counts as far as the lane has nothing else to do meanwhile: while it wants a processor all
//! the time, the waits of some requests are hidden behind the work for others. When processors are
//! busy, work takes longer; a wait does not.
//!
//! ```text
//!                              kept                                          absorbed
//!   brings    hits x (wait x idle + (work - hit) x price)       spared x request  +  wait x idle, if not slowed
//!   costs                  copy x price                                    copy x price
//! ```
//!
//! (bcache has a crude form of this: above 2 ms a read, or 20 ms a write, of its own device's
//! latency it lets more pass. Ours looks at what is gained, since memory has no latency to speak
//! of.)

/// How processors were to be had in a window, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Of the time in which the lane wanted a processor: how much of it was spent waiting for one.
    pub waited: u32,
    /// Of the window: how much of it the lane wanted one.
    pub wanted: u32,
}

/// What a request to the backing costs a processor, in copies of a block into memory that is not at
/// hand, unless the backing takes less for all of it. (On a busy host: some 3 us against 1 us.)
const REQUEST_COPIES: f64 = 3.0;
/// A backing that takes longer than so many copies for a request is slow.
const SLOW: u64 = 20;
/// The price of work rises to this and not further: a lane that has waited nine tenths of the time
/// will not wait so for ever.
const PRICE_MAX: f64 = 10.0;
/// At the border it would come and go: it steps aside when four fifths of the costs come back, and
/// comes back when five quarters do.
const BORDER: [f64; 2] = [4.0, 5.0];

/// Whether a backing that takes so long for a request is slow beside what a copy of a block costs.
#[inline]
pub(crate) fn is_slow(backing_ns: u64, copy_ns: u64) -> bool {
    backing_ns > copy_ns.saturating_mul(SLOW)
}

/// What time is worth in a window.
#[derive(Clone, Copy, Debug)]
struct Worth {
    /// The share of the time in which the lane wants no processor.
    idle: f64,
    /// How long a nanosecond of a processor takes.
    price: f64,
}

impl Worth {
    const CALM: Worth = Worth { idle: 1.0, price: 1.0 };

    fn under(pressure: Pressure) -> Worth {
        let share = |thousandths: u32| f64::from(thousandths.min(1000)) / 1000.0;
        let runs = 1.0 - share(pressure.waited);
        Worth {
            idle: 1.0 - share(pressure.wanted),
            price: if runs * PRICE_MAX > 1.0 { 1.0 / runs } else { PRICE_MAX },
        }
    }
}

/// A request to the backing, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Request {
    work: f64,
    wait: f64,
}

impl Request {
    /// One that takes so long in all, beside a copy that takes `copy_ns`.
    fn of(took_ns: u64, copy_ns: u64) -> Request {
        let work = (took_ns as f64).min(copy_ns as f64 * REQUEST_COPIES);
        Request { work, wait: took_ns as f64 - work }
    }

    fn is_worth(self, worth: Worth) -> f64 {
        self.wait * worth.idle + self.work * worth.price
    }
}

/// What a block brings and costs, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Balance {
    brings: f64,
    costs: f64,
    /// The same if processors were free: what they bring and cost then.
    calm: (f64, f64),
}

impl Balance {
    fn of(of: impl Fn(Worth) -> (f64, f64), pressure: Pressure) -> Balance {
        let (brings, costs) = of(Worth::under(pressure));
        Balance { brings, costs, calm: of(Worth::CALM) }
    }

    /// Whether it pays; at the border it stays as it is.
    pub(crate) fn pays(&self, is_aside: bool) -> bool {
        let [less, more] = BORDER;
        match is_aside {
            true => self.brings * less > self.costs * more,
            false => self.brings * more >= self.costs * less,
        }
    }

    /// Whether it would pay if processors were free.
    pub(crate) fn pays_in_calm(&self) -> bool {
        self.calm.0 > self.calm.1
    }

    /// What is lost with each block, in nanoseconds of a processor.
    pub(crate) fn loses_ns(&self) -> u64 {
        (self.calm.1 - self.calm.0).max(0.0) as u64
    }
}

/// What is known of reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// What one takes that goes to the backing, in nanoseconds.
    pub(crate) backing_ns: u64,
    /// What one takes that is answered from memory.
    pub(crate) hit_ns: u64,
    /// What keeping a block costs.
    pub(crate) copy_ns: u64,
}

/// Of a miss that is kept and of which so many hits are expected.
pub(crate) fn keeping(reads: &Reads, hits: f64, pressure: Pressure) -> Balance {
    let request = Request::of(reads.backing_ns, reads.copy_ns);
    // A hit is a copy, too. What was measured beyond that were waits for a processor.
    let hit = reads.hit_ns.min(reads.copy_ns) as f64;
    let of = |worth: Worth| {
        let saves = request.is_worth(worth) - hit * worth.price;
        (hits * saves, reads.copy_ns as f64 * worth.price)
    };
    Balance::of(of, pressure)
}

/// What is known of writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes {
    /// What one takes the backing when nothing stands before it, in nanoseconds; 0: not known.
    pub(crate) backing_ns: u64,
    /// What absorbing a block costs.
    pub(crate) copy_ns: u64,
    /// Of blocks that were absorbed, the share that has taken no request of its own.
    pub(crate) spared: f64,
    /// How long clients were made to wait for each block that was absorbed.
    pub(crate) slowed_ns: f64,
}

/// Of a block that is absorbed.
pub(crate) fn absorbing(writes: &Writes, pressure: Pressure) -> Balance {
    let copy = writes.copy_ns as f64;
    let known = match writes.backing_ns {
        0 => (copy * REQUEST_COPIES) as u64,
        known => known,
    };
    let request = Request::of(known, writes.copy_ns);
    let of = |worth: Worth| {
        // The time of a slow backing is short whatever the lane does: requests that it is spared
        // serve others.
        let spared = match is_slow(known, writes.copy_ns) {
            true => known as f64 * worth.price,
            false => request.is_worth(worth),
        };
        let unslowed = (request.wait - writes.slowed_ns).max(0.0);
        (writes.spared * spared + unslowed * worth.idle, copy * worth.price)
    };
    Balance::of(of, pressure)
}
