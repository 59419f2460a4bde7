//! The queueing model of a [`crate::Delay`]: plain data without a clock.
//!
//! A request crosses the link, then takes the earliest free server. These are two queues in series,
//! both served in the order of arrival. So a later request never delays an earlier one, and the end
//! of a request is determined when it arrives:
//!
//! ```text
//! across = max(now, link free) + bytes / bandwidth      link free = across
//! end    = max(across, earliest free server) + service  that server is free at end
//! ```
//!
//! (A real read crosses the link after it was served. In a model that determines the end at
//! arrival, a read that is served late would then block the link for all requests after it.)

use alloc::collections::{BinaryHeap, VecDeque};
use block::DelaySpec;
use core::cmp::Reverse;

/// Maximum number of servers. More servers than requests in flight make no difference.
const SERVERS_MAX: u32 = 4096;

/// Writes that arrived between two flushes.
#[derive(Clone, Copy, Default)]
struct Generation {
    open: u32,
}

/// A device of parallel servers behind one link, with the writes that a flush must wait for.
pub(crate) struct Device {
    /// Time at which each server is free, in nanoseconds.
    servers: BinaryHeap<Reverse<u64>>,
    /// Time at which the link is free, in nanoseconds.
    link_free_ns: u64,
    /// Bytes per second; 0: no limit.
    bandwidth: u64,
    /// The generations with open writes, oldest first. The last one takes new writes.
    generations: VecDeque<Generation>,
    /// The number of the oldest generation.
    oldest: u64,
}

impl Device {
    pub(crate) fn new(spec: &DelaySpec) -> Device {
        let servers = spec.servers.clamp(1, SERVERS_MAX);
        let mut generations = VecDeque::with_capacity(64);
        generations.push_back(Generation::default());
        Device {
            servers: (0..servers).map(|_| Reverse(0)).collect(),
            link_free_ns: 0,
            bandwidth: spec.bandwidth.0,
            generations,
            oldest: 0,
        }
    }

    /// Adds a request of `bytes` bytes and `service_ns`. Returns the time of its end.
    pub(crate) fn add(&mut self, now_ns: u64, bytes: u64, service_ns: u64) -> u64 {
        let across = now_ns.max(self.link_free_ns).saturating_add(self.crossing_ns(bytes));
        if bytes > 0 {
            self.link_free_ns = across;
        }
        let mut server = self.servers.peek_mut().expect("a device has a server at least");
        let end = across.max(server.0).saturating_add(service_ns);
        server.0 = end;
        end
    }

    fn crossing_ns(&self, bytes: u64) -> u64 {
        if self.bandwidth == 0 {
            return 0;
        }
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bandwidth));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Records the start of a write. Returns the generation for [`Device::end_write`].
    pub(crate) fn begin_write(&mut self) -> u64 {
        let last = self.generations.len() - 1;
        self.generations[last].open += 1;
        self.oldest + last as u64
    }

    /// Records the end of a write of this generation. Returns true if a flush may be waiting for
    /// it.
    pub(crate) fn end_write(&mut self, generation: u64) -> bool {
        self.generations[(generation - self.oldest) as usize].open -= 1;
        self.retire()
    }

    /// Closes the current generation for a flush, which does not wait for later writes. Returns the
    /// generation that must have ended before the flush starts.
    pub(crate) fn close(&mut self) -> u64 {
        let last = self.generations.len() - 1;
        let closed = self.oldest + last as u64;
        if self.generations[last].open == 0 {
            // Only earlier generations must have ended; the next write may join this one.
            return closed.wrapping_sub(1);
        }
        self.generations.push_back(Generation::default());
        closed
    }

    /// Whether all writes up to this generation have ended.
    pub(crate) fn is_quiet(&self, generation: u64) -> bool {
        // Before the first generation there is none: `close` then returned u64::MAX.
        generation.wrapping_add(1) <= self.oldest
    }

    fn retire(&mut self) -> bool {
        let before = self.oldest;
        while self.generations.len() > 1 && self.generations[0].open == 0 {
            self.generations.pop_front();
            self.oldest += 1;
        }
        self.oldest > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Size;

    fn device(servers: u32, bandwidth: u64) -> Device {
        Device::new(&DelaySpec { servers, bandwidth: Size(bandwidth), ..DelaySpec::default() })
    }

    #[test]
    fn a_slow_write_does_not_close_the_link_to_a_fast_read() {
        let mut device = device(2, 1_000_000_000);
        assert_eq!(device.add(0, 4096, 500_000), 504_096);
        assert_eq!(device.add(0, 4096, 100_000), 108_192);
    }

    #[test]
    fn a_request_without_bytes_does_not_wait_to_leave_the_link_either() {
        let mut device = device(2, 1000);
        assert_eq!(device.add(0, 500, 0), 500_000_000);
        assert_eq!(device.add(0, 0, 7), 500_000_007, "it stands in line");
        assert_eq!(device.link_free_ns, 500_000_000);
    }

    #[test]
    fn absurd_specs_saturate() {
        let mut device = device(0, 1);
        assert_eq!(device.servers.len(), 1);
        assert_eq!(device.add(0, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(device.add(5, 512, 1), u64::MAX);
        assert_eq!(super::SERVERS_MAX as usize, self::device(u32::MAX, 0).servers.len());
    }

    #[test]
    fn a_flush_waits_for_every_earlier_generation_and_no_later_one() {
        let mut device = device(1, 0);
        assert!(device.is_quiet(device.oldest.wrapping_sub(1)), "fresh");
        let fresh = device.close();
        assert!(device.is_quiet(fresh));
        let (first, second) = (device.begin_write(), device.begin_write());
        let early = device.close();
        let third = device.begin_write();
        let late = device.close();
        let later = device.begin_write();
        assert!(!device.end_write(third), "the first generation is still open");
        assert!(!device.end_write(first));
        assert!(!device.is_quiet(early) && !device.is_quiet(late));
        assert!(device.end_write(second));
        assert!(device.is_quiet(early) && device.is_quiet(late));
        assert!(!device.is_quiet(later));
        device.end_write(later);
        assert_eq!(device.generations.len(), 1);
    }

    #[test]
    fn flushes_without_writes_between_them_make_no_generations() {
        let mut device = device(1, 0);
        let write = device.begin_write();
        let closed = [(); 100].map(|()| device.close());
        assert_eq!(device.generations.len(), 2);
        assert!(closed.iter().all(|generation| *generation == write));
    }
}
