//! Consistency: random writes to a full drive, over time.
//!
//! AnandTech's test of 2012 to 2014: secure erase, a sequential fill of all addresses, then 4 KiB
//! random writes over all of them, incompressible, 32 at a time, for 2,000 s; answers per second. A
//! larger spare area is emulated by leaving the last addresses unused. The reviews regarded drives
//! of that time as steady from 1,400 s on. In 2015 the test took 3,600 s, of which the last 400
//! were averaged, also divided by their standard deviation.
//!
//! Source: AnandTech 8006 page 4, 8216 page 7, 9451 page 2.

use super::Suite;
use super::era::{self, Era};
use super::parts::{SECOND, lay_out, with_ceiling, writes};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Second, Series};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::test_rig::TestRig;
use load::Order;
use report::chart::{self, STEADY_SECONDS, Sequence};
use report::plot::Level;
use report::words::{figure, grouped};
use std::ops::Range;

/// The seconds that count as steady.
#[derive(Clone, Copy)]
enum Steady {
    /// All from this one on.
    From(usize),
    /// This number of last seconds.
    Last(usize),
}

impl Steady {
    /// Returns the range of steady seconds in a run of this length. None: the run is too short.
    fn of(self, seconds: usize) -> Option<Range<usize>> {
        match self {
            Steady::From(first) => (first < seconds).then_some(first..seconds),
            Steady::Last(count) => Some(seconds.checked_sub(count)?..seconds),
        }
    }

    /// Returns its words at the beginning of a sentence.
    fn phrase(self) -> String {
        match self {
            Steady::From(_) => format!("{} on", self.name().replacen('f', "F", 1)),
            Steady::Last(_) => format!("In the {}", self.name()),
        }
    }

    /// Returns its words in the names of rows.
    fn name(self) -> String {
        match self {
            Steady::From(first) => format!("from {} s", grouped(first as u64)),
            Steady::Last(count) => format!("last {} s", grouped(count as u64)),
        }
    }
}

const USUAL: Steady = Steady::From(STEADY_SECONDS as usize);

fn steady(plan: &Plan) -> Steady {
    era::of(plan, &ERAS).copied().unwrap_or(USUAL)
}

/// See the module documentation.
pub(super) struct Consistency;

static PROFILE: Profile = Profile {
    name: "consistency",
    about: "Random writes over a full drive for 2,000 s: requests answered in each second",
    takes_state: false,
    preparation: "consistency",
    time_ns: 2000 * SECOND,
    span_bytes: None,
};
static OF_2015: Profile = Profile { time_ns: 3600 * SECOND, ..PROFILE };

static ERAS: [(Era, Steady); 2] = [
    (
        Era {
            first: 2012,
            last: 2014,
            about: "2,000 s of random 4 KiB writes, steady from 1,400 s on",
            profile: &PROFILE,
        },
        USUAL,
    ),
    (
        Era {
            first: 2015,
            last: 2015,
            about: "3,600 s of random 4 KiB writes, and the mean of the last 400 s",
            profile: &OF_2015,
        },
        Steady::Last(400),
    ),
];

impl Suite for Consistency {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn eras(&self) -> Vec<Era> {
        era::all(&ERAS)
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let seconds = plan.time_ns.div_ceil(SECOND) as usize;
        lay_out(rig, plan, outcome)?;
        outcome.say(format!(
            "Then it was written in random 4 KiB over the first {}, 32 at a time, for {seconds} s; {} % of \
             it was never written.",
            block::Size(plan.span()),
            plan.spare_percent
        ));
        let load = writes(plan, Order::Random, 4096, 32, 1);
        let record = rig.load("random writes", load)?;
        let whole = Row::rate("random 4 KiB write, QD32", &record);
        let partial = whole.partial;
        let mut answered = whole.seconds.clone();
        outcome.add(rig, with_ceiling(rig, whole));
        answered.truncate(seconds);
        rows(rig, outcome, "all seconds", &answered, partial);
        let steady = steady(plan);
        let seen = steady.of(answered.len()).map_or(&[][..], |range| &answered[range]);
        rows(rig, outcome, &steady.name(), seen, partial);
        if let Steady::Last(_) = steady {
            over_deviation(rig, outcome, &steady.name());
        }
        let rates: Vec<f64> = answered.iter().map(|second| second.value).collect();
        if let Some(fall) = fall(&rates) {
            let test = format!("the first second below {FALL_PERCENT} % of the first minute");
            outcome.add(rig, Row { partial, ..Row::plain(test, "s", fall as f64) });
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
        let name = steady(&outcome.plan).name();
        let mean = value(&format!("{name}, mean of a second"));
        let least = value(&format!("{name}, least of a second"));
        let all = value("all seconds, mean of a second");
        match (mean, least, all) {
            (Some(mean), Some(least), _) => Some(format!(
                "{} it answers {} requests per second on average, {} in its slowest second.",
                steady(&outcome.plan).phrase(),
                figure(mean),
                figure(least)
            )),
            (_, _, Some(all)) => {
                Some(format!("It answers {} requests per second on average.", figure(all)))
            }
            _ => None,
        }
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        self.overlaid(std::slice::from_ref(outcome))
    }

    /// Plots several spare areas together.
    fn overlaid(&self, outcomes: &[Outcome]) -> Vec<String> {
        let names: Vec<String> = outcomes.iter().map(plots::variant).collect();
        let sequences = outcomes.iter().zip(&names).flat_map(|(outcome, name)| {
            let rates = outcome.series.iter().filter(|series| series.unit == "IOPS");
            rates.map(|series| plots::sequence(name, series))
        });
        let levels = outcomes.iter().flat_map(|outcome| plots::levels(outcome, "IOPS"));
        let levels: Vec<Level> = levels.collect();
        let sequences: Vec<Sequence<'_>> = sequences.collect();
        let longest = sequences.iter().map(|it| it.values.len()).max().unwrap_or(0);
        let steady = outcomes.first().map_or(USUAL, |outcome| steady(&outcome.plan));
        let from = steady.of(longest).map(|range| (range.start as f64, steady.name()));
        chart::consistency("4 KiB random writes, QD32", &sequences, from, &levels)
    }
}

/// Adds the minimum, the first percentile, the mean and the standard deviation of the seconds.
fn rows(rig: &TestRig, outcome: &mut Outcome, name: &str, answered: &[Second], partial: bool) {
    if answered.is_empty() {
        return;
    }
    let rates: Vec<f64> = answered.iter().map(|second| second.value).collect();
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    let mut sorted = rates.clone();
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
        // Only the mean has the seconds as samples, which give its interval.
        let seconds = if what == "mean" { answered.to_vec() } else { Vec::new() };
        outcome.add(rig, Row { partial, seconds, ..row });
    }
}

/// Adds AnandTech's consistency of 2015: the mean divided by the standard deviation.
fn over_deviation(rig: &TestRig, outcome: &mut Outcome, name: &str) {
    let row = |what: &str| outcome.row(&format!("{name}, {what} of a second"));
    let (Some(mean), Some(deviation)) = (row("mean"), row("standard deviation")) else { return };
    let (value, partial) = (mean.value / deviation.value.max(1e-9), mean.partial);
    let test = format!("{name}, mean over standard deviation");
    outcome.add(rig, Row { partial, ..Row::plain(test, "x", value) });
}

/// A rate below this percentage of the first minute's counts as a fall.
const FALL_PERCENT: u32 = 80;
/// Seconds of the first minute.
const FIRST: usize = 60;

/// Returns the first second in which the rate has fallen. None: it never has.
///
/// A second is compared with the mean of the part of the first minute that lies before it. So no
/// second is compared with a mean that includes it, and a fall within the first minute is found,
/// too.
fn fall(rates: &[f64]) -> Option<usize> {
    let mut sum = 0.0;
    for (second, rate) in rates.iter().enumerate() {
        let before = second.min(FIRST);
        let level = sum / before.max(1) as f64 * f64::from(FALL_PERCENT) / 100.0;
        if *rate < level {
            return Some(second);
        }
        if second < FIRST {
            sum += rate;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_is_found_within_the_first_minute_and_after_it() {
        let curve = |fall: usize, low: f64| -> Vec<f64> {
            (0..200).map(|second| if second < fall { 1000.0 } else { low }).collect()
        };
        assert_eq!(fall(&curve(35, 500.0)), Some(35));
        assert_eq!(fall(&curve(1, 799.0)), Some(1));
        assert_eq!(fall(&curve(60, 500.0)), Some(60));
        assert_eq!(fall(&curve(150, 500.0)), Some(150));
        assert_eq!(fall(&curve(150, 801.0)), None);
        // A slow start is no fall, and seconds after the first minute do not move the level.
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(fall(&rising), None);
        let sinking: Vec<f64> = (0..300).map(|second| 1000.0 - f64::from(second)).collect();
        assert_eq!(fall(&sinking), Some(224), "below 80 % of 970.5");
        assert_eq!(fall(&[]), None);
    }
}
