//! HD Tune Pro: the full test on a raw drive.
//!
//! The whole drive is written and then read in order, 64 KB at a time, one after the other; the
//! program shows the average, minimum and maximum rate and the curve by position. Then random
//! accesses of 512 bytes, 4 KB, 64 KB and 1 MB, as reads and as writes, give the mean time of one.
//! Reviewers put the 4 KB time into their tables. A MB is 2^20 bytes there.
//!
//! The block of 64 KB is that program's default. The form of the text that it copies is recalled
//! from memory.

use super::parts::{SECOND, lay_out, reads, with_ceiling, writes};
use super::{Suite, WithoutWrites, trim::rates};
use crate::halt::Halt;
use crate::outcome::{BINARY_MB, Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::test_rig::TestRig;
use load::{Limit, Load, Order};
use report::words::figure;
use std::fmt::Write;

const BLOCK: u32 = 64 << 10;
/// Positions of the curve.
const POSITIONS: u64 = 250;
const ACCESSES: [(u32, &str); 4] =
    [(512, "512 bytes"), (4096, "4 KB"), (64 << 10, "64 KB"), (1 << 20, "1 MB")];

/// See the module documentation.
pub(super) struct HdTune;

static PROFILE: Profile = Profile {
    name: "hdtune",
    about: "HD Tune: the whole drive written and read in order, and random access times",
    takes_state: true,
    preparation: "rested",
    time_ns: 5 * SECOND,
    span_bytes: None,
};

impl Suite for HdTune {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::Usually
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        outcome.say(format!(
            "{} were {}read in order, 64 KiB at a time, one after the other. Random accesses took {} s for each size.",
            block::Size(plan.span()),
            if plan.reads_only { "" } else { "written in order and then " },
            plan.time_ns as f64 / 1e9
        ));
        pass(rig, plan, outcome, "write", writes(plan, Order::Sequential, BLOCK, 1, 1))?;
        rig.empty_cache()?;
        pass(rig, plan, outcome, "read", reads(plan, Order::Sequential, BLOCK, 1, 2))?;
        let least = rig.top().limits().block_logical_bytes;
        for (direction, load) in [("read", reads as fn(&_, _, _, _, _) -> Load), ("write", writes)]
        {
            for (part, (bytes, name)) in ACCESSES.iter().enumerate() {
                rig.empty_cache()?;
                if *bytes < least {
                    outcome.say(format!(
                        "The target does not support accesses of {name}: its blocks have {least} \
                         bytes."
                    ));
                    continue;
                }
                let test = format!("{direction} access, {name}");
                let load = load(plan, Order::Random, *bytes, 1, 10 + part as u64);
                let record = rig.load(&test, Load { flush: false, ..load })?;
                outcome.add(rig, Row::access(test, &record));
            }
        }
        Ok(())
    }

    fn block(&self, outcome: &Outcome) -> Option<String> {
        let mut block = String::new();
        let measured =
            |direction: &str| outcome.rows.iter().any(|row| row.test.starts_with(direction));
        let mut directions = vec![("Read", "read"), ("Write", "write")];
        directions.retain(|(_, direction)| measured(direction));
        for (head, direction) in &directions {
            _ = writeln!(block, "{head} transfer rate");
            for (label, name) in
                [("Minimum", "least"), ("Maximum", "largest"), ("Average", "average")]
            {
                let row = outcome.row(&format!("{direction}, {name}"));
                let value = row.map_or("-".to_owned(), |row| format!("{:.1}", row.value));
                _ = writeln!(block, "Transfer Rate {label} : {value} MB/s");
            }
            block.push('\n');
        }
        for (head, direction) in &directions {
            _ = writeln!(
                block,
                "{head} test\n{:<13} {:>17} {:>16} {:>16} {:>14}",
                "Transfer size",
                "operations / sec",
                "avg. access time",
                "max. access time",
                "avg. speed"
            );
            for (bytes, name) in ACCESSES {
                let row = outcome.row(&format!("{direction} access, {name}"));
                block.push_str(&row.map_or(String::new(), |row| access_line(name, bytes, row)));
            }
            block.push('\n');
        }
        block.push_str("* MB = 1,048,576 bytes, KB = 1,024 bytes\n");
        Some(block)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let value = |test: &str| outcome.row(test).map(|row| row.value);
        Some(format!(
            "On average it writes {} and reads {} MiB/s; a random read of 4 KB takes {:.3} ms.",
            figure(value("write, average")?),
            figure(value("read, average")?),
            value("read access, 4 KB")?
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::by_position(outcome)
    }
}

/// Returns a line of the block: one access after the other, so that the rate follows from the mean
/// time.
fn access_line(name: &str, bytes: u32, row: &Row) -> String {
    let rate = 1000.0 / row.value.max(1e-9);
    let max_ms = row.latency.as_ref().map_or(0.0, |latency| latency.max_ns() as f64 / 1e6);
    let speed = rate * f64::from(bytes) / BINARY_MB;
    format!(
        "{name:<13} {rate:>12.0} IOPS {:>13.3} ms {max_ms:>13.3} ms {speed:>9.3} MB/s\n",
        row.value
    )
}

/// Runs one pass over the span.
fn pass(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    direction: &str,
    load: Load,
) -> Result<(), Halt> {
    let mark_bytes = (plan.span() / POSITIONS).next_multiple_of(1 << 20);
    let limit = Limit::requests(load.blocks());
    let record = rig.load(&format!("{direction} in order"), Load { limit, mark_bytes, ..load })?;
    let row = Row::binary_throughput(format!("{direction}, average"), &record);
    let partial = row.partial;
    outcome.add(rig, with_ceiling(rig, row));
    let values = rates(&record.marks_ns, mark_bytes);
    let values: Vec<f64> = values.into_iter().map(|rate| rate * 1e6 / BINARY_MB).collect();
    let least = values.iter().copied().reduce(f64::min);
    let largest = values.iter().copied().reduce(f64::max);
    for (name, value) in [("least", least), ("largest", largest)] {
        if let Some(value) = value {
            let row = Row::plain(format!("{direction}, {name}"), "MiB/s", value);
            outcome.add(rig, Row { partial, ..row });
        }
    }
    if rig.skipped() {
        return Ok(());
    }
    let step = mark_bytes as f64 / 1e9;
    outcome.series.push(Series {
        name: direction.to_owned(),
        unit: "MiB/s",
        along: "GB",
        step,
        values,
    });
    Ok(())
}
