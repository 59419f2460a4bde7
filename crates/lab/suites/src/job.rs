//! User-defined loads, for the suite `custom`.

use block::{SECTOR, Size};
use load::{Arrival, Content, Limit, Load, Order};
use std::str::FromStr;

/// A user-defined load.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The name of its row. None: its description.
    pub name: Option<String>,
    /// The order of blocks.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests under way; with a rate, their maximum.
    pub depth: u32,
    /// The part of the requests that are reads, in percent.
    pub reads_percent: u32,
    /// Requests per second, each with a due time. None: each starts as soon as an earlier one is
    /// answered.
    pub rate: Option<u32>,
    /// Its duration in nanoseconds. None: that of the plan.
    pub time_ns: Option<u64>,
    /// The number of bytes at the start of the device that it uses. None: that of the plan.
    pub span_bytes: Option<u64>,
    /// The part of its data that cannot be compressed, in percent. None: as the target's data.
    pub data_percent: Option<u32>,
    /// The part of its data that are duplicates, in percent. None: as the target's data.
    pub dedupe_percent: Option<u32>,
    /// Whether a flush ends it, whose time is part of the load's. None: if it writes.
    pub flush: Option<bool>,
    /// Idle time of the device before it, in nanoseconds.
    pub idle_before_ns: u64,
}

/// The order of blocks as text: `random`, `sequential`, `zipf:1.1`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pattern(pub Order);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let word = text.to_ascii_lowercase();
        let exponent = word.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
        match (word.as_str(), exponent) {
            ("random", _) => Ok(Pattern(Order::Random)),
            ("sequential", _) => Ok(Pattern(Order::Sequential)),
            (_, Some(exponent)) if exponent > 0.0 && f64::is_finite(exponent) => {
                Ok(Pattern(Order::Zipf { exponent }))
            }
            _ => Err(format!("'{text}': write random, sequential, or zipf:1.1")),
        }
    }
}

impl Default for Job {
    fn default() -> Job {
        let pattern = Pattern(Order::Random);
        Job {
            name: None,
            pattern,
            block_bytes: 4096,
            depth: 1,
            reads_percent: 100,
            rate: None,
            time_ns: None,
            span_bytes: None,
            data_percent: None,
            dedupe_percent: None,
            flush: None,
            idle_before_ns: 0,
        }
    }
}

impl Job {
    /// Returns the name of its row.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.shape())
    }

    /// Describes it in words.
    pub fn shape(&self) -> String {
        let order = match self.pattern.0 {
            Order::Sequential => "sequential".to_owned(),
            Order::Zipf { exponent } => format!("zipf {exponent}"),
            Order::Random | Order::Mixed(_) => "random".to_owned(),
        };
        let (bytes, depth) = (Size(self.block_bytes.into()), self.depth);
        let reads = match self.reads_percent {
            0 => "writes".to_owned(),
            100 => "reads".to_owned(),
            percent => format!("{percent} % reads"),
        };
        let rate = self.rate.map_or(String::new(), |rate| format!(", {rate} a second"));
        format!("{order} {bytes} {reads}, QD{depth}{rate}")
    }

    /// Returns the load; `like` supplies everything that the job leaves open.
    pub(crate) fn load(&self, like: Load) -> Load {
        let arrival = match self.rate {
            None => Arrival::Closed { depth: self.depth },
            Some(rate) => Arrival::Open {
                interval_ns: 1_000_000_000 / u64::from(rate.max(1)),
                depth_max: self.depth,
            },
        };
        let flush = self.flush.unwrap_or(self.reads_percent < 100);
        let limit = self.time_ns.map_or(like.limit, Limit::time);
        let sectors = self.span_bytes.map_or(like.sectors, |bytes| bytes / SECTOR);
        Load { reads_percent: self.reads_percent, arrival, flush, limit, sectors, ..like }
    }

    /// Returns the properties of its data on a target with this data.
    pub fn content(&self, usual: Content) -> Content {
        Content {
            data_percent: self.data_percent.unwrap_or(usual.data_percent),
            dedupe_percent: self.dedupe_percent.unwrap_or(usual.dedupe_percent),
            ..usual
        }
    }

    /// Whether it defines properties of its data.
    pub fn has_own_data(&self) -> bool {
        self.data_percent.is_some() || self.dedupe_percent.is_some()
    }

    /// Describes it in one sentence, with the values that `load` has from the plan.
    pub(crate) fn text(&self, load: &Load) -> String {
        let (name, shape) = (self.name(), self.shape());
        let head = if name == shape { shape } else { format!("{name}: {shape}") };
        let mut text = format!(
            "{head} over {} for {} s",
            Size(load.sectors * SECTOR),
            load.limit.time_ns as f64 / 1e9
        );
        if self.idle_before_ns > 0 {
            text += &format!(", after {} s of idle time", self.idle_before_ns as f64 / 1e9);
        }
        if let Some(percent) = self.data_percent {
            text += &format!(", with data of which {percent} % cannot be compressed");
        }
        if let Some(percent) = self.dedupe_percent {
            text += &format!(", with {percent} % of duplicates");
        }
        if self.reads_percent < 100 && !load.flush {
            text += ", without a final flush";
        }
        text + "."
    }
}
