//! A snapshot as JSON: its buckets, and the derived values that most readers use.
//!
//! ```json
//! { "count": 3, "mean_ns": 90, "p50_ns": 71, ..., "max_ns": 130, "sum_ns": 270,
//!   "buckets": [[71, 2], [143, 1]] }
//! ```
//!
//! A bucket is written as its maximum latency and its count; empty buckets are left out. Derived
//! values are not read back: they follow from the buckets, the sum and the maximum.

use crate::{Snapshot, bucket_of, upper_of};
use alloc::format;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The fields as they are written, in this order.
#[derive(Serialize)]
struct Output {
    count: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    buckets: Vec<(u64, u64)>,
}

/// The fields that are read. An older daemon writes no buckets: its histogram is then read as
/// empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Input {
    max_ns: u64,
    sum_ns: u64,
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let output = Output {
            count: self.count(),
            mean_ns: self.mean(),
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p99_9_ns: self.quantile(0.999),
            max_ns: self.max(),
            sum_ns: self.sum(),
            buckets: self.buckets().collect(),
        };
        output.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Snapshot, D::Error> {
        let Input { max_ns, sum_ns, buckets } = Input::deserialize(deserializer)?;
        let mut snapshot = Snapshot { sum_ns, max_ns, ..Snapshot::default() };
        let mut all: u64 = 0;
        for (upper, count) in buckets {
            let bucket = bucket_of(upper);
            if upper_of(bucket) != upper {
                return Err(Error::custom(format!("buckets: none ends at {upper} ns")));
            }
            let sum = all.checked_add(count);
            all = sum.ok_or_else(|| Error::custom("buckets: more than can be counted"))?;
            snapshot.counts[bucket] += count;
        }
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Histogram, Snapshot};
    use alloc::format;
    use alloc::string::{String, ToString};
    use lane::Random;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let histogram = Histogram::new();
        let mut random = Random::new(3);
        for _ in 0..1000 {
            let bits = 1 + random.below(40);
            histogram.record(random.below(1 << bits));
        }
        for snapshot in [Snapshot::default(), histogram.snapshot()] {
            let text = serde_json::to_string(&snapshot).expect("plain data");
            let read: Snapshot = serde_json::from_str(&text).expect("what was written");
            assert_eq!(read, snapshot);
            let value: serde_json::Value = serde_json::from_str(&text).expect("an object");
            for (key, quantile) in
                [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)]
            {
                assert_eq!(value[key].as_u64(), Some(read.quantile(quantile)), "{key}");
            }
            assert_eq!(value["count"].as_u64(), Some(read.count()));
        }
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let wrong = |text: &str| -> String {
            let read: Result<Snapshot, serde_json::Error> = serde_json::from_str(text);
            read.expect_err(text).to_string()
        };
        assert!(wrong(r#"{"buckets":[[64,1]]}"#).contains("none ends at 64 ns"));
        let most = u64::MAX;
        let twice = format!(r#"{{"buckets":[[63,{most}],[63,1]]}}"#);
        assert!(wrong(&twice).contains("more than can be counted"));
        let older = r#"{"count":9,"p50_ns":70,"max_ns":80}"#;
        let older: Snapshot = serde_json::from_str(older).expect("an older daemon's");
        assert_eq!((older.count(), older.max()), (0, 80));
    }
}
