//! The specification's write saturation test (WSAT): a purged drive is written at random for hours.
//!
//! 4 KiB writes over the whole drive, until they have filled it four times or six hours have
//! passed, whichever comes first. The result is the fall of the rate, minute by minute. The
//! specification's rule of the steady state is applied to the last five minutes, and reported.

use super::DEPTH;
use super::steady::{Determination, WINDOW};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use crate::suite::Suite;
use crate::suite::parts::{SECOND, before, seed, with_ceiling, writes};
use crate::test_rig::TestRig;
use block::Size;
use load::{Limit, Load, Order, Record};
use report::axis::Axis;
use report::plot::{Curve, Names, Plot, Style};
use report::words::figure;

/// Number of times that the drive's capacity is written.
const FILLS: u64 = 4;
const BLOCK_BYTES: u32 = 4096;
const MINUTE_NS: u64 = 60 * SECOND;
const FIRST: &str = "first minute";
const LAST: &str = "last five minutes";

/// See the module documentation.
pub(in crate::suite) struct Saturation;

static PROFILE: Profile = Profile {
    name: "pts-wsat",
    about: "SNIA's PTS, write saturation: random 4 KiB writes for six hours or four drive fills",
    takes_state: false,
    preparation: "trim",
    time_ns: 6 * 3600 * SECOND,
    span_bytes: None,
};

impl Suite for Saturation {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        before(rig, plan)?;
        rig.prepare(&plan.preparation, plan.span(), seed(plan, 1000))?;
        let load = writes(plan, Order::Random, BLOCK_BYTES, DEPTH, 1);
        let requests = FILLS * plan.span() / u64::from(BLOCK_BYTES);
        let limit = Limit { time_ns: plan.time_ns, requests };
        let record =
            rig.load("random 4 KiB writes", Load { limit, interval_ns: MINUTE_NS, ..load })?;
        outcome.say(format!(
            "Then it was written in random 4 KiB over {}, {DEPTH} at a time, for {FILLS} times as much or {} s: {} \
             were written, {:.2} times as much.",
            Size(plan.span()),
            plan.time_ns as f64 / 1e9,
            Size(record.bytes >> 20 << 20),
            record.bytes as f64 / plan.span() as f64
        ));
        add_rows(rig, outcome, &record);
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let (first, last) = (outcome.row(FIRST)?.value, outcome.row(LAST)?.value);
        Some(format!(
            "{} random 4 KiB writes per second in its first minute, {} in its last five minutes.",
            figure(first),
            figure(last)
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        outcome.series.iter().filter(|series| !series.values.is_empty()).map(curve).collect()
    }
}

/// Returns the writes per second in each whole minute.
fn minutes(record: &Record) -> Vec<f64> {
    let whole = ((record.elapsed_ns() - record.flush_ns) / MINUTE_NS) as usize;
    let counts = record.by_interval.iter().take(whole);
    counts.map(|count| f64::from(*count) / 60.0).collect()
}

fn add_rows(rig: &TestRig, outcome: &mut Outcome, record: &Record) {
    let minutes = minutes(record);
    let row = Row::rate("random 4 KiB write, QD32", record);
    let partial = row.partial;
    outcome.add(rig, with_ceiling(rig, Row { samples: minutes.clone(), ..row }));
    let mut add = |test: &str, samples: &[f64]| {
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let row = Row { partial, samples: samples.to_vec(), ..Row::plain(test, "IOPS", mean) };
        outcome.add(rig, row);
    };
    if let Some(first) = minutes.first() {
        add(FIRST, &[*first]);
    }
    if let Some(last) = minutes.last_chunk::<WINDOW>() {
        add(LAST, last);
    }
    outcome.say(match Determination::of(&minutes) {
        Some(found) => {
            let steady = if found.is_steady() { "Steady" } else { "NOT steady" };
            format!("{steady} at the end: {}", found.text("IOPS", "minute"))
        }
        None => format!("NOT steady: {} whole minutes are too few for a decision.", minutes.len()),
    });
    outcome.series.push(Series {
        name: "random 4 KiB writes by minute".to_owned(),
        unit: "IOPS",
        along: "min",
        step: 1.0,
        values: minutes,
    });
}

/// Plots the rate over time.
fn curve(series: &Series) -> String {
    let points: Vec<(f64, f64)> =
        series.values.iter().enumerate().map(|(minute, rate)| (minute as f64, *rate)).collect();
    let plot = Plot {
        title: "Write saturation: random 4 KiB writes".to_owned(),
        along: "minutes".to_owned(),
        up: series.unit.to_owned(),
        x: Axis::exact(0.0, points.len() as f64),
        y: Axis::linear(series.values.iter().copied()),
        style: Style::Line,
        names: Names::Above,
        curves: vec![Curve::new(&series.name, points)],
        levels: Vec::new(),
    };
    plot.figure()
}
