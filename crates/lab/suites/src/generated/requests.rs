//! The requests of a workload, one after the other.

use super::bursts::bursts;
use super::ends::Ends;
use super::profile::Workload;
use super::sizes::fit;
use super::urn::Urn;
use lane::Random;
use load::{Scramble, Zipf};
use trace::{Event, Operation};

const SECTOR: u64 = 512;
/// Sectors of 4 KiB, to which all but smaller requests are aligned.
const ALIGNED: u64 = 8;
/// Sectors of a region, some of which are hot.
const REGION: u64 = 2048;
/// Time between two arrivals of a burst, in nanoseconds.
const APART_NS: u64 = 2_000;
/// Tries to find an address where no stream ends.
const TRIES: u32 = 8;

/// Parameters of a generated trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    /// Numbers and sizes are multiplied by this.
    pub scale: f64,
    /// The seed of all choices.
    pub seed: u64,
    /// The size of the disk: a larger footprint is reduced to it.
    pub disk_bytes: u64,
    /// Limit of each idle time, in nanoseconds.
    pub idle_ns_max: u64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { scale: 1.0, seed: 1, disk_bytes: u64::MAX, idle_ns_max: u64::MAX }
    }
}

/// The smallest and the largest scale.
pub const SCALES: (f64, f64) = (1e-4, 10.0);

/// A request, as it is drawn.
#[derive(Clone, Copy)]
struct Drawn {
    direction: usize,
    sectors: u32,
}

/// The burst that is under way.
#[derive(Default)]
struct Burst {
    left: u32,
    /// The next arrival.
    next_ns: u64,
    /// The time when the last request of the burst has been answered.
    end_ns: u64,
}

/// Pauses of a trace with a given duration.
struct Pauses {
    left: u64,
    count: u64,
    order: Scramble,
    shortest_ns: f64,
    /// The ratio of the longest to the shortest one.
    ratio: f64,
}

/// The requests of a workload, in the order of their times. Numbers, sizes, directions and depths
/// are drawn without replacement, so that they are exact whatever the seed is.
pub struct Requests {
    random: Random,
    drawn: Urn<Drawn>,
    /// Requests of each direction that are left, and those of them that continue an earlier one.
    left: [u64; 2],
    sequential: [u64; 2],
    ends: [Ends; 2],
    streams: usize,
    /// Of 2^32.
    hot: u64,
    regions: Zipf,
    scramble: Scramble,
    sectors: u64,
    bursts: Urn<u32>,
    burst: Burst,
    pauses: Option<Pauses>,
    gap_ns: f64,
    gap_ns_max: u64,
    idle_ns_max: u64,
    service_ns: u64,
    /// Nanoseconds of a sector's transfer, times 2^10.
    sector_ns: u64,
    bytes: u64,
    count: u64,
    sectors_max: u32,
}

/// Multiplies a number of requests or bytes.
pub(crate) fn scaled(number: u64, scale: f64) -> u64 {
    (number as f64 * scale).round() as u64
}

impl Requests {
    /// Returns the requests of a workload.
    ///
    /// # Errors
    /// The scale is absurd, or the workload's numbers contradict each other.
    pub fn new(workload: &Workload, scale: &Scale) -> Result<Requests, String> {
        let name = &workload.name;
        if !(SCALES.0..=SCALES.1).contains(&scale.scale) {
            let (least, most) = SCALES;
            return Err(format!("--scale {}: write {least} to {most}", scale.scale));
        }
        let requests = workload.requests.each_ref().map(|it| scaled(it.value, scale.scale));
        let all = requests[0] + requests[1];
        if all < REQUESTS_MIN {
            let what = format!("would have {all} requests, too few for its properties");
            return Err(format!("--scale {}: {name} {what}; write more", scale.scale));
        }
        let bytes = [0, 1].map(|it| mean_bytes(workload, it) * requests[it] as f64);
        let sizes = fit(&workload.sizes, requests, bytes.map(|bytes| bytes.round() as u64));
        let sizes = sizes.map_err(|what| format!("workload '{name}': {what}"))?.sizes;
        let bytes = sizes.iter().map(|(size, count)| u64::from(*size) * (count[0] + count[1]));
        let bytes = bytes.sum();
        let drawn = sizes.iter().flat_map(|(size, counts)| {
            [0, 1].map(|it| (Drawn { direction: it, sectors: size / 512 }, counts[it]))
        });
        let largest = sizes.iter().map(|(size, _)| u64::from(*size) / SECTOR).max().unwrap_or(1);
        let footprint = scaled(workload.footprint_bytes.value, scale.scale).max(FOOTPRINT_MIN);
        let footprint = footprint.min(scale.disk_bytes);
        let sectors = footprint / SECTOR / REGION * REGION;
        if sectors < 2 * largest.max(REGION) {
            return Err(format!("{name} needs at least {} MiB", (4 * largest.max(REGION)) >> 11));
        }
        let mean = workload.depth_mean.as_ref().map(|mean| mean.value);
        let bursts = bursts(&workload.depths, mean, all);
        let mut random = Random::new(scale.seed);
        let regions = sectors / REGION;
        let share = |it: usize| workload.sequential[it].value / 100.0;
        let mut generated = Requests {
            scramble: Scramble::new(regions, &mut random),
            drawn: Urn::new(drawn),
            left: requests,
            sequential: [0, 1].map(|it| scaled(requests[it], share(it))),
            ends: [Ends::new(), Ends::new()],
            streams: workload.streams.value as usize,
            hot: (workload.hot_percent.value / 100.0 * (1u64 << 32) as f64) as u64,
            regions: Zipf::new(regions, workload.hot_exponent.value),
            sectors,
            bursts: Urn::new(bursts),
            burst: Burst::default(),
            pauses: None,
            gap_ns: workload.gap_us.value as f64 * 1e3,
            gap_ns_max: workload.gap_us_max.value * 1000,
            idle_ns_max: scale.idle_ns_max,
            service_ns: workload.service_us.value * 1000,
            sector_ns: ((SECTOR * 1_000) << 10) / workload.service_mb_per_second.value,
            bytes,
            count: all,
            sectors_max: largest as u32,
            random,
        };
        generated.pauses = generated.plan_pauses(workload, scale.scale);
        Ok(generated)
    }

    /// Returns the number of all requests.
    pub fn requests(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of all requests.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the end of the part of the disk that is used, in sectors.
    pub fn end(&self) -> u64 {
        self.sectors
    }

    /// Returns the sectors of the largest request.
    pub(crate) fn sectors_max(&self) -> u32 {
        self.sectors_max
    }

    /// Returns the pauses that fill the duration.
    fn plan_pauses(&mut self, workload: &Workload, scale: f64) -> Option<Pauses> {
        let all_ns = workload.duration_s.as_ref()?.value as f64 * 1e9 * scale;
        let (least, most) = workload.pause_s.as_ref()?.value;
        let bursts = self.bursts.left() as f64;
        // The mean of an exponential distribution that ends at the maximum.
        let gap_ns = self.gap_ns * (1.0 - (-(self.gap_ns_max as f64) / self.gap_ns).exp());
        let transfers = (self.bytes / SECTOR) as f64 * self.sector_ns as f64 / 1024.0;
        let service_ns = self.count as f64 * self.service_ns as f64 + transfers;
        let arrivals_ns = (self.count as f64 - bursts) * APART_NS as f64;
        let needed_ns = all_ns - service_ns - arrivals_ns - bursts * gap_ns;
        let ratio = most as f64 / least as f64;
        let mean_ns = least as f64 * 1e9 * (ratio - 1.0) / ratio.ln();
        let count = ((needed_ns / mean_ns).round().max(1.0) as u64).min(self.bursts.left());
        let order = Scramble::new(count, &mut self.random);
        let mut pauses = Pauses { left: count, count, order, shortest_ns: 1.0, ratio };
        let sum: f64 = (0..count).map(|number| pauses.length_ns(number)).sum();
        pauses.shortest_ns = needed_ns / sum;
        (needed_ns > 0.0).then_some(pauses)
    }

    /// Starts the next burst. False: there is none.
    fn start_burst(&mut self) -> bool {
        let Some(length) = self.bursts.draw(&mut self.random) else { return false };
        let idle_ns = if self.burst.end_ns == 0 { 0 } else { self.idle_ns() };
        let begin_ns = self.burst.end_ns + idle_ns.min(self.idle_ns_max);
        // All requests of the burst arrive before the first is answered.
        let last_ns = begin_ns + u64::from(length - 1) * APART_NS;
        self.burst = Burst { left: length, next_ns: begin_ns, end_ns: last_ns };
        true
    }

    /// Returns the time before the next burst.
    fn idle_ns(&mut self) -> u64 {
        let part = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let gap_ns = ((-(1.0 - part).ln() * self.gap_ns) as u64).min(self.gap_ns_max);
        let left = self.bursts.left() + 1;
        let pause_ns = self.pauses.as_mut().map_or(0, |pauses| pauses.next(left, &mut self.random));
        gap_ns + pause_ns
    }

    /// Returns the first sector of a request.
    fn place(&mut self, drawn: Drawn) -> u64 {
        let Drawn { direction, sectors } = drawn;
        let left = self.left[direction].max(1);
        self.left[direction] -= 1;
        let is_sequential = self.random.below(left) < self.sequential[direction];
        if is_sequential && let Some(first) = self.continued(drawn) {
            self.sequential[direction] -= 1;
            return first;
        }
        let mut first = self.elsewhere(sectors);
        for _ in 0..TRIES {
            if !self.ends[direction].continues(first) {
                break;
            }
            first = self.elsewhere(sectors);
        }
        first
    }

    /// Returns the end of an earlier request that this one can continue.
    fn continued(&mut self, drawn: Drawn) -> Option<u64> {
        let ends = self.ends[drawn.direction].newest(self.streams);
        let sectors = u64::from(drawn.sectors);
        let unit = if sectors < ALIGNED { 1 } else { ALIGNED };
        let fits = |end: &u64| {
            *end != u64::MAX && end.is_multiple_of(unit) && end + sectors <= self.sectors
        };
        let start = self.random.below(ends.len() as u64) as usize;
        let turned = ends[start..].iter().chain(&ends[..start]);
        turned.copied().find(fits)
    }

    /// Returns an address by heat, or anywhere.
    fn elsewhere(&mut self, sectors: u32) -> u64 {
        let sectors = u64::from(sectors);
        let unit = if sectors < ALIGNED { 1 } else { ALIGNED };
        let is_hot = self.random.next_u64() >> 32 < self.hot;
        let first = if is_hot {
            let region = self.scramble.of(self.regions.draw(&mut self.random) - 1);
            region * REGION + self.random.below(REGION / unit) * unit
        } else {
            self.random.below(self.sectors / unit) * unit
        };
        first.min((self.sectors - sectors) / unit * unit)
    }
}

/// Requests below which the shares of the properties cannot be kept.
const REQUESTS_MIN: u64 = 100;
/// The smallest footprint, in bytes.
const FOOTPRINT_MIN: u64 = 64 << 20;

/// Returns the mean size of the reads, or of the writes.
fn mean_bytes(workload: &Workload, direction: usize) -> f64 {
    let (bytes, count) = (&workload.bytes[direction], &workload.requests[direction]);
    bytes.value as f64 / count.value.max(1) as f64
}

impl Pauses {
    /// Returns the length of the pause of this rank.
    fn length_ns(&self, rank: u64) -> f64 {
        self.shortest_ns * self.ratio.powf((rank as f64 + 0.5) / self.count as f64)
    }

    /// Returns the pause before the next of `bursts` bursts; mostly there is none.
    fn next(&mut self, bursts: u64, random: &mut Random) -> u64 {
        if self.left == 0 || random.below(bursts) >= self.left {
            return 0;
        }
        self.left -= 1;
        self.length_ns(self.order.of(self.left)) as u64
    }
}

impl Iterator for Requests {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.burst.left == 0 && !self.start_burst() {
            return None;
        }
        let drawn = self.drawn.draw(&mut self.random)?;
        let first = self.place(drawn);
        let end = first + u64::from(drawn.sectors);
        self.ends[drawn.direction].add(first, end);
        let time_ns = self.burst.next_ns;
        self.burst.left -= 1;
        self.burst.next_ns += APART_NS;
        self.burst.end_ns += self.service_ns + ((u64::from(drawn.sectors) * self.sector_ns) >> 10);
        let write = Operation::Write { fua: false };
        Some(Event {
            time_ns,
            took_ns: Some(self.burst.end_ns - time_ns),
            operation: if drawn.direction == 0 { Operation::Read } else { write },
            device: 0,
            first,
            sectors: drawn.sectors,
            failed: None,
        })
    }
}
