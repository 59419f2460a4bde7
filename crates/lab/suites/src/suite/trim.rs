//! TRIM: the damage that random writes do to a drive's speed, and its repair by TRIM.
//!
//! AnandTech's test: sequential writes over the clean drive; then the drive is filled, and is
//! tortured with 4 KiB random writes over all addresses, 32 at a time, for 20 to 60 minutes;
//! sequential writes over it in that state; TRIM of everything; and sequential writes again. From
//! 2014 on the passes were a minute of Iometer with 128 KiB at a queue depth of 1. Before that they
//! were HD Tach's, over the whole drive, which already repairs it before TRIM is measured. In 2009
//! random writes themselves were measured: twice in succession, and after the drive was formatted.
//!
//! Source: AnandTech 2865 page 2, 5785 page 7, 6363 page 8. The requests of HD Tach are not known:
//! 128 KiB, one at a time, replace them. A clean drive at the start of a run of 2009 is assumed.

use super::Suite;
use super::era::{self, Era};
use super::parts::{SECOND, before, prepare, with_ceiling, writes};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::preparation::Preparation;
use crate::test_rig::TestRig;
use load::{Limit, Load, Order};
use report::words::figure;

/// Positions of the curve.
const POSITIONS: u64 = 250;
/// The writes of a pass, and the names of the passes.
struct Passes {
    test: &'static str,
    order: Order,
    block_bytes: u32,
    depth: u32,
    names: [&'static str; 3],
}

const USUAL: Passes = Passes {
    test: "sequential 128 KiB write",
    order: Order::Sequential,
    block_bytes: 128 << 10,
    depth: 1,
    names: ["clean", "dirty", "trimmed"],
};

/// See the module documentation.
pub(super) struct Trim;

static PROFILE: Profile = Profile {
    name: "trim",
    about: "Sequential writes: the drive clean, tortured, trimmed",
    takes_state: true,
    preparation: "torture-20m",
    time_ns: 60 * SECOND,
    span_bytes: None,
};
static OF_2009: Profile = Profile { preparation: "trim", time_ns: 300 * SECOND, ..PROFILE };
static OF_2011: Profile = Profile { time_ns: 0, ..PROFILE };
static OF_2014: Profile = Profile { preparation: "torture-40m", ..PROFILE };

static ERAS: [(Era, Passes); 3] = [
    (
        Era {
            first: 2009,
            last: 2009,
            about: "random 4 KiB writes at depth 16 over all of the drive for five minutes, twice, and after TRIM",
            profile: &OF_2009,
        },
        Passes {
            test: "random 4 KiB write, QD16",
            order: Order::Random,
            block_bytes: 4096,
            depth: 16,
            names: ["run 1", "run 2", "after TRIM"],
        },
    ),
    (
        Era {
            first: 2011,
            last: 2013,
            about: "sequential writes over all of the drive, clean, after 20 minutes of torture, and after TRIM",
            profile: &OF_2011,
        },
        USUAL,
    ),
    (
        Era {
            first: 2014,
            last: 2014,
            about: "a minute of sequential writes, clean, after 40 minutes of torture, and after TRIM",
            profile: &OF_2014,
        },
        USUAL,
    ),
];

fn passes(plan: &Plan) -> &'static Passes {
    era::of(plan, &ERAS).unwrap_or(&USUAL)
}

impl Suite for Trim {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn eras(&self) -> Vec<Era> {
        era::all(&ERAS)
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        before(rig, plan)?;
        let passes = passes(plan);
        let (worn, trimmed) = plan.preparation.at_trim();
        outcome.say(method(plan, passes, &worn, &trimmed));
        let [clean, dirty, after] = passes.names;
        pass(rig, plan, outcome, clean, 1)?;
        prepare(rig, plan, outcome, &worn)?;
        pass(rig, plan, outcome, dirty, 3)?;
        if trimmed.0.is_empty() {
            return Ok(());
        }
        prepare(rig, plan, outcome, &trimmed)?;
        pass(rig, plan, outcome, after, 4)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let passes = passes(&outcome.plan);
        let pass = |name: &str| Some(outcome.row(&row_name(name, passes))?.value);
        let [first, second, after] = passes.names;
        let (clean, dirty, trimmed) = (pass(first)?, pass(second)?, pass(after)?);
        let kind = if passes.order == Order::Sequential { "Sequential" } else { "Random" };
        Some(format!(
            "{kind} writes: {} MB/s {first}, {} {second}, {} after TRIM, which brings back {:.0} % of what \
             was lost.",
            figure(clean),
            figure(dirty),
            figure(trimmed),
            100.0 * (trimmed - dirty) / (clean - dirty).max(1e-9)
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        match outcome.series.is_empty() {
            true => plots::rows(outcome),
            false => plots::by_position(outcome),
        }
    }
}

fn row_name(name: &str, passes: &Passes) -> String {
    format!("{name}: {}", passes.test)
}

/// Describes each pass, and the preparation between them.
fn method(plan: &Plan, passes: &Passes, worn: &Preparation, trimmed: &Preparation) -> String {
    let size = block::Size(passes.block_bytes.into());
    let span = block::Size(plan.span());
    let time = match plan.time_ns {
        0 => String::new(),
        ns => format!(", for {} s at most", ns as f64 / 1e9),
    };
    match passes.order {
        Order::Sequential => format!(
            "Each pass wrote up to {span} in order, {size} at a time, one after the other{time}: the drive before it \
             was prepared; after {worn}; and after {trimmed}."
        ),
        _ => format!(
            "Each run wrote at random over {span}, {size} at a time, {} in flight{time}: twice, {} \
             between them, and after {trimmed}.",
            passes.depth,
            if worn.0.is_empty() { "nothing".to_owned() } else { worn.to_string() }
        ),
    }
}

fn pass(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    name: &str,
    part: u64,
) -> Result<(), Halt> {
    let passes = passes(plan);
    let load = writes(plan, passes.order, passes.block_bytes, passes.depth, part);
    let is_sequential = passes.order == Order::Sequential;
    let mark_bytes = (plan.span() / POSITIONS).next_multiple_of(1 << 20);
    let load = match is_sequential {
        true => {
            let time_ns = if plan.time_ns == 0 { u64::MAX } else { plan.time_ns };
            Load { limit: Limit { requests: load.blocks(), time_ns }, mark_bytes, ..load }
        }
        false => load,
    };
    let record = rig.load(&format!("{name} pass"), load)?;
    let row = Row::throughput(row_name(name, passes), &record);
    outcome.add(rig, with_ceiling(rig, row));
    if is_sequential {
        outcome.series.push(Series {
            name: name.to_owned(),
            unit: "MB/s",
            along: "GB",
            step: mark_bytes as f64 / 1e9,
            values: rates(&record.marks_ns, mark_bytes),
        });
    }
    Ok(())
}

/// Returns the MB per second between the marks.
pub(super) fn rates(marks_ns: &[u64], mark_bytes: u64) -> Vec<f64> {
    let starts = std::iter::once(&0).chain(marks_ns);
    let each = starts.zip(marks_ns).map(|(start, end)| end - start);
    each.map(|ns| mark_bytes as f64 * 1e3 / ns.max(1) as f64).collect()
}
