//! Published figures of real drives, compared with the models: each figure is a row of a suite that
//! users run, with the preparation of its review.
//!
//! Only a figure that did not go into the model tests it, so each figure names its evidence.

mod comparison;
mod doubt;
pub mod family;
pub mod parameters;
mod reviews;
mod specification;

pub use comparison::{FigureComparison, compare_with_published};
pub use doubt::mark_doubts;

use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::suite::run;

/// State of a drive.
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
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Class::New => "new",
            Class::Worn => "worn",
            Class::Trimmed => "trimmed",
        }
    }
}

/// Evidence from agreement with a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Worth {
    /// The target is a closed form.
    Theory,
    /// The figure did not go into the model.
    Predicted,
    /// A value or a policy that no source gives was chosen to reproduce this figure.
    Fitted,
    /// The figure is one of the model's values: agreement only shows that the model follows it.
    Circular,
}

impl Worth {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Worth::Theory => "closed form",
            Worth::Predicted => "predicted",
            Worth::Fitted => "fitted",
            Worth::Circular => "circular",
        }
    }
}

/// A published value, range, or bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wanted {
    /// A value.
    Near(f64),
    /// A range.
    Between(f64, f64),
    /// A lower bound.
    Least(f64),
}

impl Wanted {
    /// Returns the error of a value as a share of the published one, positive if it is above. The
    /// error within a range is 0.
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

    /// Formats it for users.
    pub fn to_text(self) -> String {
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
    /// The name of the preset.
    pub drive: String,
    /// The name of the figure.
    pub what: String,
    /// The unit.
    pub unit: &'static str,
    /// The published value.
    pub wanted: Wanted,
    /// The state of the drive.
    pub class: Class,
    /// The evidence from agreement.
    pub worth: Worth,
    /// The source.
    pub source: String,
    /// The reason for an error of more than a factor of two, if there is one.
    pub missed: Option<&'static str>,
    /// The plan to run.
    pub plan: Plan,
    /// The row of its outcome.
    row: Row,
}

impl Figure {
    /// Returns the same figure from an outcome. None: it has no such row.
    pub fn found(&self, outcome: &crate::Outcome) -> Option<f64> {
        match &self.row {
            Row::Value(test) => outcome.row(test).map(|row| row.value),
            Row::MeanUs(test) => latency(outcome, test).map(|it| it.mean_ns() / 1e3),
            Row::MostUs(test) => latency(outcome, test).map(|it| it.max_ns() as f64 / 1e3),
        }
    }
}

/// The position of a figure in an outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Row {
    /// The value of the row of this name.
    Value(String),
    /// The mean latency of that row, in microseconds.
    MeanUs(String),
    /// The maximum latency of that row, in microseconds.
    MostUs(String),
}

/// Returns every figure of every preset, in the order of the presets.
pub fn figures() -> Vec<Figure> {
    drives::Model::names().flat_map(figures_of).collect()
}

/// Returns the figures of a preset.
pub fn figures_of(name: &str) -> Vec<Figure> {
    let mut all = specification::figures_of(name);
    all.extend(reviews::figures_of(name));
    all
}

/// Runs the plans of the figures, each plan once, and calls `each` with every figure and its
/// measured value, in the order of the figures except that those of one plan come together. None:
/// the suite has no such row.
pub fn measure(figures: &[Figure], mut each: impl FnMut(&Figure, Option<f64>)) {
    let mut is_measured = vec![false; figures.len()];
    for number in 0..figures.len() {
        if is_measured[number] {
            continue;
        }
        let plan = &figures[number].plan;
        let (outcome, _) = run(plan, &mut ());
        for (other, figure) in figures.iter().enumerate().skip(number) {
            if is_measured[other] || figure.plan != *plan {
                continue;
            }
            is_measured[other] = true;
            let found = figure.found(&outcome);
            each(figure, found);
        }
    }
}

/// The output of `validate --write`: drive, figure, value, in columns.
const KEPT: &str = include_str!("modelled.tsv");

/// Returns the value of a figure at the last full measurement
/// (`cargo run --release -p suites --example validate -- --write`), so that it can be shown without
/// minutes of simulation. None: it was not measured then.
pub fn stored_value(figure: &Figure) -> Option<f64> {
    kept_in(KEPT, &figure.drive, &figure.what)
}

/// Returns the value of a figure from the text of such a file.
pub fn kept_in(text: &str, drive: &str, what: &str) -> Option<f64> {
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let line = lines.find(|line| line.starts_with(&[drive, what]))?;
    line.get(2)?.parse().ok()
}

fn latency<'a>(outcome: &'a crate::Outcome, test: &str) -> Option<&'a load::Latency> {
    outcome.row(test).and_then(|row| row.latency.as_ref())
}

/// Returns the state of a drive after the preparations of this plan.
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
