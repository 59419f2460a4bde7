//! A load as plain data, and its check.

use block::{Extent, Limits, SECTOR};
use std::fmt;

/// The order of blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// One after the other, from the start of the span to its end, and again.
    Sequential,
    /// At random, all equally often.
    Random,
    /// At random; shares fall as `1 / rank^exponent`, and the ranks of the blocks are drawn at
    /// random.
    Zipf {
        /// Larger than zero; 1.1 is usual.
        exponent: f64,
    },
    /// Requests of several sizes, some at random and some sequential. Sizes and addresses are
    /// multiples of the load's `block_sectors`; a random request is aligned to its own size.
    Mixed(&'static Mix),
}

/// Shares of sizes and orders, as in access specifications.
#[derive(PartialEq, Eq, Debug)]
pub struct Mix {
    /// The part of the requests at random addresses, in percent; the others start where the
    /// previous one ended.
    pub random_percent: u32,
    /// Bytes of a request, and their share in percent.
    pub sizes: &'static [(u32, u32)],
}

impl Mix {
    /// Returns the sectors of a size, rounded up to whole units.
    pub(crate) fn sectors(bytes: u32, unit: u32) -> u32 {
        bytes.div_ceil(SECTOR as u32).next_multiple_of(unit.max(1))
    }

    /// Returns the largest size in sectors.
    fn sectors_max(&self, unit: u32) -> u32 {
        self.sizes.iter().map(|(bytes, _)| Mix::sectors(*bytes, unit)).max().unwrap_or(0)
    }
}

/// When the next request starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// As soon as an earlier one is answered.
    Closed {
        /// Requests under way.
        depth: u32,
    },
    /// At the times of an absolute clock, independent of earlier answers.
    Open {
        /// Nanoseconds between two requests.
        interval_ns: u64,
        /// Maximum number of requests under way; a request that is due beyond that starts late, and
        /// is counted.
        depth_max: u32,
    },
}

/// The end of a load: whichever limit is reached first. Requests under way then are still waited
/// for and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Nanoseconds in which requests start.
    pub time_ns: u64,
    /// Requests started.
    pub requests: u64,
}

impl Limit {
    /// Returns a limit of time.
    pub const fn time(time_ns: u64) -> Limit {
        Limit { time_ns, requests: u64::MAX }
    }

    /// Returns a limit of requests.
    pub const fn requests(requests: u64) -> Limit {
        Limit { time_ns: u64::MAX, requests }
    }
}

/// How a source is run, and what is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// Maximum number of requests under way; a request that is due beyond that starts late, and is
    /// counted.
    pub depth_max: u32,
    /// The limit, unless the source ends before.
    pub limit: Limit,
    /// Whether a flush ends the load; its time is part of the load's.
    pub flush: bool,
    /// Length of the intervals in which answers are counted, in nanoseconds.
    pub interval_ns: u64,
    /// The time is recorded each time that this number of bytes has been transferred; 0: never.
    pub mark_bytes: u64,
}

impl RunOptions {
    /// Returns terms with a fixed number of requests under way, until the source ends; no final
    /// flush.
    pub const fn depth(depth_max: u32) -> RunOptions {
        let limit = Limit { time_ns: u64::MAX, requests: u64::MAX };
        RunOptions { depth_max, limit, flush: false, interval_ns: 1_000_000_000, mark_bytes: 0 }
    }

    /// Checks that a lane can keep this number of requests under way.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let is_good = (1..=DEPTH_MAX).contains(&self.depth_max);
        if is_good { Ok(()) } else { Err(LoadError::Arrival) }
    }
}

/// A load that follows from a seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// The first sector of its span.
    pub first: u64,
    /// The span's length in sectors; a rest smaller than a block is not used.
    pub sectors: u64,
    /// Sectors of a request.
    pub block_sectors: u32,
    /// The order of blocks.
    pub order: Order,
    /// The part of the requests that are reads, in percent, drawn at random; the others are writes.
    pub reads_percent: u32,
    /// When requests start.
    pub arrival: Arrival,
    /// The end of the load.
    pub limit: Limit,
    /// Whether a flush ends the load; its time is part of the load's.
    pub flush: bool,
    /// Length of the intervals in which answers are counted, in nanoseconds.
    pub interval_ns: u64,
    /// The time is recorded each time that this number of bytes has been transferred; 0: never.
    pub mark_bytes: u64,
    /// The seed of all choices.
    pub seed: u64,
}

impl Load {
    /// Returns a load of requests of `block_bytes` bytes in this order, over the first `span_bytes`
    /// of a device.
    pub fn new(order: Order, block_bytes: u32, span_bytes: u64) -> Load {
        Load {
            first: 0,
            sectors: span_bytes / SECTOR,
            block_sectors: block_bytes / SECTOR as u32,
            order,
            reads_percent: 0,
            arrival: Arrival::Closed { depth: 1 },
            limit: Limit::time(1_000_000_000),
            flush: false,
            interval_ns: 1_000_000_000,
            mark_bytes: 0,
            seed: 0,
        }
    }

    /// Returns the same load with this queue depth.
    pub fn depth(self, depth: u32) -> Load {
        Load { arrival: Arrival::Closed { depth }, ..self }
    }

    /// Returns the number of blocks in the span.
    pub fn blocks(&self) -> u64 {
        self.sectors / u64::from(self.block_sectors.max(1))
    }

    /// Returns the bytes of a request.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.block_sectors) * SECTOR
    }

    /// Returns the maximum number of requests under way.
    pub fn depth_max(&self) -> u32 {
        match self.arrival {
            Arrival::Closed { depth } => depth,
            Arrival::Open { depth_max, .. } => depth_max,
        }
    }

    /// Returns the terms on which it is run.
    pub(crate) fn run_options(&self) -> RunOptions {
        RunOptions {
            depth_max: self.depth_max(),
            limit: self.limit,
            flush: self.flush,
            interval_ns: self.interval_ns,
            mark_bytes: self.mark_bytes,
        }
    }

    /// Returns the extent of block `number`.
    pub(crate) fn at(&self, number: u64) -> Extent {
        Extent::new(self.first + number * u64::from(self.block_sectors), self.block_sectors)
    }

    /// Returns the sectors of its largest request.
    fn sectors_max(&self) -> u32 {
        match self.order {
            Order::Mixed(mix) => mix.sectors_max(self.block_sectors),
            _ => self.block_sectors,
        }
    }

    /// Checks that a device with these limits supports the load.
    ///
    /// # Errors
    /// The part of the load that is not supported.
    pub fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        let unit = u64::from(limits.block_logical_bytes);
        let aligned = |sectors: u64| (sectors * SECTOR).is_multiple_of(unit);
        let largest = u64::from(self.sectors_max());
        if largest == 0
            || !aligned(u64::from(self.block_sectors.max(1)))
            || largest * SECTOR > u64::from(limits.io_max_bytes)
        {
            return Err(LoadError::Block { unit: limits.block_logical_bytes });
        }
        let ends = self.first.checked_add(self.sectors).is_some_and(|end| end <= limits.sectors);
        if self.sectors < largest || !ends || !aligned(self.first) {
            return Err(LoadError::Span { sectors: limits.sectors });
        }
        let writes = self.reads_percent < 100;
        if writes && limits.read_only {
            return Err(LoadError::ReadOnly);
        }
        let interval = match self.arrival {
            Arrival::Closed { .. } => true,
            Arrival::Open { interval_ns, .. } => interval_ns > 0,
        };
        let exponent = match self.order {
            Order::Zipf { exponent } => exponent > 0.0 && exponent.is_finite(),
            _ => true,
        };
        if !interval || !exponent {
            return Err(LoadError::Arrival);
        }
        self.run_options().check()
    }
}

/// Maximum number of requests under way: a lane has 4,096 tasks, and the layers need some of their
/// own.
const DEPTH_MAX: u32 = 2048;

/// Reason why a device does not support a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// A request is empty, too large, or not a multiple of the device's block.
    Block {
        /// The device's block in bytes.
        unit: u32,
    },
    /// The span is empty, or reaches beyond the device.
    Span {
        /// The device's size in sectors.
        sectors: u64,
    },
    /// It writes to a read-only device.
    ReadOnly,
    /// Depth, interval or exponent is out of its range.
    Arrival,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Block { unit } => {
                write!(f, "requests must be multiples of {unit} bytes, and not too large")
            }
            LoadError::Span { sectors } => {
                let bytes = u128::from(*sectors) * u128::from(SECTOR);
                write!(f, "the span must hold a request and lie in the device's {bytes} bytes")
            }
            LoadError::ReadOnly => write!(f, "the device refuses writes"),
            LoadError::Arrival => {
                write!(f, "the depth must be 1 to {DEPTH_MAX}, interval and exponent above 0")
            }
        }
    }
}

impl std::error::Error for LoadError {}
