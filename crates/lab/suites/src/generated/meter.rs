//! The properties of generated requests, measured on the requests themselves.

use super::ends::Ends;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use trace::Event;

/// Counts requests.
pub struct Meter {
    /// Reads and writes by size in sectors.
    sizes: BTreeMap<u32, [u64; 2]>,
    sequential: [u64; 2],
    ends: [Ends; 2],
    /// Requests by depth, from 1 on.
    depths: Vec<u64>,
    in_flight: BinaryHeap<Reverse<u64>>,
    busy_until_ns: u64,
    idle_ns_max: u64,
    end: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            sizes: BTreeMap::new(),
            sequential: [0; 2],
            ends: [Ends::new(), Ends::new()],
            depths: Vec::new(),
            in_flight: BinaryHeap::new(),
            busy_until_ns: 0,
            idle_ns_max: 0,
            end: 0,
        }
    }
}

impl Meter {
    /// Adds a request; times ascend.
    pub fn add(&mut self, event: &Event) {
        let direction = usize::from(!event.is_read());
        self.sizes.entry(event.sectors).or_default()[direction] += 1;
        let end = event.first + u64::from(event.sectors);
        self.sequential[direction] += u64::from(self.ends[direction].add(event.first, end));
        self.end = self.end.max(end);
        while self.in_flight.peek().is_some_and(|Reverse(end_ns)| *end_ns <= event.time_ns) {
            self.in_flight.pop();
        }
        let end_ns = event.time_ns + event.took_ns.unwrap_or(0);
        self.in_flight.push(Reverse(end_ns));
        let depth = self.in_flight.len();
        if self.depths.len() < depth {
            self.depths.resize(depth, 0);
        }
        self.depths[depth - 1] += 1;
        if self.busy_until_ns > 0 {
            let idle_ns = event.time_ns.saturating_sub(self.busy_until_ns);
            self.idle_ns_max = self.idle_ns_max.max(idle_ns);
        }
        self.busy_until_ns = self.busy_until_ns.max(end_ns);
    }

    /// Returns the number of reads and of writes.
    pub fn requests(&self) -> [u64; 2] {
        self.sizes.values().fold([0; 2], |sum, count| [sum[0] + count[0], sum[1] + count[1]])
    }

    /// Returns the bytes read and written.
    pub fn bytes(&self) -> [u64; 2] {
        self.sizes.iter().fold([0; 2], |sum, (sectors, count)| {
            let bytes = u64::from(*sectors) * 512;
            [sum[0] + bytes * count[0], sum[1] + bytes * count[1]]
        })
    }

    fn count(&self) -> f64 {
        self.requests().iter().sum::<u64>().max(1) as f64
    }

    /// Returns the percentage of requests of these sizes, in bytes.
    pub(crate) fn percent_of_sizes(&self, sizes: &[u32]) -> f64 {
        let count = |bytes: &u32| self.sizes.get(&(bytes / 512)).map_or(0, |it| it[0] + it[1]);
        100.0 * sizes.iter().map(count).sum::<u64>() as f64 / self.count()
    }

    /// Returns the percentage of reads, or of writes, that continue one of the last 32.
    pub(crate) fn percent_sequential(&self, direction: usize) -> f64 {
        100.0 * self.sequential[direction] as f64 / self.requests()[direction].max(1) as f64
    }

    /// Returns the percentage of all requests that continue one of the last 32.
    pub(crate) fn percent_sequential_of_all(&self) -> f64 {
        100.0 * self.sequential.iter().sum::<u64>() as f64 / self.count()
    }

    /// Returns the percentage of requests that find a depth above `over`, up to `most`.
    pub(crate) fn percent_of_depths(&self, over: u32, most: u32) -> f64 {
        let most = (most as usize).min(self.depths.len());
        let found = self.depths.get(over as usize..most).unwrap_or_default();
        100.0 * found.iter().sum::<u64>() as f64 / self.count()
    }

    /// Returns the mean depth.
    pub(crate) fn depth_mean(&self) -> f64 {
        let sum: u64 = (1..).zip(&self.depths).map(|(depth, count)| depth * count).sum();
        sum as f64 / self.count()
    }

    /// Returns the time of the last answer, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.busy_until_ns
    }

    /// Returns the longest time without a request in flight.
    pub(crate) fn idle_ns_max(&self) -> u64 {
        self.idle_ns_max
    }

    /// Returns the end of the last request on the disk, in bytes.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.end * 512
    }
}
