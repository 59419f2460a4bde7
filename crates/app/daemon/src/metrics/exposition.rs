//! The text of a scrape, in the format OpenMetrics 1.0.
//!
//! Source: the OpenMetrics specification, prometheus.io/docs/specs/om/open_metrics_spec.

use super::names::{self, Exported, PREFIX, Scale};
use super::{ProcessSample, UnservedVolume, VolumeSample};
use crate::control::statistics::Link;
use crate::control::words::State;
use cache::{Counters, Histograms};
use histogram::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Error;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of a histogram's buckets: powers of two from this one, in nanoseconds.
const BOUND_FIRST_BITS: u32 = 8;
/// The last of these powers: 17 s.
const BOUND_LAST_BITS: u32 = 34;
/// Each bound is four times the one before it.
const BOUND_STEP_BITS: usize = 2;

/// States of a volume that this daemon serves, each a sample of the state set.
const SERVED_STATES: [State; 8] = [
    State::Serving,
    State::Paused,
    State::Frozen,
    State::Failed,
    State::Lost,
    State::LinkDown,
    State::Stalled,
    State::Ending,
];

/// The values of a served volume at one moment.
#[derive(Debug)]
struct Observed {
    sample: VolumeSample,
    counters: Counters,
    latencies: Histograms,
}

impl Observed {
    /// Reads the counters. Takes no lock that a request waits for.
    fn of(sample: VolumeSample) -> Observed {
        let (counters, latencies) = match &sample.cache {
            Some(shared) => (shared.observe(sample.now_ns), shared.histograms()),
            None => (sample.errors.to_counters(), Histograms::default()),
        };
        Observed { sample, counters, latencies }
    }

    fn has_cache(&self) -> bool {
        self.sample.cache.is_some()
    }
}

/// All values of a scrape.
#[derive(Debug)]
struct Scrape {
    process: ProcessSample,
    volumes: Vec<Observed>,
    unserved: Vec<UnservedVolume>,
}

/// Returns the text of a scrape.
pub(crate) fn text(
    process: ProcessSample,
    volumes: Vec<VolumeSample>,
    unserved: Vec<UnservedVolume>,
) -> String {
    let volumes = volumes.into_iter().map(Observed::of).collect();
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Scrape { process, volumes, unserved }));
    let mut text = String::with_capacity(1 << 16);
    text::encode(&mut text, &registry).expect("a string takes any text");
    text
}

fn count(encoder: MetricEncoder<'_>, value: f64) -> Result<(), Error> {
    // Whole numbers are written without a fraction.
    match value.fract() == 0.0 && value < 9e15 {
        true => ConstCounter::new(value as u64).encode(encoder),
        false => ConstCounter::new(value).encode(encoder),
    }
}

fn gauge(encoder: MetricEncoder<'_>, value: f64) -> Result<(), Error> {
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => ConstGauge::new(value as i64).encode(encoder),
        false => ConstGauge::new(value).encode(encoder),
    }
}

/// Returns the counts of a histogram in these buckets; the last one has no bound.
fn buckets(snapshot: &Snapshot) -> Vec<(f64, u64)> {
    let bits = (BOUND_FIRST_BITS..=BOUND_LAST_BITS).step_by(BOUND_STEP_BITS);
    // The largest latency below each power: recorded latencies are whole nanoseconds.
    let bounds: Vec<u64> = bits.map(|bits| (1u64 << bits) - 1).chain([u64::MAX]).collect();
    let mut counts = vec![0; bounds.len()];
    for (upper_ns, count) in snapshot.buckets() {
        counts[bounds.partition_point(|bound| *bound < upper_ns)] += count;
    }
    let seconds = |ns: u64| if ns == u64::MAX { f64::INFINITY } else { ns as f64 / 1e9 };
    bounds.into_iter().map(seconds).zip(counts).collect()
}

impl Scrape {
    /// Writes one counter or gauge of all volumes.
    fn encode_row(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        row: &Exported,
        index: usize,
        values: &[Vec<u64>],
    ) -> Result<(), Error> {
        let kind = if row.is_gauge { MetricType::Gauge } else { MetricType::Counter };
        let mut family = encoder.encode_descriptor(&row.name, row.help, row.unit.as_ref(), kind)?;
        // Without a cache, only errors are counted.
        let is_counted = |one: &Observed| one.has_cache() || row.field.starts_with("errors_");
        for (volume, values) in self.volumes.iter().zip(values).filter(|(one, _)| is_counted(one)) {
            let (name, value) = (volume.sample.name.as_str(), values[index]);
            if row.scale == Scale::Flags {
                for (bit, requests) in [(1, "reads"), (2, "writes")] {
                    let labels = [("volume", name), ("requests", requests)];
                    gauge(family.encode_family(&labels)?, f64::from(value & bit > 0))?;
                }
                continue;
            }
            let labels = [("volume", name)];
            let one = family.encode_family(&labels)?;
            let encode = if row.is_gauge { gauge } else { count };
            encode(one, row.scale.of(value))?;
        }
        Ok(())
    }

    fn encode_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let values = |volume: &Observed| {
            let mut values = Vec::new();
            volume.counters.each(|_, value| values.push(value));
            values
        };
        let values: Vec<Vec<u64>> = self.volumes.iter().map(values).collect();
        let rows = names::counters();
        let mut all = rows.iter().enumerate();
        all.try_for_each(|(index, row)| self.encode_row(encoder, row, index, &values))
    }

    fn encode_histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        for row in names::histograms() {
            let mut family = encoder.encode_descriptor(
                &row.name,
                row.help,
                row.unit.as_ref(),
                MetricType::Histogram,
            )?;
            for volume in self.volumes.iter().filter(|volume| volume.has_cache()) {
                let mut found = Snapshot::default();
                volume.latencies.each(|field, snapshot| {
                    if field == row.field {
                        found = snapshot.clone();
                    }
                });
                let (buckets, sum_s) = (buckets(&found), row.scale.of(found.sum()));
                let count = found.count();
                let labels = [("volume", volume.sample.name.as_str())];
                let mut one = family.encode_family(&labels)?;
                one.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)?;
            }
        }
        Ok(())
    }

    /// Writes the state of each volume: 1 for the present state, and 0 for the others.
    fn encode_states(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "State of a volume: 1 for the present one.";
        let mut family = encoder.encode_descriptor("state", help, None, MetricType::Gauge)?;
        for Observed { sample, .. } in &self.volumes {
            for state in SERVED_STATES {
                let labels = [("volume", sample.name.as_str()), ("state", state.word())];
                gauge(family.encode_family(&labels)?, f64::from(sample.state == state))?;
            }
        }
        for UnservedVolume { name, state } in &self.unserved {
            let labels = [("volume", name.as_str()), ("state", state.word())];
            gauge(family.encode_family(&labels)?, 1.0)?;
        }
        Ok(())
    }

    fn encode_volumes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&VolumeSample) -> u64;
        let rows: [(&str, &str, Option<Unit>, Value); 3] = [
            ("size", "Size of a volume.", Some(Unit::Bytes), |one| one.size_bytes),
            ("memory", "Memory for blocks; 0: no cache.", Some(Unit::Bytes), |one| {
                one.memory_bytes
            }),
            ("clients", "Connected clients.", None, |one| one.clients),
        ];
        for (name, help, unit, value) in rows {
            let kind = MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for Observed { sample, .. } in &self.volumes {
                let labels = [("volume", sample.name.as_str())];
                gauge(family.encode_family(&labels)?, value(sample) as f64)?;
            }
        }
        Ok(())
    }

    /// Writes the state of the links to the servers of backings.
    fn encode_links(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&Link) -> f64;
        let (gauges, counters) = (MetricType::Gauge, MetricType::Counter);
        let rows: [(&str, &str, Option<Unit>, MetricType, Value); 3] = [
            ("link_up", "Whether the link to the backing's server is up.", None, gauges, |link| {
                f64::from(link.down_since_ns == 0)
            }),
            ("link_downs", "Times that the link has been down.", None, counters, |link| {
                link.downs as f64
            }),
            (
                "link_down",
                "Time that the link has been down.",
                Some(Unit::Seconds),
                counters,
                |link| link.down_ns as f64 / 1e9,
            ),
        ];
        for (name, help, unit, kind, value) in rows {
            let encode = if matches!(kind, MetricType::Gauge) { gauge } else { count };
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for Observed { sample, .. } in &self.volumes {
                let Some(link) = &sample.link else { continue };
                let labels = [("volume", sample.name.as_str())];
                encode(family.encode_family(&labels)?, value(link))?;
            }
        }
        Ok(())
    }

    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let help = "Version of the daemon.";
        let mut build = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        gauge(build.encode_family(&version)?, 1.0)?;
        let process = &self.process;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let rows = [
            ("poll", "Time that all lanes have spent polling.", seconds(process.poll_spent_ns)),
            (
                "poll_vain",
                "Part of the polling time after which a lane found no work.",
                seconds(process.poll_vain_ns),
            ),
        ];
        for (name, help, value) in rows {
            let (unit, kind) = (Unit::Seconds, MetricType::Counter);
            count(encoder.encode_descriptor(name, help, Some(&unit), kind)?, value)?;
        }
        let rows = [
            (
                "page_faults_major",
                "Page faults of the daemon served from a file or from swap.",
                process.page_faults_major,
            ),
            ("tls_refused", "Clients that were refused because of TLS.", process.tls_refused),
        ];
        rows.into_iter().try_for_each(|(name, help, value)| {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            count(family, value as f64)
        })
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.encode_process(&mut encoder)?;
        self.encode_states(&mut encoder)?;
        self.encode_volumes(&mut encoder)?;
        self.encode_links(&mut encoder)?;
        self.encode_counters(&mut encoder)?;
        self.encode_histograms(&mut encoder)
    }
}

/// Names of the metrics that are not rows of the cache's tables, for docs/METRICS.md.
#[cfg(test)]
pub(crate) const OTHERS: [&str; 12] = [
    "overdrive_build_info",
    "overdrive_poll_seconds_total",
    "overdrive_poll_vain_seconds_total",
    "overdrive_page_faults_major_total",
    "overdrive_tls_refused_total",
    "overdrive_state",
    "overdrive_size_bytes",
    "overdrive_memory_bytes",
    "overdrive_clients",
    "overdrive_link_up",
    "overdrive_link_downs_total",
    "overdrive_link_down_seconds_total",
];

#[cfg(test)]
mod tests {
    use super::*;
    use histogram::Histogram;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    fn read(path: &str) -> String {
        let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
        fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns the names of all metrics, in the order of the page, with their types.
    fn exported() -> Vec<(String, &'static str)> {
        let kind = |row: &Exported| if row.is_gauge { "gauge" } else { "counter" };
        let counters = names::counters().into_iter();
        let counters = counters.map(|row| (row.full_name(false), kind(&row)));
        let histograms = names::histograms().into_iter();
        let histograms = histograms.map(|row| (row.full_name(true), "histogram"));
        let kind = |name: &str| if name.ends_with("_total") { "counter" } else { "gauge" };
        let others = OTHERS.map(|name| (name.to_owned(), kind(name)));
        counters.chain(histograms).chain(others).collect()
    }

    /// Returns the words of a text that look like names of metrics.
    fn names_in(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with("overdrive_") && word.len() > 10).collect()
    }

    #[test]
    fn the_page_of_metrics_has_every_name() {
        let page = read("docs/METRICS.md");
        let rows = page.lines().filter(|line| line.starts_with("| `overdrive_"));
        let cells = |row: &str| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].trim_matches('`').to_owned(), cells[2].to_owned())
        };
        let found: Vec<(String, String)> = rows.map(cells).collect();
        let owned = |(name, kind): (String, &str)| (name, kind.to_owned());
        let expected: Vec<(String, String)> = exported().into_iter().map(owned).collect();
        assert_eq!(found, expected, "docs/METRICS.md, the table of OpenMetrics");
    }

    #[test]
    fn dashboard_and_alerts_use_only_names_that_are_exported() {
        let mut known = BTreeSet::new();
        for (name, kind) in exported() {
            if kind == "histogram" {
                let suffixes = ["bucket", "sum", "count"];
                known.extend(suffixes.map(|suffix| format!("{name}_{suffix}")));
            } else {
                known.insert(name);
            }
        }
        for path in ["packaging/grafana/overdrive.json", "packaging/prometheus/overdrive.rules.yml"]
        {
            let text = read(path);
            let used = names_in(&text);
            let unknown: Vec<_> = used.iter().filter(|name| !known.contains(**name)).collect();
            assert_eq!((unknown, used.len() > 5), (Vec::<&&str>::new(), true), "{path}");
        }
    }

    #[test]
    fn a_text_without_volumes_is_complete_and_names_are_escaped() {
        let unserved = vec![UnservedVolume { name: "a\"\\\n".into(), state: State::Orphaned }];
        let text = text(ProcessSample::default(), Vec::new(), unserved);
        let line = r#"overdrive_state{volume="a\"\\\n",state="orphaned"} 1"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        assert!(text.contains("# TYPE overdrive_hit_bytes counter\n"), "{text}");
        assert!(text.contains("# UNIT overdrive_dirty_age_seconds seconds\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn buckets_are_cumulative_in_the_text_and_bounded() {
        let histogram = Histogram::new();
        [100, 256, 1_000, 1_000_000, 1 << 40].iter().for_each(|&ns| histogram.record(ns));
        let buckets = buckets(&histogram.snapshot());
        assert_eq!(buckets.len(), 15);
        assert_eq!((buckets[0], buckets[1]), ((255e-9, 1), (1023e-9, 2)));
        assert_eq!(buckets[14], (f64::INFINITY, 1));
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 5);
    }
}
