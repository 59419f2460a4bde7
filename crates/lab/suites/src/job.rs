//! Loads of one's own, for the suite `custom`.

use block::{SECTOR, Size};
use load::{Arrival, Content, Limit, Load, Order};
use std::str::FromStr;

/// A load of one's own.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// What its row is called; None: as it is in words.
    pub name: Option<String>,
    /// Which block comes next.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests under way; with a rate, at most.
    pub depth: u32,
    /// Reads of a hundred requests.
    pub reads_percent: u32,
    /// Requests a second, each at its own time; None: each as soon as one before it is answered.
    pub rate: Option<u32>,
    /// How long it runs, in nanoseconds; None: as long as the plan says.
    pub time_ns: Option<u64>,
    /// The first bytes of the device, which it works on; None: those of the plan.
    pub span_bytes: Option<u64>,
    /// Of what it writes so many percent cannot be compressed; None: as the target's data are.
    pub data_percent: Option<u32>,
    /// Of what it writes so many percent are duplicates; None: as the target's data are.
    pub dedupe_percent: Option<u32>,
    /// Whether a flush ends it, whose time is part of its own; None: if it writes.
    pub flush: Option<bool>,
    /// The device is left alone for so long before it, in nanoseconds.
    pub idle_before_ns: u64,
}

/// Which block comes next, as people write it: `random`, `sequential`, `zipf:1.1`.
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
    /// What a row is called.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.shape())
    }

    /// What it is, in words.
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

    /// The load, like another one in all that the job does not say.
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

    /// What it writes on a target with such data.
    pub fn content(&self, usual: Content) -> Content {
        Content {
            data_percent: self.data_percent.unwrap_or(usual.data_percent),
            dedupe_percent: self.dedupe_percent.unwrap_or(usual.dedupe_percent),
            ..usual
        }
    }

    /// Whether it says what its data are like.
    pub fn has_own_data(&self) -> bool {
        self.data_percent.is_some() || self.dedupe_percent.is_some()
    }

    /// All of it in one sentence, with what this load has of the plan.
    pub(crate) fn told(&self, load: &Load) -> String {
        let (name, shape) = (self.name(), self.shape());
        let head = if name == shape { shape } else { format!("{name}: {shape}") };
        let mut told = format!(
            "{head} over {} for {} s",
            Size(load.sectors * SECTOR),
            load.limit.time_ns as f64 / 1e9
        );
        if self.idle_before_ns > 0 {
            told += &format!(", after {} s of idle time", self.idle_before_ns as f64 / 1e9);
        }
        if let Some(percent) = self.data_percent {
            told += &format!(", with data of which {percent} % cannot be compressed");
        }
        if let Some(percent) = self.dedupe_percent {
            told += &format!(", with {percent} % of duplicates");
        }
        if self.reads_percent < 100 && !load.flush {
            told += ", without a final flush";
        }
        told + "."
    }
}
