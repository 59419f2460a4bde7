//! The name, unit and scale with which each row of the cache's tables is exported.
//!
//! ```text
//!   slowed_ns        nanoseconds  ->  overdrive_slowed_seconds_total
//!   blocks_hit       blocks       ->  overdrive_hit_bytes_total
//!   asked_zero_bytes bytes        ->  overdrive_asked_zero_bytes_total
//!   flushes          requests     ->  overdrive_flushes_total
//!   hit_ns           (histogram)  ->  overdrive_hit_latency_seconds
//! ```
//!
//! The names follow from the tables in `crates/core/cache/src/stats` by rules, so a new row is
//! exported without further code. docs/METRICS.md lists them; a test compares.

use cache::{Counters, Histograms};
use prometheus_client::registry::Unit;

/// Prefix of all names.
pub(crate) const PREFIX: &str = "overdrive";
/// Bytes of a block, in which the tables count.
const BLOCK_BYTES: u64 = 4096;

/// How a value of the table becomes one in the base unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// As it is.
    One,
    /// Nanoseconds to seconds.
    Seconds,
    /// Blocks to bytes.
    Blocks,
    /// Bits for reads (1) and writes (2), each a sample of its own.
    Flags,
}

impl Scale {
    /// Returns the value in the base unit.
    pub(crate) fn of(self, value: u64) -> f64 {
        match self {
            Scale::Seconds => value as f64 / 1e9,
            Scale::Blocks => value.saturating_mul(BLOCK_BYTES) as f64,
            Scale::One | Scale::Flags => value as f64,
        }
    }
}

/// How a row of the tables is exported.
#[derive(Clone, Debug)]
pub(crate) struct Exported {
    /// The row's name.
    pub(crate) field: &'static str,
    /// Its name, without prefix, unit and suffix.
    pub(crate) name: String,
    pub(crate) unit: Option<Unit>,
    pub(crate) scale: Scale,
    pub(crate) is_gauge: bool,
    /// The meaning, as in docs/METRICS.md.
    pub(crate) help: &'static str,
}

impl Exported {
    /// Returns the name as Prometheus shows it; of a histogram without `_bucket`, `_sum`, `_count`.
    #[cfg(test)]
    pub(crate) fn full_name(&self, is_histogram: bool) -> String {
        let unit = self.unit.as_ref().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        let suffix = if self.is_gauge || is_histogram { "" } else { "_total" };
        format!("{PREFIX}_{}{unit}{suffix}", self.name)
    }
}

/// Returns a name of the table without the word for its unit.
fn without(name: &str, unit: &str) -> String {
    let words: Vec<&str> = name.split('_').filter(|word| *word != unit).collect();
    words.join("_")
}

/// Returns the exported names of all counters and gauges, in the order of the table.
pub(crate) fn counters() -> Vec<Exported> {
    let exported = |(field, unit, is_gauge, help): (&'static str, &str, bool, &'static str)| {
        let (name, unit, scale) = match unit {
            "nanoseconds" => (without(field, "ns"), Some(Unit::Seconds), Scale::Seconds),
            "bytes" => (without(field, "bytes"), Some(Unit::Bytes), Scale::One),
            // Accesses and misses of single blocks are events, not amounts.
            "blocks" if field.starts_with("block_") => (field.to_owned(), None, Scale::One),
            "blocks" => (without(field, "blocks"), Some(Unit::Bytes), Scale::Blocks),
            "blocks/s" => {
                let name = field.replace("_blocks_per_second", "");
                (name, Some(Unit::Other("bytes_per_second".to_owned())), Scale::Blocks)
            }
            "flags" => (field.to_owned(), None, Scale::Flags),
            _ => (field.to_owned(), None, Scale::One),
        };
        Exported { field, name, unit, scale, is_gauge, help }
    };
    Counters::explained().map(exported).collect()
}

/// Returns the exported names of all histograms, in the order of the table.
pub(crate) fn histograms() -> Vec<Exported> {
    let exported = |(field, _, help): (&'static str, &str, &'static str)| {
        let name = format!("{}_latency", without(field, "ns"));
        let (unit, scale) = (Some(Unit::Seconds), Scale::Seconds);
        Exported { field, name, unit, scale, is_gauge: false, help }
    };
    Histograms::explained().map(exported).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(field: &str) -> String {
        let all = counters();
        all.iter().find(|row| row.field == field).expect(field).full_name(false)
    }

    #[test]
    fn names_have_base_units_and_the_suffix_of_their_kind() {
        for (field, name) in [
            ("read_hits", "overdrive_read_hits_total"),
            ("blocks_hit", "overdrive_hit_bytes_total"),
            ("block_misses", "overdrive_block_misses_total"),
            ("slowed_ns", "overdrive_slowed_seconds_total"),
            ("asked_write_bytes", "overdrive_asked_write_bytes_total"),
            ("blocks_dirty", "overdrive_dirty_bytes"),
            ("dirty_blocks_max", "overdrive_dirty_max_bytes"),
            ("dirty_age_ns", "overdrive_dirty_age_seconds"),
            ("drain_blocks_per_second", "overdrive_drain_bytes_per_second"),
        ] {
            assert_eq!(named(field), name);
        }
        assert_eq!(histograms()[0].full_name(true), "overdrive_hit_latency_seconds");
    }

    #[test]
    fn names_are_valid_and_each_is_there_once() {
        let counters = counters().into_iter().map(|row| (row.full_name(false), row));
        let histograms = histograms().into_iter().map(|row| (row.full_name(true), row));
        let mut names = Vec::new();
        for (full, row) in counters.chain(histograms) {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
            assert!(full.chars().all(is_plain) && !full.contains("__"), "{full}");
            assert!(!row.name.ends_with("_total") && !row.name.ends_with("_ns"), "{full}");
            names.push(full);
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two rows have the same name");
    }
}
