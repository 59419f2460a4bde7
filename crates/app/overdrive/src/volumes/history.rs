//! `overdrive volume history`: samples of a volume over time.

use crate::columns::{self, Cell, Column, Selected, Style};
use crate::samples::{self, broken, past, range, utc};
use clap::ValueEnum;
use daemon::units::nanoseconds;
use history::{Figures, Samples, Span, VolumeSample};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show a volume's requests, hits, written data and latencies over time.
///
/// The daemon records each second for an hour, and each minute for two weeks. Lines are left out
/// for times without requests, and for times in which no daemon served the volume. Examples:
///   overdrive volume history db                        the last hour, by minutes
///   overdrive volume history db --last 10m --every 1s
///   overdrive volume history db --last 14d --every 1d
///   overdrive volume history db --last 14d --csv > db.csv
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// The volume. It need not be served now.
    name: Option<String>,
    /// Show the past of this length.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = past)]
    last: i64,
    /// Show a line for each span of this length: 1s to 59s for the last hour, otherwise minutes.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = past)]
    every: i64,
    /// Read this file instead of the usual one.
    #[arg(long, value_name = "PATH")]
    history: Option<PathBuf>,
    /// Print all figures as CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    output: Selected<VolumeSample, Heading>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Heading {
    /// The beginning of the span, in UTC.
    At,
    Reads,
    /// Share of the reads that were answered from memory.
    Hit,
    Changes,
    Flushes,
    /// Data that clients have written.
    Written,
    /// Data written back to the backing.
    Back,
    /// Written data that never had to be written back.
    Saved,
    /// Time saved by reads from memory.
    TimeSaved,
    /// Latency that 99 % of the reads from the backing did not exceed, of the worst second.
    MissP99,
    /// The same of clients' flushes.
    FlushP99,
    /// Maximum amount of dirty data.
    Dirty,
    /// Maximum age of dirty data.
    DirtyAge,
    /// Data in memory.
    Held,
    /// Time for which the cache was bypassed.
    Bypass,
    /// Time in which a request was in flight.
    Busy,
    /// Requests that the backing has answered with an error.
    Errors,
    /// Maximum number of clients.
    Clients,
}

impl Column<VolumeSample> for Heading {
    const DEFAULT: &str = "at,reads,hit,changes,written,back,saved,time-saved,miss-p99,dirty";
    const LEFT_OUT: &[Heading] = &[
        Heading::MissP99,
        Heading::Dirty,
        Heading::TimeSaved,
        Heading::Back,
        Heading::Saved,
        Heading::Changes,
        Heading::Written,
    ];

    fn cell(self, sample: &VolumeSample) -> Cell {
        let it = &sample.figures;
        let number = |number: u64| Cell::Number(Some(number as f64));
        let time = |ns: u64| match ns {
            0 => Cell::Figure(String::new()),
            ns => Cell::Figure(nanoseconds(ns)),
        };
        match self {
            Heading::At => Cell::Text(utc(sample.at_s)),
            Heading::Reads => number(it.reads),
            Heading::Hit if it.reads == 0 => Cell::Figure(String::new()),
            Heading::Hit => {
                Cell::Figure(format!("{:.1} %", 100.0 * it.read_hits as f64 / it.reads as f64))
            }
            Heading::Changes => number(it.changes),
            Heading::Flushes => number(it.flushes),
            Heading::Written => Cell::Size(it.written_bytes),
            Heading::Back => Cell::Size(it.written_back_bytes),
            Heading::Saved => Cell::Size(it.saved_bytes),
            Heading::TimeSaved => time(it.time_saved_ns),
            Heading::MissP99 => time(it.miss_p99_ns),
            Heading::FlushP99 => time(it.flush_p99_ns),
            Heading::Dirty => Cell::Size(it.dirty_bytes),
            Heading::DirtyAge => time(it.dirty_age_ns),
            Heading::Held => Cell::Size(it.held_bytes),
            Heading::Bypass => time(it.bypass_ns),
            Heading::Busy => time(it.busy_ns),
            Heading::Errors => number(it.errors),
            Heading::Clients => number(it.clients),
        }
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let samples = samples::open(options.history.as_deref())?;
    let Some(samples) = samples else {
        let message = "no volume has been recorded yet; a daemon does so after ten seconds";
        return Err(Failure::new(Exit::Negative, message));
    };
    let name = volume_of(&samples, options.name.as_deref())?;
    let span = if options.every < 60 { Span::Second } else { Span::Minute };
    let found = samples.volume(&name, span, range(Some(options.last))).map_err(broken)?;
    let rows = joined(found, options.every);
    if options.style.json {
        let rows: Vec<Value> = rows.iter().map(as_json).collect();
        let object = json!({
            "schema": "overdrive.volume.history/1",
            "volume": name,
            "every_s": options.every,
            "samples": rows,
        });
        daemon::say!("{object}");
    } else if options.csv {
        let names: Vec<&str> = ["at", "at_s"].into_iter().chain(Figures::NAMES).collect();
        let row = |sample: &VolumeSample| {
            let times = [Value::from(utc(sample.at_s)), Value::from(sample.at_s)];
            times.into_iter().chain(sample.figures.values().map(Value::from)).collect()
        };
        samples::print_csv(&names, rows.iter().map(row));
    } else {
        if rows.is_empty() {
            daemon::tell!("overdrive: {name}: nothing was recorded in this time");
        }
        columns::print(&rows, &options.output.columns, &options.style)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the recorded volume of this name; without a name, the only one.
fn volume_of(samples: &Samples, name: Option<&str>) -> Result<String, Failure> {
    let names = samples.volume_names().map_err(broken)?;
    match name {
        Some(name) if names.iter().any(|one| one == name) => Ok(name.to_owned()),
        Some(name) if names.is_empty() => {
            let message = format!(
                "{name}: no volume has been recorded yet; a daemon does so after ten seconds"
            );
            Err(Failure::new(Exit::Negative, message))
        }
        Some(name) => {
            let message =
                format!("{name}: was not recorded; recorded volumes: {}", names.join(", "));
            Err(Failure::new(Exit::Negative, message))
        }
        None if names.len() == 1 => Ok(names[0].clone()),
        None if names.is_empty() => {
            Err(Failure::new(Exit::Negative, "no volume has been recorded yet"))
        }
        None => {
            let message = format!("name a volume; recorded volumes: {}", names.join(", "));
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

/// Joins samples to spans of this length.
fn joined(samples: Vec<VolumeSample>, every_s: i64) -> Vec<VolumeSample> {
    let mut rows: Vec<VolumeSample> = Vec::new();
    for sample in samples {
        let at_s = sample.at_s - sample.at_s.rem_euclid(every_s);
        match rows.last_mut().filter(|row| row.at_s == at_s) {
            Some(row) => row.figures.merge(&sample.figures),
            None => rows.push(VolumeSample { at_s, ..sample }),
        }
    }
    rows
}

fn as_json(sample: &VolumeSample) -> Value {
    let mut object = json!({ "at": utc(sample.at_s), "at_s": sample.at_s });
    for (name, value) in Figures::NAMES.iter().zip(sample.figures.values()) {
        object[*name] = value.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined_and_gaps_stay() {
        let sample = |at_s, reads, dirty_bytes| VolumeSample {
            volume: "db".to_owned(),
            at_s,
            figures: Figures { reads, dirty_bytes, ..Figures::default() },
        };
        let rows = joined(vec![sample(120, 1, 9), sample(180, 2, 3), sample(600, 4, 1)], 300);
        let found: Vec<_> =
            rows.iter().map(|it| (it.at_s, it.figures.reads, it.figures.dirty_bytes)).collect();
        assert_eq!(found, [(0, 3, 9), (600, 4, 1)]);
    }
}
