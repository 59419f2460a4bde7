//! The gain and the cost of admitting or absorbing a block: the one decision behind the bypass
//! (C12).
//!
//! Both cost a copy and the work around it: a search for a victim, its eviction, a new header. That
//! is timed while the volume is served, because it differs tenfold between machines. The gain is
//! the requests that are not sent to the backing: for an admitted miss, its expected number of hits
//! (`policy::Expectation`); for absorbed blocks, the number of requests that overwriting and longer
//! runs have saved. A request has two parts. *Work* is the processor time that it takes. The rest
//! is *waiting*, which counts as far as the lane has nothing else to do during it: while the lane
//! needs a processor all the time, the waits of some requests are hidden behind the work for
//! others. When processors are busy, work takes longer; a wait does not.
//!
//! ```text
//!              admitted                                    absorbed
//!   gain       hits x (wait x idle + (work - hit) x price) spared x request + wait x idle,
//!                                                          if not slowed
//!   cost       copy x price                                copy x price
//! ```
//!
//! (bcache has a crude form of this: above 2 ms per read, or 20 ms per write, of latency of its
//! cache device it bypasses more. This guard considers the gain, since the latency of memory is
//! negligible.)

/// The CPU pressure in a window, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// The share spent waiting of the time in which the lane needed a processor.
    pub waited: u32,
    /// The share of the window in which the lane needed a processor.
    pub wanted: u32,
}

/// The processor time of a request to the backing, in copies of a block into uncached memory,
/// unless the whole request takes less. (On a busy host: about 3 us against 1 us.)
const REQUEST_COPIES: f64 = 3.0;
/// A backing whose requests take longer than this number of copies is slow.
const SLOW: u64 = 20;
/// The maximum price of work: a lane that has waited nine tenths of the time will not wait like
/// that forever.
const PRICE_MAX: f64 = 10.0;
/// Hysteresis: the bypass begins when less than four fifths of the cost are gained, and ends when
/// five quarters are.
const BORDER: [f64; 2] = [4.0, 5.0];

/// Whether a backing with this latency is slow compared with a copy of a block.
#[inline]
pub(crate) fn is_slow(backing_ns: u64, copy_ns: u64) -> bool {
    backing_ns > copy_ns.saturating_mul(SLOW)
}

/// The value of time in a window.
#[derive(Clone, Copy, Debug)]
struct Worth {
    /// The share of the time in which the lane needs no processor.
    idle: f64,
    /// The elapsed time of a nanosecond of processor time.
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

/// The time of a request to the backing, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Request {
    work: f64,
    wait: f64,
}

impl Request {
    /// Makes a request with this total time, where a copy takes `copy_ns`.
    fn of(took_ns: u64, copy_ns: u64) -> Request {
        let work = (took_ns as f64).min(copy_ns as f64 * REQUEST_COPIES);
        Request { work, wait: took_ns as f64 - work }
    }

    fn value_ns(self, worth: Worth) -> f64 {
        self.wait * worth.idle + self.work * worth.price
    }
}

/// The gain and the cost of a block, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Balance {
    gain_ns: f64,
    cost_ns: f64,
    /// The gain and the cost if processors were free.
    calm: (f64, f64),
}

impl Balance {
    fn of(of: impl Fn(Worth) -> (f64, f64), pressure: Pressure) -> Balance {
        let (gain_ns, cost_ns) = of(Worth::under(pressure));
        Balance { gain_ns, cost_ns, calm: of(Worth::CALM) }
    }

    /// Whether the gain exceeds the cost; near the border the current state stays.
    pub(crate) fn pays(&self, is_bypassed: bool) -> bool {
        let [less, more] = BORDER;
        match is_bypassed {
            true => self.gain_ns * less > self.cost_ns * more,
            false => self.gain_ns * more >= self.cost_ns * less,
        }
    }

    /// Whether the gain would exceed the cost if processors were free.
    pub(crate) fn pays_in_calm(&self) -> bool {
        self.calm.0 > self.calm.1
    }

    /// Returns the loss per block, in nanoseconds of a processor.
    pub(crate) fn loses_ns(&self) -> u64 {
        (self.calm.1 - self.calm.0).max(0.0) as u64
    }
}

/// Measurements of reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// Latency of a read of the backing, in nanoseconds.
    pub(crate) backing_ns: u64,
    /// Latency of a read that is answered from memory.
    pub(crate) hit_ns: u64,
    /// Cost of admitting a block.
    pub(crate) copy_ns: u64,
}

/// Returns the balance of an admitted miss with this expected number of hits.
pub(crate) fn admitting(reads: &Reads, hits: f64, pressure: Pressure) -> Balance {
    let request = Request::of(reads.backing_ns, reads.copy_ns);
    // A hit is a copy, too. Measured time beyond that was spent waiting for a processor.
    let hit = reads.hit_ns.min(reads.copy_ns) as f64;
    let of = |worth: Worth| {
        let saves = request.value_ns(worth) - hit * worth.price;
        (hits * saves, reads.copy_ns as f64 * worth.price)
    };
    Balance::of(of, pressure)
}

/// Returns the balance of a block that is compressed when it is evicted, in this time, with this
/// expected number of hits. A hit is a copy, and it is decoded, which takes less than half of the
/// time of the compression.
pub(crate) fn compressing(
    reads: &Reads,
    compress_ns: u64,
    hits: f64,
    pressure: Pressure,
) -> Balance {
    let request = Request::of(reads.backing_ns, reads.copy_ns);
    let hit = (reads.copy_ns + compress_ns / 2) as f64;
    let of = |worth: Worth| {
        let saves = request.value_ns(worth) - hit * worth.price;
        (hits * saves, compress_ns as f64 * worth.price)
    };
    Balance::of(of, pressure)
}

/// A read that needs only parts of the blocks at its ends, in sectors and blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// Sectors that it needs.
    pub(crate) needed: u32,
    /// Sectors that it does not need, and that would make the blocks at its ends whole.
    pub(crate) rest: u32,
    /// Blocks that the rest makes whole: one or two.
    pub(crate) completed: u32,
    /// All blocks of the read.
    pub(crate) blocks: u32,
}

/// Whether it pays to fetch the rest of the blocks along with the needed part. The request becomes
/// longer: its time grows at most in proportion to its sectors. The needed part is copied once
/// more, because the request has a buffer of its own. A block that is whole brings the hits that
/// are expected of an admitted block; one that is held in part brings none in its rest.
pub(crate) fn completing(reads: &Reads, hits: f64, ends: &Ends) -> bool {
    let [backing, hit, copy] = [reads.backing_ns, reads.hit_ns, reads.copy_ns].map(|ns| ns as f64);
    let longer = f64::from(ends.rest) / f64::from(ends.needed + ends.rest);
    let gain_ns = f64::from(ends.completed) * hits * (backing - hit).max(0.0);
    gain_ns > longer * backing + f64::from(ends.blocks) * copy
}

/// Measurements of writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes {
    /// Latency of a write of the backing without a queue, in nanoseconds; 0: not known.
    pub(crate) backing_ns: u64,
    /// Cost of absorbing a block.
    pub(crate) copy_ns: u64,
    /// The share of absorbed blocks that needed no separate request.
    pub(crate) spared: f64,
    /// The delay of clients per absorbed block.
    pub(crate) slowed_ns: f64,
}

/// Returns the balance of an absorbed block.
pub(crate) fn absorbing(writes: &Writes, pressure: Pressure) -> Balance {
    let copy = writes.copy_ns as f64;
    let known = match writes.backing_ns {
        0 => (copy * REQUEST_COPIES) as u64,
        known => known,
    };
    let request = Request::of(known, writes.copy_ns);
    let of = |worth: Worth| {
        // The time of a slow backing is scarce whatever the lane does: requests that it is spared
        // serve others.
        let spared = match is_slow(known, writes.copy_ns) {
            true => known as f64 * worth.price,
            false => request.value_ns(worth),
        };
        let unslowed = (request.wait - writes.slowed_ns).max(0.0);
        (writes.spared * spared + unslowed * worth.idle, copy * worth.price)
    };
    Balance::of(of, pressure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_fetched_if_its_hits_save_more_than_a_longer_request_costs() {
        let reads = |backing_ns| Reads { backing_ns, hit_ns: 400, copy_ns: 400 };
        let pays = |backing_ns, hits, needed, rest, completed, blocks| {
            completing(&reads(backing_ns), hits, &Ends { needed, rest, completed, blocks })
        };
        // One sector of eight.
        assert!(pays(100_000, 1.0, 1, 7, 1, 1) && !pays(100_000, 0.5, 1, 7, 1, 1));
        // A few sectors more of a longer read; both ends bring hits.
        assert!(!pays(100_000, 0.1, 250, 6, 1, 32) && pays(5_000_000, 0.1, 250, 6, 1, 32));
        assert!(!pays(100_000, 0.2, 50, 14, 1, 8) && pays(100_000, 0.2, 50, 14, 2, 8));
        // A backing that is as fast as memory, and one that is not measured yet.
        assert!(!pays(2_000, 1.0, 1, 7, 1, 1) && !pays(300, 9.0, 7, 1, 1, 1));
        assert!(pays(u64::MAX, 1.0, 1, 7, 1, 1));
    }
}
