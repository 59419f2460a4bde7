//! Seqfill: sequential writes from the first byte to the last; the rate falls at the end of an SLC
//! area.

use super::parts::{lay_out, with_ceiling, writes};
use super::{Suite, trim::rates};
use crate::halt::Halt;
use crate::knee::knee;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::test_rig::TestRig;
use load::{Limit, Load, Order};
use report::words::figure;

/// The step of the curve: it locates an SLC area of 3 GB within a few percent.
const STEP: u64 = 100_000_000;
const STEPS_MIN: u64 = 64;

/// See the module documentation.
pub(super) struct Seqfill;

static PROFILE: Profile = Profile {
    name: "seqfill",
    about: "Sequential writes from the first byte to the last: the rate by position",
    takes_state: true,
    preparation: "rested",
    time_ns: 0,
    span_bytes: None,
};

impl Suite for Seqfill {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        let span = plan.span();
        outcome.say(format!(
            "Then its first {} were written in order, 128 KiB at a time, 32 in flight.",
            block::Size(span)
        ));
        let load = writes(plan, Order::Sequential, 128 << 10, 32, 1);
        let mark_bytes = STEP.min(span / STEPS_MIN).next_multiple_of(128 << 10);
        let time_ns = if plan.time_ns == 0 { u64::MAX } else { plan.time_ns };
        let limit = Limit { requests: load.blocks(), time_ns };
        let load = Load { limit, mark_bytes, ..load };
        let record = rig.load("sequential writes", load)?;
        let row = Row::throughput("sequential 128 KiB write, QD32", &record);
        let partial = row.partial;
        outcome.add(rig, with_ceiling(rig, row));
        let values = rates(&record.marks_ns, mark_bytes);
        if let Some(knee) = knee(&values) {
            let step = mark_bytes as f64 / 1e9;
            for (test, unit, value) in [
                ("before the knee", "MB/s", knee.before),
                ("knee", "GB", knee.at as f64 * step),
                ("after the knee", "MB/s", knee.after),
            ] {
                outcome.add(rig, Row { partial, ..Row::plain(test, unit, value) });
            }
        }
        outcome.series.push(Series {
            name: "sequential write".to_owned(),
            unit: "MB/s",
            along: "GB",
            step: mark_bytes as f64 / 1e9,
            values,
        });
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let value = |test: &str| outcome.row(test).map(|row| row.value);
        match (value("before the knee"), value("knee"), value("after the knee")) {
            (Some(before), Some(at), Some(after)) => Some(format!(
                "{} MB/s for {at:.1} GB, then {} MB/s.",
                figure(before),
                figure(after)
            )),
            _ => outcome.rows.first().map(|row| {
                format!("{} MB/s from the first byte to the last: no knee.", figure(row.value))
            }),
        }
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::by_position(outcome)
    }
}
