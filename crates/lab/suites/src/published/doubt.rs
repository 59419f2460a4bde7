//! Rows of modelled drives that published figures contradict, or that none supports.
//!
//! A model of a drive is made from its specification, which describes a new drive. The speed of a
//! used one follows from policies of the firmware that no publication describes. So a row of a used
//! drive is reliable only if a figure of that drive, in that state and for that kind of requests,
//! was published and is met.

use super::parameters::is_recollected;
use super::{Class, Figure, Row as FigureRow, Worth, figures_of, stored_value};
use crate::access::Access;
use crate::outcome::Outcome;
use crate::preparation::{Preparation, Step};

/// Marks the rows of a modelled drive whose model is in doubt.
pub fn mark_doubts(outcome: &mut Outcome) {
    let Some(model) = outcome.plan.target.published_model() else { return };
    if !drives::Model::names().any(|known| known == model.name) {
        return;
    }
    let figures = figures_of(&model.name);
    let is_same = |figure: &Figure| figure.plan.target.model.as_ref() == Some(model);
    let figures: Vec<Figure> = figures.into_iter().filter(is_same).collect();
    let wears_itself = outcome.plan.suite.name == "consistency";
    for row in &mut outcome.rows {
        let class = if wears_itself { Class::Worn } else { class_of(&row.prepared) };
        row.doubt = row.access.and_then(|access| doubt(&figures, class, access));
        if row.doubt.is_none() && is_recollected(model) {
            row.doubt = Some(RECOLLECTED.to_owned());
        }
    }
}

/// The doubt in every row of a drive of which no published figure was found.
const RECOLLECTED: &str = "this model rests on a recollection of the drive's specification; ranks \
                           among such models are not those of the drives";

/// Describes the doubt in a model for requests of this kind to a drive in this state.
fn doubt(figures: &[Figure], class: Class, access: Access) -> Option<String> {
    let alike = figures.iter().filter(|figure| figure.class == class && of(figure) == access);
    let mut checked = false;
    for figure in alike {
        let Some(found) = stored_value(figure) else { continue };
        if let Some(reason) = figure.missed {
            let (wanted, unit) = (figure.wanted.to_text(), figure.unit);
            let what = format!("the model has {found:.0} {unit}, but {wanted} were published");
            return Some(format!("{what} ({}): {reason}", figure.source));
        }
        checked |= figure.worth != Worth::Circular;
    }
    let (kind, state) = (access.name(), class.name());
    // A new drive's specification is one of the model's values, if one was published.
    let is_new = class == Class::New || access == Access::Reads;
    let is_supported = checked || is_new && !figures.is_empty();
    (!is_supported).then(|| format!("no published figure of {kind} for this drive when {state}"))
}

/// Returns the kind of requests of a figure.
fn of(figure: &Figure) -> Access {
    let (FigureRow::Value(test) | FigureRow::MeanUs(test) | FigureRow::MostUs(test)) = &figure.row;
    match figure.plan.suite.name {
        "trim" | "seqfill" => Access::SequentialWrites,
        "consistency" => Access::RandomWrites,
        _ if test.contains("read") => Access::Reads,
        _ if test.contains("sequential") || test.starts_with("Seq ") => Access::SequentialWrites,
        _ => Access::RandomWrites,
    }
}

/// Returns the state of a drive after the steps that a row prints.
fn class_of(prepared: &str) -> Class {
    let steps = Preparation::parse(prepared).unwrap_or_default();
    steps.0.iter().fold(Class::New, |class, step| match step {
        Step::Random { .. } | Step::Torture { .. } => Class::Worn,
        Step::Trim { .. } if class != Class::New => Class::Trimmed,
        Step::Trim { .. } | Step::Fill { .. } | Step::Idle { .. } => class,
    })
}
