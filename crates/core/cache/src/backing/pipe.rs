//! The backing as a pipe: the time of a read without a queue, the time that each further block
//! takes, and the number of blocks that are under way while the pipe is full.
//!
//! Readahead and the list of hot blocks read from it how long their pieces should be. Their reads
//! are the samples: their sizes differ, and many are in flight. The product of rate and time is the
//! bandwidth-delay product of a link, and of a device the blocks that it works on in parallel. (V.
//! Jacobson and others, "BBR: Congestion-Based Congestion Control", ACM Queue 14-5, 2016; with an
//! own limit of requests in flight, so that the rate is no larger than that limit allows.)

use core::sync::atomic::{AtomicU64, Ordering};

/// Size classes of reads: 1, 2 to 3, 4 to 7, ... blocks.
const CLASSES: usize = 9;
/// The time of a further block before any measurement: 200 MB/s.
const BLOCK_FIRST_NS: u64 = 20_000;
/// Minimum time of a sample of the rate, in times of a read and in nanoseconds.
const SAMPLE_READS: u64 = 2;
const SAMPLE_MIN_NS: u64 = 10_000_000;
/// The peak rate falls by one part in this number with each sample, ...
const FALLS_ONE_IN: u64 = 16;
/// ... and a minimum time rises by one part in this number of its distance with each read.
const RISES_ONE_IN: u64 = 512;

/// Measurements of reads. The counts are changed without a lock: an estimate may lack a sample.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The minimum time of a read of each class, in nanoseconds; 0: not measured yet.
    least_ns: [AtomicU64; CLASSES],
    /// Begin of the present sample of the rate, and its blocks until now.
    since_ns: AtomicU64,
    blocks: AtomicU64,
    /// Peak rate, in blocks per second.
    rate: AtomicU64,
}

fn class_of(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

impl Pipe {
    pub(crate) const fn new() -> Pipe {
        Pipe {
            least_ns: [const { AtomicU64::new(0) }; CLASSES],
            since_ns: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    /// Records a read of `blocks` blocks that was sent at `sent_ns` and is answered now.
    pub(crate) fn note(&self, sent_ns: u64, now_ns: u64, blocks: u32) {
        let took_ns = now_ns.saturating_sub(sent_ns).max(1);
        let least = &self.least_ns[class_of(blocks)];
        let before = least.load(Ordering::Relaxed);
        let next = match before {
            0 => took_ns,
            _ if took_ns < before => took_ns,
            _ => before + (took_ns - before) / RISES_ONE_IN,
        };
        least.store(next, Ordering::Relaxed);
        self.sample(now_ns, took_ns, blocks);
    }

    fn sample(&self, now_ns: u64, took_ns: u64, blocks: u32) {
        let blocks = self.blocks.fetch_add(blocks.into(), Ordering::Relaxed) + u64::from(blocks);
        let ns = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        if ns < took_ns.saturating_mul(SAMPLE_READS).max(SAMPLE_MIN_NS) {
            return;
        }
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.blocks.store(0, Ordering::Relaxed);
        let rate = u128::from(blocks) * 1_000_000_000 / u128::from(ns);
        let before = self.rate.load(Ordering::Relaxed);
        let rate = (rate.min(1 << 40) as u64).max(before - before / FALLS_ONE_IN);
        self.rate.store(rate, Ordering::Relaxed);
    }

    fn least(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let least = self.least_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).enumerate();
        least.filter(|(_, ns)| *ns > 0)
    }

    /// Returns the time of a short read without a queue, in nanoseconds. None: it is not known.
    pub(crate) fn round_trip_ns(&self) -> Option<u64> {
        self.least().map(|(_, ns)| ns).min()
    }

    /// Returns the time that one more block in a read takes, in nanoseconds.
    pub(crate) fn block_ns(&self) -> u64 {
        let mut least = self.least();
        let (Some((short, short_ns)), Some((long, long_ns))) = (least.next(), least.next_back())
        else {
            return BLOCK_FIRST_NS;
        };
        (long_ns.saturating_sub(short_ns) / ((1 << long) - (1 << short))).max(1)
    }

    /// Returns the number of blocks that are under way while the pipe is full, as far as is known.
    pub(crate) fn blocks_under_way(&self) -> u64 {
        let (rate, ns) = (self.rate.load(Ordering::Relaxed), self.round_trip_ns().unwrap_or(0));
        (u128::from(rate) * u128::from(ns) / 1_000_000_000).min(1 << 40) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends reads of these blocks in turn over a link, `depth` of them in flight.
    fn over_link(round_trip_ns: u64, block_ns: u64, depth: usize, blocks: &[u32]) -> Pipe {
        let (pipe, mut free_ns) = (Pipe::new(), 0);
        let mut in_flight = alloc::collections::VecDeque::new();
        let mut now_ns = 0;
        for number in 0..4000 {
            let blocks = blocks[number % blocks.len()];
            free_ns = now_ns.max(free_ns) + u64::from(blocks) * block_ns;
            in_flight.push_back((now_ns, free_ns + round_trip_ns, blocks));
            if in_flight.len() == depth {
                let (sent_ns, end_ns, blocks) = in_flight.pop_front().expect("there are some");
                now_ns = now_ns.max(end_ns);
                pipe.note(sent_ns, now_ns, blocks);
            }
        }
        pipe
    }

    #[test]
    fn it_finds_the_round_trip_and_the_bandwidth_of_a_link() {
        for round_trip_ns in [100_000, 1_000_000, 50_000_000] {
            let pipe = over_link(round_trip_ns, 32_000, 1, &[1, 64]);
            let found = pipe.round_trip_ns().expect("it is measured");
            assert!((round_trip_ns..round_trip_ns * 13 / 10 + 100_000).contains(&found), "{found}");
            assert!((28_000..36_000).contains(&pipe.block_ns()), "{}", pipe.block_ns());
        }
    }

    #[test]
    fn it_finds_the_blocks_under_way_once_the_link_is_full() {
        // 50 ms of blocks of 32 us.
        let full = over_link(50_000_000, 32_000, 20, &[96]);
        let blocks = full.blocks_under_way();
        assert!((1500..2000).contains(&blocks), "{blocks}");
        let half = over_link(50_000_000, 32_000, 8, &[96]);
        let blocks = half.blocks_under_way();
        assert!((700..850).contains(&blocks), "as many as are sent: {blocks}");
    }

    #[test]
    fn a_minimum_time_follows_a_backing_that_becomes_slower() {
        let pipe = Pipe::new();
        pipe.note(0, 1_000_000, 1);
        (0..4000).for_each(|number| pipe.note(number, number + 5_000_000, 1));
        assert!(pipe.round_trip_ns() > Some(4_000_000));
        assert_eq!(pipe.block_ns(), BLOCK_FIRST_NS, "reads of one size show nothing");
    }
}
