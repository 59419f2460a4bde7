//! A load of one's own, for the suite `custom`.

use load::{Arrival, Load, Order};
use std::str::FromStr;

/// A load of one's own.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
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
}

/// Which block comes next, as people write it: `random`, `sequential`, `zipf:1.1`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pattern(pub Order);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
        match (text, exponent) {
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
        Job { pattern, block_bytes: 4096, depth: 1, reads_percent: 100, rate: None }
    }
}

impl Job {
    /// In words: what a row is called.
    pub fn name(&self) -> String {
        let order = match self.pattern.0 {
            Order::Sequential => "sequential".to_owned(),
            Order::Zipf { exponent } => format!("zipf {exponent}"),
            Order::Random | Order::Mixed(_) => "random".to_owned(),
        };
        let (bytes, depth) = (block::Size(self.block_bytes.into()), self.depth);
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
        let flush = self.reads_percent < 100;
        Load { reads_percent: self.reads_percent, arrival, flush, ..like }
    }
}
