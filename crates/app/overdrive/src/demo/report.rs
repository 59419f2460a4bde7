//! The results, side by side.

use super::bench::{DatabaseResult, Side};
use super::scale::Scale;
use ::report::terminal::Look;
use block::Size;
use serde_json::{Value, json};
use std::fmt::Write;

/// A workload below this ratio to bare counts as slowed down.
const HURT: f64 = 0.95;

/// If rounds of the bare side alone differ by more than this factor, the machine is busy.
const BUSY: f64 = 1.5;

/// Verdicts on a workload.
const SLOWER: &str = "SLOWER";
const HELPS: &str = "helps";
pub(super) const VERDICTS: [(&str, Look); 2] = [(SLOWER, Look::Bad), (HELPS, Look::Good)];

/// How the third column was measured: one sentence under the table.
const METHOD: &str = "\
Page cache: the bare export as a block device (nbdfuse and a loop device with direct I/O), used
through the kernel's page cache, which a control group holds to the same size.";

/// The results; sides in the order of the columns.
pub(super) struct Report {
    scale: Scale,
    files: u64,
    /// Reason why there is no page cache column.
    no_page_cache: Option<String>,
    pub(super) database: [Option<DatabaseResult>; 3],
    /// Nanoseconds of each round.
    pub(super) copies: [Vec<u64>; 3],
}

/// The median of several values, and their spread.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    };
    Some(Spread { median, least, most })
}

/// Returns the verdict on the database's ratio to bare.
fn help_verdict(ratio: f64) -> &'static str {
    if ratio > 1.0 / HURT { HELPS } else { hurt_verdict(ratio) }
}

/// Returns the verdict on the copy's ratio to bare: nothing is read twice, so nothing can be
/// gained.
fn hurt_verdict(ratio: f64) -> &'static str {
    // Rounded as it is printed, so that no reader sees 0.95 as less than 0.95.
    if (ratio * 100.0).round() / 100.0 < HURT { SLOWER } else { "does not slow down" }
}

impl Report {
    pub(super) fn new(scale: Scale, files: u64, no_page_cache: Option<String>) -> Report {
        let (database, copies) = Default::default();
        Report { scale, files, no_page_cache, database, copies }
    }

    fn database_seconds(&self, side: usize) -> Option<f64> {
        self.database[side].map(|result| result.measured.ns as f64 / 1e9)
    }

    fn database_ratio(&self, side: usize) -> Option<f64> {
        Some(self.database_seconds(0)? / self.database_seconds(side)?)
    }

    fn copy_seconds(&self, side: usize) -> Option<f64> {
        spread(self.copies[side].iter().map(|&ns| ns as f64 / 1e9).collect())
            .map(|spread| spread.median)
    }

    /// Returns the ratio of the medians, as the table shows them, with the ratios within single
    /// rounds.
    fn copy_ratio(&self, side: usize) -> Option<Spread> {
        let pairs = self.copies[0].iter().zip(&self.copies[side]);
        let rounds = spread(pairs.map(|(&bare, &ns)| bare as f64 / ns as f64).collect())?;
        Some(Spread { median: self.copy_seconds(0)? / self.copy_seconds(side)?, ..rounds })
    }

    /// Returns the spread of the bare rounds, if it is too large for a reliable comparison.
    fn busy(&self) -> Option<f64> {
        let bare = spread(self.copies[0].iter().map(|&ns| ns as f64).collect())?;
        Some(bare.most / bare.least).filter(|&factor| factor > BUSY)
    }

    fn row(out: &mut String, name: &str, cell: impl Fn(usize) -> Option<String>) {
        let cells = (0..3).map(|side| format!("{:>14}", cell(side).unwrap_or("-".into())));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<44}{}", cells.collect::<String>());
    }

    /// Returns the table, the verdicts and the method as text.
    pub(super) fn text(&self) -> String {
        let scale = &self.scale;
        let mut out = String::from("\n");
        Self::row(&mut out, "", |side| Some(Side::ALL[side].name().to_owned()));
        let operations = scale.operations as f64;
        Self::row(&mut out, "database (fio, 4 KiB random, 70 % reads)", |side| {
            self.database_seconds(side).map(|time| format!("{:.0} ops/s", operations / time))
        });
        Self::row(&mut out, &format!("  {operations} operations from a cold start"), |side| {
            self.database_seconds(side).map(|time| format!("{time:.2} s"))
        });
        Self::row(&mut out, "  against bare", |side| {
            self.database_ratio(side).map(|ratio| format!("{ratio:.2}x"))
        });
        let megabytes = scale.disk_bytes() as f64 / 1e6;
        Self::row(&mut out, "copy (nbdcopy to a file)", |side| {
            self.copy_seconds(side).map(|time| format!("{:.0} MB/s", megabytes / time))
        });
        let line = format!("  {} once, median of rounds", Size(scale.disk_bytes()));
        Self::row(&mut out, &line, |side| {
            self.copy_seconds(side).map(|time| format!("{time:.2} s"))
        });
        Self::row(&mut out, "  against bare", |side| {
            self.copy_ratio(side).map(|ratio| format!("{:.2}x", ratio.median))
        });
        out.push('\n');
        for line in self.verdicts().into_iter().chain(self.method()) {
            out.push_str(&line);
            out.push('\n');
        }
        out
    }

    fn verdicts(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(ratio) = self.database_ratio(1) {
            let cache = compared(ratio, self.database_ratio(2));
            lines.push(format!("database: {}: {ratio:.2}x{cache}.", help_verdict(ratio)));
        }
        if let Some(Spread { median, least, most }) = self.copy_ratio(1) {
            let cache = compared(median, self.copy_ratio(2).map(|ratio| ratio.median));
            let rounds = format!("rounds {least:.2} to {most:.2}");
            lines.push(format!(
                "copy:     {}: {median:.2}x ({rounds}){cache}.",
                hurt_verdict(median)
            ));
        }
        if let Some(factor) = self.busy() {
            lines.push(format!(
                "The machine is busy: bare copies alone differ by {factor:.1}x; that line is not \
                 reliable."
            ));
        }
        lines
    }

    fn method(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(counted) = self.database[1].and_then(|result| result.counted) {
            let saved = Size(counted.blocks_saved * 4096);
            lines.push(format!(
                "Overdrive answered {:.0} % of all reads from memory and saved {saved} of writes.",
                counted.hits_percent
            ));
        }
        let scale = &self.scale;
        lines.push(String::new());
        lines.push(format!(
            "Disk: {} file system with {} files of this machine, {} for the database; on a backing",
            Size(scale.files_bytes),
            self.files,
            Size(scale.database_bytes)
        ));
        lines.push(format!(
            "of 0.5 ms per operation, four at a time. Cache memory: {}.",
            Size(scale.memory_bytes)
        ));
        match &self.no_page_cache {
            Some(why) => lines.push(format!("No page cache column: {why}.")),
            None => lines.push(METHOD.to_owned()),
        }
        if let Some(peak) = self.database[2].and_then(|result| result.page_cache_peak) {
            lines.push(format!("Largest page cache seen in use: {}.", Size(peak)));
        }
        lines.push(
            "Verified: after the database every byte that clients read and every byte on the disk is\n\
             what the same fio run leaves in a plain file, the file system is whole (e2fsck), and\n\
             every copy equals the disk."
                .into(),
        );
        lines
    }

    /// Returns the report as one object: bytes and nanoseconds.
    pub(super) fn json(&self, took_ns: u64) -> Value {
        let side = |index: usize| {
            let database = self.database[index];
            let ratio = self.copy_ratio(index);
            json!({
                "side": Side::ALL[index].name().replace(' ', "_"),
                "database_ns": database.map(|result| result.measured.ns),
                "database_ratio": self.database_ratio(index),
                "read_hits_percent":
                    database.and_then(|result| Some(result.counted?.hits_percent)),
                "page_cache_peak_bytes": database.and_then(|result| result.page_cache_peak),
                "copy_ns": self.copies[index],
                "copy_ratio": ratio.map(|ratio| ratio.median),
                "copy_ratio_min": ratio.map(|ratio| ratio.least),
                "copy_ratio_max": ratio.map(|ratio| ratio.most),
            })
        };
        json!({
            "schema": "overdrive.demo/1",
            "disk_bytes": self.scale.disk_bytes(),
            "files": self.files,
            "database_bytes": self.scale.database_bytes,
            "memory_bytes": self.scale.memory_bytes,
            "database_operations": self.scale.operations,
            "sides": [side(0), side(1), side(2)],
            "database_verdict": self.database_ratio(1).map(help_verdict),
            "copy_verdict": self.copy_ratio(1).map(|ratio| hurt_verdict(ratio.median)),
            "busy_factor": self.busy(),
            "no_page_cache": self.no_page_cache,
            "verified": true,
            "took_ns": took_ns,
        })
    }
}

/// Returns the comparison with the page cache, also if that was faster.
fn compared(ours: f64, theirs: Option<f64>) -> String {
    match theirs {
        None => String::new(),
        Some(theirs) if theirs > ours * 1.05 => format!("; the page cache is faster: {theirs:.2}x"),
        Some(theirs) => format!("; the same memory as page cache: {theirs:.2}x"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::Measured;
    use super::*;

    fn report(overdrive_ms: u64) -> Report {
        let mut report = Report::new(Scale::FULL, 10, None);
        for (side, ms) in [10_000, 2_000, 2_500].into_iter().enumerate() {
            let measured = Measured { operations: 16_000, ns: ms * 1_000_000 };
            let (counted, page_cache_peak) = (None, None);
            report.database[side] = Some(DatabaseResult { measured, counted, page_cache_peak });
        }
        for round in 0..3 {
            report.copies[0].push(1_000_000_000);
            report.copies[1].push((overdrive_ms + round * 10) * 1_000_000);
            report.copies[2].push(500_000_000);
        }
        report
    }

    #[test]
    fn verdicts_are_honest() {
        let lines = report(1_000).verdicts();
        assert_eq!(lines[0], "database: helps: 5.00x; the same memory as page cache: 4.00x.");
        assert_eq!(
            lines[1],
            "copy:     does not slow down: 0.99x (rounds 0.98 to 1.00); the page cache is \
             faster: 2.00x."
        );
        assert!(report(1_200).verdicts()[1].contains("SLOWER: 0.83x"));
        assert_eq!(lines.len(), 2, "a quiet machine");
        let mut busy = report(1_000);
        busy.copies[0][0] = 3_000_000_000;
        assert!(busy.verdicts()[2].contains("differ by 3.0x"));
    }

    #[test]
    fn text_and_json_have_all_three_columns_or_say_why_not() {
        let full = report(1_000);
        let text = full.text();
        assert!(text.contains("1600 ops/s    8000 ops/s    6400 ops/s"), "{text}");
        assert!(text.contains("control group"));
        let json = full.json(5);
        assert_eq!(json["sides"][2]["copy_ratio"], 2.0);
        assert_eq!(json["sides"][0]["database_ns"], 10_000_000_000u64);

        let mut bare = report(1_000);
        bare.no_page_cache = Some("it requires root".into());
        (bare.database[2], bare.copies[2]) = (None, Vec::new());
        assert!(bare.text().contains("No page cache column: it requires root."));
        assert_eq!(bare.verdicts()[0], "database: helps: 5.00x.");
        assert!(bare.json(5)["sides"][2]["database_ns"].is_null());
    }

    #[test]
    fn medians_are_of_all_rounds() {
        assert_eq!(spread(vec![]), None);
        let even = spread(vec![3.0, 1.0, 2.0, 4.0]).expect("not empty");
        assert_eq!((even.median, even.least, even.most), (2.5, 1.0, 4.0));
    }
}
