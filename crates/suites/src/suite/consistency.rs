//! Consistency: what becomes of random writes once a drive is full.
//!
//! AnandTech's test of 2012 to 2015: secure erase, a sequential fill of all addresses, then 4 KiB
//! random writes over all of them, incompressible, 32 at a time, for 2,000 s; answers a second. More
//! spare area is imitated by leaving the last addresses alone.

use super::{SECOND, Suite, lay_out, with_ceiling, writes};
use crate::bed::Bed;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use load::Order;
use report::axis::{Axis, Scale};
use report::plot::{Curve, Names, Plot, Style};
use report::words::figure;

/// From when on drives of that time are taken to be steady, in seconds.
const STEADY_SECONDS: usize = 1400;

/// See the file's head.
pub(super) struct Consistency;

static PROFILE: Profile = Profile {
    name: "consistency",
    about: "Random writes over a full drive for 2,000 s: requests answered in each second",
    takes_state: false,
    preparation: "consistency",
    time_ns: 2000 * SECOND,
    span_bytes: None,
};

impl Suite for Consistency {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let seconds = plan.time_ns.div_ceil(SECOND) as usize;
        lay_out(bed, plan, outcome)?;
        outcome.say(format!(
            "Then it was written in random 4 KiB over the first {}, 32 at a time, for {seconds} s; {} % of \
             it was never written.",
            block::Size(plan.span()),
            plan.spare_percent
        ));
        let load = writes(plan, Order::Random, 4096, 32, 1);
        let record = bed.load("random writes", load)?;
        let whole = Row::rate("random 4 KiB write, QD32", &record);
        let partial = whole.partial;
        outcome.add(bed, with_ceiling(bed, whole));
        // Whole seconds only: what is answered after the last is the rest of the queue.
        let mut rates: Vec<f64> =
            record.by_interval.iter().map(|&count| f64::from(count)).collect();
        let elapsed = ((record.elapsed_ns() - record.flush_ns) / SECOND) as usize;
        rates.truncate(seconds.min(elapsed));
        for (name, rates) in [
            ("all seconds", rates.as_slice()),
            ("from 1,400 s", rates.get(STEADY_SECONDS..).unwrap_or_default()),
        ] {
            rows(bed, outcome, name, rates, partial);
        }
        if let Some(fall) = fall(&rates) {
            let test = format!("the first second below {FALL_PERCENT} % of the first minute");
            outcome.add(bed, Row { partial, ..Row::plain(test, "s", fall as f64) });
        }
        outcome.series.push(Series {
            name: "answers in each second".to_owned(),
            unit: "IOPS",
            along: "s",
            step: 1.0,
            values: rates,
        });
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let value = |test: &str| outcome.row(test).map(|row| row.value);
        let steady = value("from 1,400 s, mean of a second");
        let least = value("from 1,400 s, least of a second");
        let all = value("all seconds, mean of a second");
        match (steady, least, all) {
            (Some(steady), Some(least), _) => Some(format!(
                "From 1,400 s on it answers {} requests a second on average, {} in its slowest second.",
                figure(steady),
                figure(least)
            )),
            (_, _, Some(all)) => {
                Some(format!("It answers {} requests a second on average.", figure(all)))
            }
            _ => None,
        }
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        outcome.series.iter().flat_map(curves).collect()
    }
}

/// The least, the first percent, the mean and the spread of the seconds.
fn rows(bed: &Bed, outcome: &mut Outcome, name: &str, rates: &[f64], partial: bool) {
    if rates.is_empty() {
        return;
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at =
        |percent: usize| sorted[((rates.len() * percent).div_ceil(100) - 1).min(rates.len() - 1)];
    for (what, value) in [
        ("least", sorted[0]),
        ("1st percentile", at(1)),
        ("5th percentile", at(5)),
        ("mean", mean),
        ("95th percentile", at(95)),
        ("standard deviation", variance.sqrt()),
        ("most", sorted[rates.len() - 1]),
    ] {
        let row = Row::plain(format!("{name}, {what} of a second"), "IOPS", value);
        outcome.add(bed, Row { partial, ..row });
    }
}

/// What of the first minute's rate is a fall, in percent.
const FALL_PERCENT: u32 = 80;

/// The first second after the first minute in which the rate has fallen; None: it never has.
fn fall(rates: &[f64]) -> Option<usize> {
    let (first, rest) = rates.split_at_checked(60)?;
    let level = first.iter().sum::<f64>() / 60.0 * f64::from(FALL_PERCENT) / 100.0;
    rest.iter().position(|rate| *rate < level).map(|at| at + 60)
}

/// The whole run and from 1,400 s on, each on a logarithmic and a linear axis.
fn curves(series: &Series) -> Vec<String> {
    let end = series.values.len() as f64 * series.step;
    let ranges = [(0.0, "whole run"), (STEADY_SECONDS as f64, "from 1,400 s")];
    let mut plots = Vec::new();
    for (from, range) in ranges.into_iter().filter(|(from, _)| *from < end) {
        let seen = || series.values.iter().skip((from / series.step) as usize).copied();
        for y in [Axis::decades(seen()), Axis::linear(seen())] {
            let scale = if y.scale == Scale::Decades { "logarithmic" } else { "linear" };
            let points = series.values.iter().enumerate();
            let points = points.map(|(index, value)| (index as f64 * series.step, *value));
            let plot = Plot {
                title: format!("4 KiB random writes, QD32: {range}, {scale}"),
                along: "seconds".to_owned(),
                up: "IOPS".to_owned(),
                x: Axis::exact(from, end),
                y,
                style: Style::Dots,
                names: Names::Above,
                curves: vec![Curve {
                    name: &series.name,
                    points: points.collect(),
                    is_bound: false,
                }],
            };
            plots.push(plot.svg());
        }
    }
    plots
}
