//! TRIM: what random writes do to a drive, and what TRIM undoes.
//!
//! AnandTech's test: sequential writes over the clean drive; then the drive is full, and is tortured
//! with 4 KiB random writes over all addresses, 32 at a time, for 20 to 60 minutes; sequential writes
//! over it as it is; TRIM of everything; and once more. From 2014 on the passes were made by Iometer
//! with 128 KiB at a queue depth of 1, before by HD Tach.

use super::{SECOND, Suite, writes};
use crate::bed::{Bed, Halt};
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::report::plots;
use load::{Limit, Load, Order, Record};
use report::words::figure;

/// Positions of the curve.
const POSITIONS: u64 = 250;
/// The pass's first part, which has a row of its own: what a test of one minute would show.
const MINUTE_NS: u64 = 60 * SECOND;

/// See the file's head.
pub(super) struct Trim;

static PROFILE: Profile = Profile {
    name: "trim",
    about: "Sequential writes: the drive clean, tortured, trimmed",
    takes_state: false,
    time_ns: 1200 * SECOND,
    span_bytes: None,
};

impl Suite for Trim {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        outcome.say(format!(
            "Each pass wrote {} in order, 128 KiB at a time, one after the other. Between the first and \
             the second, the drive was written in random 4 KiB, 32 at a time, for {} s; between the second \
             and the third, all of it was trimmed.",
            block::Size(plan.span()),
            plan.time_ns as f64 / 1e9
        ));
        pass(bed, plan, outcome, "clean", 1)?;
        let torture = bed.load("torture", writes(plan, Order::Random, 4096, 32, 2))?;
        outcome.rows.push(Row::rate("torture: random 4 KiB write, QD32", &torture));
        pass(bed, plan, outcome, "dirty", 3)?;
        bed.trim(plan.span())?;
        pass(bed, plan, outcome, "trimmed", 4)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let pass = |name: &str| {
            outcome.row(&format!("{name}: sequential 128 KiB write")).map(|row| row.value)
        };
        let (clean, dirty, trimmed) = (pass("clean")?, pass("dirty")?, pass("trimmed")?);
        Some(format!(
            "Sequential writes: {} MB/s clean, {} dirty, {} after TRIM, which brings back {:.0} % of what \
             was lost.",
            figure(clean),
            figure(dirty),
            figure(trimmed),
            100.0 * (trimmed - dirty) / (clean - dirty).max(1e-9)
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::by_position(outcome)
    }
}

fn pass(
    bed: &mut Bed,
    plan: &Plan,
    outcome: &mut Outcome,
    name: &str,
    part: u64,
) -> Result<(), Halt> {
    let load = writes(plan, Order::Sequential, 128 << 10, 1, part);
    let mark_bytes = (plan.span() / POSITIONS).next_multiple_of(1 << 20);
    let load = Load { limit: Limit::requests(load.blocks()), mark_bytes, ..load };
    let block_bytes = load.block_bytes();
    let record = bed.load(&format!("{name} pass"), load)?;
    outcome.rows.push(Row::throughput(format!("{name}: sequential 128 KiB write"), &record));
    let (minute, partial) = (first_minute(&record, block_bytes), record.end == load::End::Stopped);
    let minute = Row::plain(format!("{name}: its first minute"), "MB/s", minute);
    outcome.rows.push(Row { partial, ..minute });
    outcome.series.push(Series {
        name: name.to_owned(),
        unit: "MB/s",
        along: "GB",
        step: mark_bytes as f64 / 1e9,
        values: rates(&record.marks_ns, mark_bytes),
    });
    Ok(())
}

/// MB a second between the marks.
pub(super) fn rates(marks_ns: &[u64], mark_bytes: u64) -> Vec<f64> {
    let starts = std::iter::once(&0).chain(marks_ns);
    let each = starts.zip(marks_ns).map(|(start, end)| end - start);
    each.map(|ns| mark_bytes as f64 * 1e3 / ns.max(1) as f64).collect()
}

fn first_minute(record: &Record, block_bytes: u64) -> f64 {
    let seconds = (MINUTE_NS.min(record.elapsed_ns()) as f64 / 1e9).max(1e-9);
    let requests: u64 = record
        .by_interval
        .iter()
        .take(seconds.ceil() as usize)
        .map(|&count| u64::from(count))
        .sum();
    requests as f64 * block_bytes as f64 / 1e6 / seconds
}
