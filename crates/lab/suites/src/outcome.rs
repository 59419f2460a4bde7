//! A suite's results: rows and time series, as plain data.

use crate::access::Access;
use crate::plan::Plan;
use crate::test_rig::TestRig;
use load::{End, Interval, Latency, Record};

/// A figure and its circumstances.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name of the test.
    pub test: String,
    /// The unit of the value; MB are 10^6 bytes, MiB 2^20.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
    /// Latencies of the requests, from when they were due.
    pub latency: Option<Latency>,
    /// With a cache, for reads: whether no block of them was cached.
    pub cold: Option<bool>,
    /// With a cache: the figure that its own work would allow with an infinitely fast drive, in the
    /// unit of the value.
    pub ceiling: Option<f64>,
    /// In real time: the share of the last load's time in which it was ready to run while the
    /// machine ran something else.
    pub kept_waiting: f64,
    /// The share of one processor that the load and the cache used: in virtual time the cache's own
    /// work alone. None: not measured.
    pub processor: Option<f64>,
    /// The part of the measured time that the final flush took, in nanoseconds.
    pub flush_ns: Option<u64>,
    /// The runs or rounds behind the value, in its unit. Empty if the value comes from one run.
    pub samples: Vec<f64>,
    /// The whole seconds of that one run, or of the last one.
    pub seconds: Vec<Second>,
    /// For a load whose requests have due times: the lateness of their starts.
    pub punctual: Option<Punctual>,
    /// How it is shorter than the suite's own test. None: it is not.
    pub shortened: Option<String>,
    /// The preparation of the drive, as a [`Preparation`](crate::Preparation) is printed. The loads
    /// of earlier rows are part of its history, too.
    pub prepared: String,
    /// It was interrupted, or the device failed: the value covers the part that ran.
    pub partial: bool,
    /// Kind of the requests that were measured. None: the value follows from other rows.
    pub access: Option<Access>,
    /// Why the modelled drive may be wrong here. None: published figures support it, or the drive
    /// is real.
    pub doubt: Option<String>,
}

/// A whole second of a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Second {
    /// The row's figure for this second alone, in the row's unit.
    pub value: f64,
    /// Latencies of its requests, from when they were due.
    pub latency: Interval,
}

/// Lateness of requests with due times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Punctual {
    /// The 99th percentile of the lateness of starts for which a worker was free, in nanoseconds.
    pub p99_ns: u64,
    /// The share of starts that had to wait because too many requests were under way.
    pub waited: f64,
    /// Limit of `p99_ns` for a valid result: 1 % of the mean service time, or 50 us if that is
    /// more.
    pub p99_ns_max: u64,
}

/// Lateness that is always accepted.
const LATENESS_NS: u64 = 50_000;

impl Punctual {
    /// Returns the lateness of a load. None: its requests had no due times.
    pub fn of(record: &Record) -> Option<Punctual> {
        let timed = record.served.count();
        (timed > 0).then(|| Punctual {
            p99_ns: record.lateness.quantile_ns(0.99),
            waited: record.late_starts as f64 / timed as f64,
            p99_ns_max: ((record.served.mean_ns() / 100.0) as u64).max(LATENESS_NS),
        })
    }

    /// Whether the result is valid for the device.
    pub fn is_valid(&self) -> bool {
        self.p99_ns <= self.p99_ns_max
    }
}

/// Returns the whole seconds of a load, with the answers in each. Later answers are the rest of the
/// queue.
fn seconds(record: &Record) -> Vec<Second> {
    let whole = (record.elapsed_ns() - record.flush_ns) / SECOND_NS;
    let second = |index: usize| Second {
        value: record.by_interval.get(index).copied().unwrap_or(0).into(),
        latency: record.latencies.get(index).copied().unwrap_or_default(),
    };
    (0..whole as usize).map(second).collect()
}

const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of a MB in AS SSD and HD Tune.
pub(crate) const BINARY_MB: f64 = 1_048_576.0;

impl Row {
    /// Returns a figure without latencies.
    pub fn plain(test: impl Into<String>, unit: &'static str, value: f64) -> Row {
        Row {
            test: test.into(),
            unit,
            value,
            latency: None,
            cold: None,
            ceiling: None,
            kept_waiting: 0.0,
            processor: None,
            flush_ns: None,
            samples: Vec::new(),
            seconds: Vec::new(),
            punctual: None,
            shortened: None,
            prepared: String::new(),
            partial: false,
            access: None,
            doubt: None,
        }
    }

    /// Returns the requests per second of a load, over its whole time, including the final flush.
    pub fn rate(test: impl Into<String>, record: &Record) -> Row {
        let row = Row::plain(test, "IOPS", record.per_second());
        Row {
            latency: Some(record.all()),
            flush_ns: (record.flush_ns > 0).then_some(record.flush_ns),
            partial: !matches!(record.end, End::Limit | End::Timeless),
            seconds: seconds(record),
            punctual: Punctual::of(record),
            ..row
        }
    }

    /// Returns the same load in MB per second.
    pub fn throughput(test: impl Into<String>, record: &Record) -> Row {
        Row::rate(test, record).in_bytes(record, "MB/s", 1e6)
    }

    /// Returns the same load in units of 2^20 bytes per second, which some programs show.
    pub fn binary_throughput(test: impl Into<String>, record: &Record) -> Row {
        Row::rate(test, record).in_bytes(record, "MiB/s", BINARY_MB)
    }

    /// Converts a rate of requests to one of bytes.
    fn in_bytes(self, record: &Record, unit: &'static str, unit_bytes: f64) -> Row {
        let each = record.bytes as f64 / record.requests().max(1) as f64 / unit_bytes;
        let seconds = self.seconds.iter();
        let seconds = seconds.map(|second| Second { value: second.value * each, ..*second });
        let seconds = seconds.collect();
        Row { unit, value: record.bytes_per_second() / unit_bytes, seconds, ..self }
    }

    /// Returns the mean time of a request of a load with a queue depth of one.
    pub fn access(test: impl Into<String>, record: &Record) -> Row {
        let row = Row::rate(test, record);
        let value = record.all().mean_ns() / 1e6;
        let seconds = row.seconds.iter();
        let seconds =
            seconds.map(|second| Second { value: second.latency.mean_ns / 1e6, ..*second });
        Row { unit: "ms", value, seconds: seconds.collect(), flush_ns: None, ..row }
    }

    /// Returns the median of several runs of one load, in MB per second.
    pub fn median_throughput(test: impl Into<String>, records: &[Record]) -> Row {
        let rows: Vec<Row> = records.iter().map(|record| Row::throughput("", record)).collect();
        let samples: Vec<f64> = rows.iter().map(|row| row.value).collect();
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let value = match sorted.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        let mut latency = Latency::new();
        records.iter().for_each(|record| latency.merge(&record.all()));
        let partial = rows.iter().any(|row| row.partial);
        Row { latency: Some(latency), samples, partial, ..Row::plain(test, "MB/s", value) }
    }

    /// Returns the row's name, and whether the cache was cold or warm.
    pub fn full_name(&self) -> String {
        match self.cold {
            Some(true) => format!("{}, cold", self.test),
            Some(false) => format!("{}, warm", self.test),
            None => self.test.clone(),
        }
    }

    /// Returns latencies by seconds, in microseconds: mean, 99th percentile, maximum. Empty for a
    /// load shorter than [`SERIES_SECONDS_MIN`], or if the figure comes from several runs.
    pub fn latency_series(&self) -> Vec<Series> {
        let is_one_run = self.samples.is_empty() && self.latency.is_some();
        if !is_one_run || self.seconds.len() < SERIES_SECONDS_MIN {
            return Vec::new();
        }
        let series = LATENCIES.map(|(kind, ns)| Series {
            name: format!("{}: {kind} latency", self.full_name()),
            unit: "us",
            along: "s",
            step: 1.0,
            values: self.seconds.iter().map(|second| ns(&second.latency) / 1e3).collect(),
        });
        series.into()
    }

    /// Whether the figure depends more on the cache's own work than on the drive: it is above seven
    /// tenths of the ceiling.
    pub fn is_near_ceiling(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.value > 0.7 * ceiling)
    }

    /// Whether latencies also depend on the machine: it kept the load waiting for a hundredth of
    /// its time.
    pub fn is_disturbed(&self) -> bool {
        self.kept_waiting >= 0.01
    }
}

/// A figure of an interval, and its name.
type Kind = (&'static str, fn(&Interval) -> f64);

/// The figures of each second's latencies, in nanoseconds.
const LATENCIES: [Kind; 3] = [
    ("mean", |interval| interval.mean_ns),
    ("p99", |interval| interval.p99_ns as f64),
    ("max", |interval| interval.max_ns as f64),
];

/// Minimum number of whole seconds for latencies by seconds.
pub const SERIES_SECONDS_MIN: usize = 10;

/// Values at equal distances.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Their name.
    pub name: String,
    /// Their unit.
    pub unit: &'static str,
    /// The horizontal axis: `s`, `GB`.
    pub along: &'static str,
    /// The distance between two values.
    pub step: f64,
    /// The values; the first covers 0 to `step`.
    pub values: Vec<f64>,
}

/// A published figure for a row.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// The row. None: the figure is for its latencies, not its value.
    pub test: Option<String>,
    /// The name of the figure.
    pub what: String,
    /// The unit.
    pub unit: &'static str,
    /// The lower end, in that unit.
    pub low: f64,
    /// The upper end; the same for a single value, and infinite for a bound.
    pub high: f64,
}

/// The name of the fact that a target has other users, in words.
pub const IN_USE: &str = "in_use";

/// The results of a suite.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// The treatment of the drive, sentence by sentence.
    pub method: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Curves.
    pub series: Vec<Series>,
    /// Published figures for the same tests, if they were looked up.
    pub published: Vec<Published>,
    /// Facts about the machine and the device: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// The words of the command, if there was one.
    pub command: Vec<String>,
    /// Facts about the machine, in real time: names and values.
    pub machine: Vec<(&'static str, String)>,
    /// When it ended, in real time: `2026-11-25T10:00:00Z`. Virtual time has no date.
    pub at: Option<String>,
    /// The drive's own statistics at the end: names and values.
    pub drive: Vec<(&'static str, f64)>,
    /// The energy that the drive took in the suite, in joules. None: its power is not known.
    pub joules: Option<f64>,
    /// The counters of the cache.
    pub counters: Vec<(&'static str, u64)>,
    /// The suite ran to its end.
    pub complete: bool,
    /// The kind of clock: `virtual` or `real`.
    pub time: &'static str,
    /// Its duration on that clock, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Outcome {
    /// Returns an outcome without results.
    pub fn new(plan: &Plan) -> Outcome {
        Outcome {
            plan: plan.clone(),
            method: Vec::new(),
            rows: Vec::new(),
            series: Vec::new(),
            published: Vec::new(),
            facts: Vec::new(),
            command: Vec::new(),
            machine: Vec::new(),
            at: None,
            drive: Vec::new(),
            joules: None,
            counters: Vec::new(),
            complete: false,
            time: "virtual",
            elapsed_ns: 0,
        }
    }

    /// Returns the first row of this name.
    pub fn row(&self, test: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.test == test)
    }

    /// Returns the curves, and then the latencies by seconds of each row that ran for long enough.
    pub fn all_series(&self) -> Vec<Series> {
        let latencies = self.rows.iter().flat_map(Row::latency_series);
        self.series.iter().cloned().chain(latencies).collect()
    }

    /// Adds a row, with the preparation of the device before.
    pub(crate) fn add(&mut self, rig: &TestRig, row: Row) {
        let shortened = self.plan.shortened();
        self.push(rig, Row { shortened, ..row });
    }

    /// Adds a row whose value follows from other rows, independent of the last load.
    pub(crate) fn add_derived(&mut self, rig: &TestRig, row: Row) {
        let (prepared, shortened) = (rig.prepared().to_string(), self.plan.shortened());
        self.rows.push(Row { prepared, shortened, ..row });
    }

    /// Adds a row that has its own `shortened`.
    pub(crate) fn push(&mut self, rig: &TestRig, row: Row) {
        if rig.skipped() {
            return;
        }
        let access = rig.access().filter(|_| row.latency.is_some());
        let processor = rig.processor().filter(|_| row.latency.is_some());
        self.rows.push(Row { prepared: rig.prepared().to_string(), access, processor, ..row });
    }

    pub(crate) fn say(&mut self, sentence: impl Into<String>) {
        self.method.push(sentence.into());
    }
}
