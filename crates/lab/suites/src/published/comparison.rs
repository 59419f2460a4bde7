//! Published figures for the rows of an outcome.

use super::{Figure, Row as FigureRow, Wanted, class_of, figures_of};
use crate::outcome::{Outcome, Published};
use crate::plan::Plan;
use block::Size;

/// A published figure next to the measured one.
#[derive(Clone, Debug)]
pub struct FigureComparison {
    /// The published figure.
    pub figure: Figure,
    /// The value measured here, in the figure's unit.
    pub found: f64,
    /// The known differences of the published test. None: there are none.
    pub differs: Option<String>,
}

impl FigureComparison {
    /// Returns the same for a plot.
    pub fn published(&self) -> Published {
        let Figure { what, unit, wanted, row, .. } = &self.figure;
        let (low, high) = match *wanted {
            Wanted::Near(value) => (value, value),
            Wanted::Between(low, high) => (low, high),
            Wanted::Least(low) => (low, f64::INFINITY),
        };
        let test = match row {
            FigureRow::Value(test) => Some(test.clone()),
            FigureRow::MeanUs(_) | FigureRow::MostUs(_) => None,
        };
        Published { test, what: format!("{}: {what}", wanted.to_text()), unit, low, high }
    }
}

/// Returns the published figures of the modelled drive for the same test, with the same spare part
/// and in the same state: new, worn or trimmed. Other differences of the review are described.
/// Empty for a real target.
pub fn compare_with_published(outcome: &Outcome) -> Vec<FigureComparison> {
    let plan = &outcome.plan;
    let Some(model) = plan.target.published_model() else { return Vec::new() };
    let is_preset = drives::Model::names().any(|known| known == model.name);
    let figures = if is_preset { figures_of(&model.name) } else { Vec::new() };
    // A user's file may have the name of a preset.
    let figures =
        figures.into_iter().filter(|figure| figure.plan.target.model.as_ref() == Some(model));
    let found = figures.filter(|figure| is_comparable(&figure.plan, plan)).filter_map(|figure| {
        let found = figure.found(outcome)?;
        Some(FigureComparison { differs: differs(&figure, plan), figure, found })
    });
    found.collect()
}

fn is_comparable(there: &Plan, here: &Plan) -> bool {
    let is_prepared_alike = (&there.state, &there.preparation) == (&here.state, &here.preparation);
    there.suite.name == here.suite.name
        && there.spare_percent == here.spare_percent
        // Each pass of this suite is in a state of its own.
        && match here.suite.name {
            "trim" => is_prepared_alike,
            _ => class_of(there) == class_of(here),
        }
}

/// Describes the differences of the published test.
fn differs(figure: &Figure, here: &Plan) -> Option<String> {
    let there = &figure.plan;
    let mut differences = Vec::new();
    let (before, before_here) =
        (there.state.then(&there.preparation), here.state.then(&here.preparation));
    if before != before_here {
        let steps = if before.0.is_empty() { "nothing".to_owned() } else { before.to_string() };
        differences.push(format!("published: prepared by {steps}"));
    }
    if there.span() != here.span() {
        differences.push(format!("published: over {}", Size(there.span())));
    }
    if there.time_ns != here.time_ns && there.time_ns < 1_000_000_000_000_000 {
        differences.push(format!("published: for {} s", there.time_ns as f64 / 1e9));
    }
    if here.cache.is_some() {
        differences.push("published: without a cache".to_owned());
    }
    (!differences.is_empty()).then(|| differences.join("; "))
}
