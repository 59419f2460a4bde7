//! HD Tune Pro: the full test on a raw drive.
//!
//! The whole drive is written and then read in order, 64 KB at a time, one after the other; average, least and largest rate
//! and the curve by position are shown. Then random accesses of 512 bytes, 4 KB, 64 KB and 1 MB, as reads and as writes:
//! the mean time of one. Reviewers put the 4 KB time into their tables.
//!
//! The block of 64 KB is that program's default (recalled).

use super::{SECOND, Suite, lay_out, reads, trim::rates, with_ceiling, writes};
use crate::bed::Bed;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::report::plots;
use load::{Limit, Load, Order};
use report::words::figure;

const BLOCK: u32 = 64 << 10;
/// Positions of the curve.
const POSITIONS: u64 = 250;
const ACCESSES: [(u32, &str); 4] =
    [(512, "512 bytes"), (4096, "4 KB"), (64 << 10, "64 KB"), (1 << 20, "1 MB")];

/// See the file's head.
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

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(bed, plan, outcome)?;
        outcome.say(format!(
            "{} were written in order and then read, 64 KiB at a time, one after the other. Random accesses took \
             {} s for each size.",
            block::Size(plan.span()),
            plan.time_ns as f64 / 1e9
        ));
        pass(bed, plan, outcome, "write", writes(plan, Order::Sequential, BLOCK, 1, 1))?;
        bed.empty_cache()?;
        pass(bed, plan, outcome, "read", reads(plan, Order::Sequential, BLOCK, 1, 2))?;
        let least = bed.top().limits().block_logical_bytes;
        for (direction, load) in [("read", reads as fn(&_, _, _, _, _) -> Load), ("write", writes)]
        {
            for (part, (bytes, name)) in ACCESSES.iter().enumerate() {
                bed.empty_cache()?;
                if *bytes < least {
                    outcome.say(format!(
                        "The target takes no accesses of {name}: its blocks are {least} bytes."
                    ));
                    continue;
                }
                let test = format!("{direction} access, {name}");
                let load = load(plan, Order::Random, *bytes, 1, 10 + part as u64);
                let record = bed.load(&test, Load { flush: false, ..load })?;
                outcome.add(bed, Row::access(test, &record));
            }
        }
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let value = |test: &str| outcome.row(test).map(|row| row.value);
        Some(format!(
            "On average it writes {} and reads {} MB/s; a random read of 4 KB takes {:.3} ms.",
            figure(value("write, average")?),
            figure(value("read, average")?),
            value("read access, 4 KB")?
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::by_position(outcome)
    }
}

/// One pass over the span.
fn pass(
    bed: &mut Bed,
    plan: &Plan,
    outcome: &mut Outcome,
    direction: &str,
    load: Load,
) -> Result<(), Halt> {
    let mark_bytes = (plan.span() / POSITIONS).next_multiple_of(1 << 20);
    let limit = Limit::requests(load.blocks());
    let record = bed.load(&format!("{direction} in order"), Load { limit, mark_bytes, ..load })?;
    let row = Row::throughput(format!("{direction}, average"), &record);
    let partial = row.partial;
    outcome.add(bed, with_ceiling(bed, row));
    let values = rates(&record.marks_ns, mark_bytes);
    let least = values.iter().copied().reduce(f64::min);
    let largest = values.iter().copied().reduce(f64::max);
    for (name, value) in [("least", least), ("largest", largest)] {
        if let Some(value) = value {
            let row = Row::plain(format!("{direction}, {name}"), "MB/s", value);
            outcome.add(bed, Row { partial, ..row });
        }
    }
    let step = mark_bytes as f64 / 1e9;
    outcome.series.push(Series {
        name: direction.to_owned(),
        unit: "MB/s",
        along: "GB",
        step,
        values,
    });
    Ok(())
}
