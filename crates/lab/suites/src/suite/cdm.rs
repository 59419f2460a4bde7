//! CrystalDiskMark 8, its default profile; and version 3.
//!
//! A file of 1 GiB. Four tests: sequential 1 MiB with 8 and with 1 under way, random 4 KiB with 32
//! and with 1; first all of them as reads, then all as writes. Each runs for 5 s, six times in a
//! row, with 5 s between two tests. The program calls the first run preparation and discards it; it
//! shows the best of the other five. That flatters any cache, so a row here is the median of the
//! five, and the first run has a row of its own. The block in that program's own form shows the
//! best, so that it can be compared with other results.
//!
//! Version 3, used in the reviews of 2013, has a file of 1000 MiB and other tests: sequential 1
//! MiB, random 512 KiB and random 4 KiB with one under way, and random 4 KiB with 32; five runs
//! each.
//!
//! Source: hiyohiyo/CrystalDiskMark, SettingsDlg.cpp (OnSetDefault) and DiskBench.cpp, of version
//! 8. Version 3 and its block are recalled from memory; the order of its tests, their 5 s and the
//! run before the five are those of version 8.

use super::era::{self, Era};
use super::parts::{SECOND, lay_out, reads, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::test_rig::TestRig;
use load::{Load, Order, Record};
use report::grid::{GridCell, GridRow, grid};
use report::words::figure;
use std::fmt::Write;

/// A test: its label in the block, its name, the order, bytes of a request, requests under way.
type Test = (&'static str, &'static str, Order, u32, u32);

/// A version: its tests, and its block.
struct Version {
    tests: [Test; 4],
    block: fn(&Outcome) -> String,
}

static EIGHT: Version = Version { tests: TESTS, block: block_of_8 };

const TESTS_OF_3: [Test; 4] = [
    ("Sequential", "Seq", Order::Sequential, 1 << 20, 1),
    ("Random 512KB", "512K", Order::Random, 512 << 10, 1),
    ("Random 4KB (QD=1)", "4K", Order::Random, 4096, 1),
    ("Random 4KB (QD=32)", "4K QD32", Order::Random, 4096, 32),
];

static ERAS: [(Era, Version); 1] = [(
    Era {
        first: 2013,
        last: 2013,
        about: "version 3, with sequential 1 MiB, random 512 KiB, random 4 KiB, and that at depth 32, over 1000 MiB",
        profile: &OF_2013,
    },
    Version { tests: TESTS_OF_3, block: block_of_3 },
)];

const TESTS: [Test; 4] = [
    ("SEQ    1MiB", "SEQ1M Q8T1", Order::Sequential, 1 << 20, 8),
    ("SEQ    1MiB", "SEQ1M Q1T1", Order::Sequential, 1 << 20, 1),
    ("RND    4KiB", "RND4K Q32T1", Order::Random, 4096, 32),
    ("RND    4KiB", "RND4K Q1T1", Order::Random, 4096, 1),
];
const RUNS: usize = 5;
const INTERVAL_NS: u64 = 5 * SECOND;

/// See the module documentation.
pub(super) struct Cdm;

static PROFILE: Profile = Profile {
    name: "cdm",
    about: "CrystalDiskMark 8: sequential 1 MiB and random 4 KiB, five runs each after one",
    takes_state: true,
    preparation: "filled",
    time_ns: 5 * SECOND,
    span_bytes: Some(1 << 30),
};
static OF_2013: Profile = Profile {
    about: "CrystalDiskMark 3: sequential, random 512 KiB and 4 KiB, five runs each after one",
    span_bytes: Some(1000 << 20),
    ..PROFILE
};

impl Suite for Cdm {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn eras(&self) -> Vec<Era> {
        era::all(&ERAS)
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::Usually
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        outcome.say(format!(
            "Each test ran six times for {} s; a row is the median of the last five. The block shows the best of \
             them, as CrystalDiskMark does, with the mean latency of all five.",
            plan.time_ns as f64 / 1e9
        ));
        for (direction, load) in [("read", reads as fn(&_, _, _, _, _) -> Load), ("write", writes)]
        {
            for (part, (_, name, order, bytes, depth)) in version(plan).tests.iter().enumerate() {
                let test = format!("{name} {direction}");
                if plan.selects(&test) {
                    let load =
                        |run: usize| load(plan, *order, *bytes, *depth, (part * 10 + run) as u64);
                    runs(rig, outcome, &test, load)?;
                    rig.rest(INTERVAL_NS)?;
                }
            }
            rig.empty_cache()?;
        }
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let (_, name, _, bytes, _) = version(&outcome.plan).tests[0];
        let value =
            |direction: &str| outcome.row(&format!("{name} {direction}")).map(|row| row.value);
        let read = value("read")?;
        let written = value("write").map(|rate| format!(", {} written", figure(rate)));
        Some(format!(
            "Sequential {}: {} MB/s read{}.",
            block::Size(bytes.into()),
            figure(read),
            written.unwrap_or_default()
        ))
    }

    /// Draws the program's own grid: a test in each row, reads and writes beside each other.
    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        let rows = version(&outcome.plan).tests.iter().map(|(_, name, ..)| {
            let cells = ["read", "write"].map(|direction| cell(outcome, name, direction));
            ((*name).to_owned(), cells.to_vec())
        });
        let rows: Vec<GridRow> =
            rows.filter(|(_, cells)| cells.iter().any(Option::is_some)).collect();
        match rows.is_empty() {
            true => Vec::new(),
            false => vec![grid(
                "CrystalDiskMark: median of five runs",
                "MB/s",
                &["Read", "Write"],
                &rows,
            )],
        }
    }

    fn block(&self, outcome: &Outcome) -> Option<String> {
        Some((version(&outcome.plan).block)(outcome))
    }
}

/// Returns a cell of the grid: the median, with the first run, which the program discards.
fn cell(outcome: &Outcome, name: &str, direction: &str) -> Option<GridCell> {
    let test = format!("{name} {direction}");
    let row = outcome.row(&test)?;
    let first = outcome.row(&format!("{test}, first run"));
    let remark = first.map_or(String::new(), |first| format!("first run {}", figure(first.value)));
    Some(GridCell { value: row.value, remark })
}

fn version(plan: &Plan) -> &'static Version {
    era::of(plan, &ERAS).unwrap_or(&EIGHT)
}

fn block_of_8(outcome: &Outcome) -> String {
    let rule = "-".repeat(78);
    let mut block = format!(
        "{rule}\nOverdrive {}: the tests of CrystalDiskMark 8\n{rule}\n\
         * MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]\n* KB = 1000 bytes, KiB = 1024 bytes\n",
        env!("CARGO_PKG_VERSION")
    );
    for (head, direction) in [("Read", "read"), ("Write", "write")] {
        let lines = TESTS.iter().filter_map(|(text, name, _, bytes, depth)| {
            let row = outcome.row(&format!("{name} {direction}"))?;
            Some(line(text, row, *bytes, *depth))
        });
        let lines: String = lines.collect();
        if !lines.is_empty() {
            _ = write!(block, "\n[{head}]\n{lines}");
        }
    }
    let plan = &outcome.plan;
    _ = write!(
        block,
        "\nProfile: Default\n   Test: {} (x{RUNS})\n   Time: Measure {} sec / Interval 5 sec\n Target: {}\n",
        block::Size(plan.span()),
        plan.time_ns as f64 / 1e9,
        block::printable(&plan.target.text)
    );
    block
}

/// Returns the block of version 3, which names the direction within a test's name, and shows
/// requests per second of 4 KiB only.
fn block_of_3(outcome: &Outcome) -> String {
    let rule = "-".repeat(71);
    let mut block = format!(
        "{rule}\nOverdrive {}: the tests of CrystalDiskMark 3\n{rule}\n\
         * MB/s = 1,000,000 byte/s [SATA/300 = 300,000,000 byte/s]\n\n",
        env!("CARGO_PKG_VERSION")
    );
    for (text, name, _, bytes, _) in &TESTS_OF_3 {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        for (head, direction) in [("Read", "read"), ("Write", "write")] {
            let Some(row) = outcome.row(&format!("{name} {direction}")) else { continue };
            let label = format!("{kind} {head} {rest}");
            _ = write!(block, "{:>26} : {:>9.3} MB/s", label.trim_end(), best(row));
            let rate = best(row) * 1e6 / f64::from(*bytes);
            block.push_str(&if *bytes == 4096 {
                format!(" [{rate:>8.1} IOPS]\n")
            } else {
                "\n".to_owned()
            });
        }
    }
    let plan = &outcome.plan;
    let target = block::printable(&plan.target.text);
    _ = write!(block, "\n  Test : {} MB [{target}] (x{RUNS})\n", plan.span() >> 20);
    block
}

/// Returns the best run.
fn best(row: &Row) -> f64 {
    row.samples.iter().copied().fold(0.0, f64::max)
}

/// Returns a line of the block: the best run.
fn line(text: &str, row: &Row, bytes: u32, depth: u32) -> String {
    let best = best(row);
    let rate = best * 1e6 / f64::from(bytes);
    let latency_us = row.latency.as_ref().map_or(0.0, |latency| latency.mean_ns() / 1e3);
    format!(
        "  {text} (Q={depth:>3}, T= 1): {best:>9.3} MB/s [{rate:>9.1} IOPS] <{latency_us:>9.2} us>\n"
    )
}

fn runs(
    rig: &mut TestRig,
    outcome: &mut Outcome,
    test: &str,
    load: impl Fn(usize) -> Load,
) -> Result<(), Halt> {
    let first = rig.load(test, load(0))?;
    let row = Row::throughput(format!("{test}, first run"), &first);
    let cold = rig.is_cached().then_some(true);
    outcome.add(rig, Row { cold, ..with_ceiling(rig, row) });
    let mut records: Vec<Record> = Vec::new();
    for run in 1..=RUNS {
        match rig.load(test, load(run)) {
            Ok(record) => records.push(record),
            Err(_) if !records.is_empty() => break,
            Err(halt) => return Err(halt),
        }
    }
    let row = Row::median_throughput(test, &records);
    let cold = rig.is_cached().then_some(false);
    outcome.add(rig, Row { cold, ..with_ceiling(rig, row) });
    Ok(())
}
