//! What was published of real drives, and what the models make of it: each figure is a row of a suite that
//! users run, under the preparation that its review had.
//!
//! A figure is worth something only where nothing of it went into the model, so each says how far that
//! holds.

mod beside;
mod doubt;
mod reviews;
mod specification;

pub use beside::{Beside, beside};
pub use doubt::mark_doubts;

use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::suite::run;

/// What state a drive was in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// New, erased, or written in order only.
    New,
    /// Written at random.
    Worn,
    /// Trimmed after that.
    Trimmed,
}

impl Class {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Class::New => "new",
            Class::Worn => "worn",
            Class::Trimmed => "trimmed",
        }
    }
}

/// What agreement is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Worth {
    /// The target is a closed form.
    Theory,
    /// Nothing of the target is in the model.
    Predicted,
    /// A value or a policy that no source gives was chosen so that this comes out.
    Fitted,
    /// The target itself is one of the model's values: it is shown that the model obeys it.
    Circular,
}

impl Worth {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Worth::Theory => "closed form",
            Worth::Predicted => "predicted",
            Worth::Fitted => "fitted",
            Worth::Circular => "circular",
        }
    }
}

/// What was published: a value, a range, or a bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wanted {
    /// This.
    Near(f64),
    /// From one to the other.
    Between(f64, f64),
    /// At least this.
    Least(f64),
}

impl Wanted {
    /// How far off a value is, as a share of what was published: above it is positive. Within a range
    /// nothing is off.
    pub fn error(self, found: f64) -> f64 {
        let (low, high) = match self {
            Wanted::Near(value) => (value, value),
            Wanted::Between(low, high) => (low, high),
            Wanted::Least(low) => (low, f64::INFINITY),
        };
        if found < low {
            found / low - 1.0
        } else if found > high {
            found / high - 1.0
        } else {
            0.0
        }
    }

    /// For people.
    pub fn told(self) -> String {
        let figure = |value: f64| match value.abs() < 100.0 {
            true => format!("{}", (value * 1000.0).round() / 1000.0),
            false => format!("{value:.0}"),
        };
        match self {
            Wanted::Near(value) => figure(value),
            Wanted::Between(low, high) => format!("{}..{}", figure(low), figure(high)),
            Wanted::Least(low) => format!("{}..", figure(low)),
        }
    }
}

/// A published figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The preset.
    pub drive: String,
    /// What was measured.
    pub what: String,
    /// The unit.
    pub unit: &'static str,
    /// What was published.
    pub wanted: Wanted,
    /// In which state.
    pub class: Class,
    /// What agreement is worth.
    pub worth: Worth,
    /// Where it is from.
    pub source: String,
    /// Why it is more than a factor of two off, where it is known to be.
    pub missed: Option<&'static str>,
    /// What is run.
    pub plan: Plan,
    /// The row of its outcome.
    row: Row,
}

impl Figure {
    /// The same figure as a suite has measured it; None: it has no such row.
    pub fn found(&self, outcome: &crate::Outcome) -> Option<f64> {
        match &self.row {
            Row::Value(test) => outcome.row(test).map(|row| row.value),
            Row::MeanUs(test) => latency(outcome, test).map(|it| it.mean_ns() / 1e3),
            Row::MostUs(test) => latency(outcome, test).map(|it| it.max_ns() as f64 / 1e3),
        }
    }
}

/// Where in an outcome a figure stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Row {
    /// The value of the row of this name.
    Value(String),
    /// The mean latency of that row, in microseconds.
    MeanUs(String),
    /// The longest one.
    MostUs(String),
}

/// Every figure of every preset, in the order of the presets.
pub fn figures() -> Vec<Figure> {
    drives::Model::names().flat_map(figures_of).collect()
}

/// The figures of a preset.
pub fn figures_of(name: &str) -> Vec<Figure> {
    let mut all = specification::figures_of(name);
    all.extend(reviews::figures_of(name));
    all
}

/// Runs what the figures need, each plan once, and tells each with what came out, in the figures' order
/// but for those that share a plan. None: the suite has no such row.
pub fn measure(figures: &[Figure], mut each: impl FnMut(&Figure, Option<f64>)) {
    let mut told = vec![false; figures.len()];
    for number in 0..figures.len() {
        if told[number] {
            continue;
        }
        let plan = &figures[number].plan;
        let (outcome, _) = run(plan, &mut ());
        for (other, figure) in figures.iter().enumerate().skip(number) {
            if told[other] || figure.plan != *plan {
                continue;
            }
            told[other] = true;
            let found = figure.found(&outcome);
            each(figure, found);
        }
    }
}

/// What `validate --write` kept: drive, figure, value, in columns.
const KEPT: &str = include_str!("modelled.tsv");

/// What came out for a figure when all were last measured (`cargo run --release -p suites --example validate --
/// --write`), so that it can be shown without minutes of simulation. None: it was not among them.
pub fn kept(figure: &Figure) -> Option<f64> {
    kept_in(KEPT, &figure.drive, &figure.what)
}

/// The same in the text of such a file.
pub fn kept_in(text: &str, drive: &str, what: &str) -> Option<f64> {
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let line = lines.find(|line| line.starts_with(&[drive, what]))?;
    line.get(2)?.parse().ok()
}

fn latency<'a>(outcome: &'a crate::Outcome, test: &str) -> Option<&'a load::Latency> {
    outcome.row(test).and_then(|row| row.latency.as_ref())
}

/// The state that a drive is in after these preparations, the plan's in the end.
fn class_of(plan: &Plan) -> Class {
    let all: Preparation = plan.state.then(&plan.preparation);
    let has = |found: fn(&crate::Step) -> bool| all.0.iter().any(found);
    if has(|step| matches!(step, crate::Step::Trim { .. })) {
        Class::Trimmed
    } else if has(|step| matches!(step, crate::Step::Random { .. } | crate::Step::Torture { .. })) {
        Class::Worn
    } else {
        Class::New
    }
}
