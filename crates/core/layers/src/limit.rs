//! The layer `limit`: holds requests back to a rate of requests and of bytes.

use crate::held::Held;
use alloc::sync::Arc;
use block::{Layer, Padding, RateLimitSpec, Request, Result, SECTOR, Stack};
use lane::{Lane, Lock};

/// Parts of a token: a rate of one token per second adds one part per nanosecond.
const PARTS: u128 = 1_000_000_000;

/// A bucket of tokens. It stores no level, but the time at which it will be full again.
struct Bucket {
    /// Tokens per second, and so parts per nanosecond.
    rate: u64,
    /// Parts in a full bucket.
    burst: u128,
    /// The time at which it will be full, in nanoseconds times the rate.
    full: u128,
}

impl Bucket {
    fn new(rate: u64, burst_us: u64) -> Bucket {
        let burst = match rate {
            0 => u128::MAX,
            _ => (u128::from(burst_us) * 1000).saturating_mul(rate.into()),
        };
        Bucket { rate: rate.max(1), burst, full: 0 }
    }

    /// Returns the time from which it has `parts`, or is full.
    fn start_ns(&self, parts: u128) -> u64 {
        let reached = self.full.saturating_sub(self.burst.saturating_sub(parts));
        u64::try_from(reached.div_ceil(self.rate.into())).unwrap_or(u64::MAX)
    }

    fn take(&mut self, start_ns: u64, parts: u128) {
        let start = u128::from(start_ns) * u128::from(self.rate);
        // Less than a nanosecond was not idle: the start was rounded up to a whole one.
        if start.saturating_sub(self.full) >= self.rate.into() {
            self.full = start;
        }
        self.full = self.full.saturating_add(parts);
    }
}

/// The part of a rate limit that all lanes share.
pub struct RateLimitShared {
    /// Those of requests and of bytes.
    buckets: Lock<[Bucket; 2]>,
    held: Held,
}

impl RateLimitShared {
    /// Creates a limit whose buckets are full. A rate of 0 is no limit.
    pub fn new(spec: &RateLimitSpec) -> Arc<RateLimitShared> {
        let buckets = [spec.iops, spec.bandwidth.0].map(|rate| Bucket::new(rate, spec.burst_us));
        Arc::new(RateLimitShared { buckets: Lock::new(buckets), held: Held::default() })
    }

    /// Takes the tokens of a request. Returns the time of its start, which is not before that of
    /// an earlier request that waits.
    fn take(&self, now_ns: u64, bytes: u64) -> u64 {
        let parts = [1, bytes].map(|tokens| u128::from(tokens) * PARTS);
        self.buckets.with(|buckets| {
            let starts = buckets.iter().zip(parts).map(|(bucket, parts)| bucket.start_ns(parts));
            let start_ns = starts.fold(now_ns, u64::max);
            buckets.iter_mut().zip(parts).for_each(|(bucket, parts)| bucket.take(start_ns, parts));
            start_ns
        })
    }
}

/// One lane's handle on a limited device. Requests start in the order of their arrival, each when
/// both buckets have its tokens. A request that needs more than a full bucket takes the tokens in
/// advance: no request starts until they have been added. Discards and zeroes have no bytes.
/// Flushes and advice need no tokens.
pub struct RateLimit {
    shared: Arc<RateLimitShared>,
    lane: Lane,
    below: Stack,
}

impl RateLimit {
    /// Creates the handle of `lane` on the limited device, in front of `below`.
    pub fn attach(shared: Arc<RateLimitShared>, lane: &Lane, below: Stack) -> RateLimit {
        RateLimit { shared, lane: lane.clone(), below }
    }
}

impl Layer for RateLimit {
    fn lower(&self) -> &Stack {
        &self.below
    }

    /// No request is answered immediately.
    fn try_now(&self, _request: &Request) -> Option<Result> {
        None
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let bytes = match &request {
            Request::Read { at, .. } | Request::Write { at, .. } => u64::from(at.count) * SECTOR,
            Request::Discard { .. } | Request::Zero { .. } => 0,
            Request::Flush | Request::Advise { .. } => {
                return self.below.serve(request, padding).await;
            }
        };
        // The turns separate the section from those of the caller and of the device below.
        self.lane.turn().await;
        let start_ns = self.shared.take(self.lane.now(), bytes);
        self.shared.held.begin(start_ns.saturating_sub(self.lane.now()));
        self.lane.turn().await;
        self.lane.sleep_until(start_ns).await;
        let result = self.below.serve(request, padding).await;
        self.shared.held.end();
        result
    }

    fn held_ns(&self) -> u64 {
        self.shared.held.longest_ns().saturating_add(self.below.held_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Size;
    use lane::Random;

    /// The same buckets as levels, which are filled from one start to the next.
    struct Levels {
        rates: [i128; 2],
        bursts: [i128; 2],
        levels: [i128; 2],
        last_ns: u64,
    }

    impl Levels {
        /// Returns the levels after some time. Less than a nanosecond more than the burst fits.
        fn after(&self, ns: u64) -> [i128; 2] {
            core::array::from_fn(|which| {
                let level = self.levels[which] + self.rates[which] * i128::from(ns);
                match level - self.bursts[which] < self.rates[which] {
                    true => level,
                    false => self.bursts[which],
                }
            })
        }

        fn take(&mut self, now_ns: u64, bytes: u64) -> u64 {
            let parts = [1, bytes].map(|tokens| i128::from(tokens) * PARTS as i128);
            let has_all = |levels: [i128; 2]| {
                (0..2).all(|which| levels[which] >= parts[which].min(self.bursts[which]))
            };
            // The first nanosecond at which no bucket misses a token, by bisection.
            let first_ns = now_ns.max(self.last_ns);
            let (mut wait_ns, mut most_ns) = (0, 1 << 50);
            while wait_ns < most_ns {
                let middle_ns = (wait_ns + most_ns) / 2;
                match has_all(self.after(first_ns + middle_ns - self.last_ns)) {
                    true => most_ns = middle_ns,
                    false => wait_ns = middle_ns + 1,
                }
            }
            self.levels = self.after(first_ns + wait_ns - self.last_ns);
            (0..2).for_each(|which| self.levels[which] -= parts[which]);
            self.last_ns = first_ns + wait_ns;
            self.last_ns
        }
    }

    #[test]
    fn starts_are_those_of_two_levels_that_are_filled_and_emptied() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (iops, bandwidth) = (1 + random.below(5000), 512 + random.below(64 << 20));
            let burst_us = [0, 1, 333, 10_000, 5_000_000][random.below(5) as usize];
            let spec = RateLimitSpec { iops, bandwidth: Size(bandwidth), burst_us };
            let limit = RateLimitShared::new(&spec);
            let rates = [iops, bandwidth].map(i128::from);
            let bursts = rates.map(|rate| rate * i128::from(burst_us) * 1000);
            let mut levels = Levels { rates, bursts, levels: bursts, last_ns: 0 };
            let mut now_ns = 0;
            for number in 0..500 {
                // Sometimes all requests wait, sometimes the buckets become full.
                let pause_ns = [1, 1_000_000, 3_000_000_000][random.below(3) as usize];
                now_ns += random.below(pause_ns);
                let bytes = SECTOR * [0, 1, 8, random.below(2048)][random.below(4) as usize];
                let (start_ns, expected_ns) =
                    (limit.take(now_ns, bytes), levels.take(now_ns, bytes));
                assert_eq!(start_ns, expected_ns, "seed {seed}, request {number}: {spec:?}");
            }
        }
    }
}
