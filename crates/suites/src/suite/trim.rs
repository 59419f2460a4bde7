//! TRIM: what random writes do to a drive, and what TRIM undoes.
//!
//! AnandTech's test: sequential writes over the clean drive; then the drive is filled, and is tortured
//! with 4 KiB random writes over all addresses, 32 at a time, for 20 to 60 minutes; sequential writes
//! over it as it is; TRIM of everything; and once more. From 2014 on the passes were a minute of Iometer
//! with 128 KiB at a queue depth of 1. A pass over all of the drive would mend it before TRIM is looked
//! at; with a time as long as that takes, this is what one sees.

use super::{SECOND, Suite, before, prepare, with_ceiling, writes};
use crate::bed::Bed;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::report::plots;
use load::{Limit, Load, Order};
use report::words::figure;

/// Positions of the curve.
const POSITIONS: u64 = 250;
/// See the file's head.
pub(super) struct Trim;

static PROFILE: Profile = Profile {
    name: "trim",
    about: "Sequential writes: the drive clean, tortured, trimmed",
    takes_state: true,
    preparation: "torture-20m",
    time_ns: 60 * SECOND,
    span_bytes: None,
};

impl Suite for Trim {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        before(bed, plan)?;
        let (worn, trimmed) = plan.preparation.at_trim();
        outcome.say(format!(
            "Each pass wrote up to {} in order, 128 KiB at a time, one after the other, for {} s at most: \
             the drive before it was prepared; after {worn}; and after {trimmed}.",
            block::Size(plan.span()),
            plan.time_ns as f64 / 1e9
        ));
        pass(bed, plan, outcome, "clean", 1)?;
        prepare(bed, plan, outcome, &worn)?;
        pass(bed, plan, outcome, "dirty", 3)?;
        if trimmed.0.is_empty() {
            return Ok(());
        }
        prepare(bed, plan, outcome, &trimmed)?;
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
    let limit = Limit { requests: load.blocks(), ..load.limit };
    let load = Load { limit, mark_bytes, ..load };
    let record = bed.load(&format!("{name} pass"), load)?;
    let row = Row::throughput(format!("{name}: sequential 128 KiB write"), &record);
    outcome.add(bed, with_ceiling(bed, row));
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
