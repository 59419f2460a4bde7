//! Which parameter was chosen by which figure, and drives predicted from their family.

use crate::table::Table;
use drives::Model;
use suites::published::family::{Relatives, left_out};
use suites::published::parameters::{Parameter, is_recollected, parameters_of};
use suites::published::{Figure, figures, measure};

/// All presets with their parameters.
pub(crate) struct Presets(Vec<(Model, Vec<Parameter>)>);

/// Returns all presets.
pub(crate) fn all() -> Presets {
    let figures = figures();
    let models = Model::names().filter_map(Model::preset);
    Presets(
        models
            .map(|model| {
                let parameters = parameters_of(&model, &figures);
                (model, parameters)
            })
            .collect(),
    )
}

impl Presets {
    /// Whether a figure has set a parameter of its preset.
    pub(crate) fn has_set(&self, figure: &Figure) -> bool {
        let parameters = self.0.iter().find(|(model, _)| model.name == figure.drive);
        parameters.is_some_and(|(_, all)| all.iter().any(|it| it.figures.contains(&figure.what)))
    }

    /// Whether a preset rests on recollections.
    pub(crate) fn is_recollected(&self, drive: &str) -> bool {
        self.0.iter().any(|(model, _)| model.name == drive && is_recollected(model))
    }
}

/// Prints the parameters that figures have set, and the number of free ones of each preset.
pub(crate) fn print() {
    let presets = all();
    println!("preset\tparameter\tvalue\tchosen by");
    for (model, parameters) in &presets.0 {
        for parameter in parameters.iter().filter(|it| !it.figures.is_empty()) {
            let Parameter { key, value, figures, .. } = parameter;
            println!("{}\t{key}\t{value}\t{}", model.name, figures.join("; "));
        }
    }
    println!();
    println!(
        "| preset | parameters | free | set by its own figures | figures | that set nothing | |"
    );
    println!("|---|---|---|---|---|---|---|");
    let figures = figures();
    for (model, parameters) in &presets.0 {
        let free = parameters.iter().filter(|it| it.is_free).count();
        let set = parameters.iter().filter(|it| !it.figures.is_empty()).count();
        let own: Vec<&Figure> = figures.iter().filter(|it| it.drive == model.name).collect();
        let nothing = own
            .iter()
            .filter(|it| it.worth == suites::published::Worth::Predicted && !presets.has_set(it));
        let note = if is_recollected(model) { "a recollection" } else { "" };
        println!(
            "| {} | {} | {free} | {set} | {} | {} | {note} |",
            model.name,
            parameters.len(),
            own.len(),
            nothing.count()
        );
    }
}

/// Measures the figures on drives predicted from their family. A drive of which no parameter was
/// replaced is the same, and is left out; so is a figure that has set a parameter for which no
/// other drive has a value.
pub(crate) fn leave_out(
    figures: &[Figure],
    presets: &Presets,
    relatives: Relatives,
    table: &mut Table,
) {
    println!();
    for (model, _) in &presets.0 {
        let own: Vec<Figure> =
            figures.iter().filter(|it| it.drive == model.name).cloned().collect();
        let left = left_out(model, &presets.0, relatives);
        let Some(left) = left.filter(|left| !left.replaced.is_empty()) else {
            continue;
        };
        for (key, own, value, from) in left.replaced.iter().filter(|_| !own.is_empty()) {
            println!("{:<24} {key} {own} -> {value:.2} of {from}", model.name);
        }
        for kept in left.kept.iter().filter(|_| !own.is_empty()) {
            println!(
                "{:<24} {} is kept, as no other drive has a value; not predicted: {}",
                model.name,
                kept.key,
                kept.figures.join("; ")
            );
        }
        let has_set_kept =
            |figure: &Figure| left.kept.iter().any(|kept| kept.figures.contains(&figure.what));
        let changed: Vec<Figure> = own
            .into_iter()
            .filter(|figure| !has_set_kept(figure))
            .map(|mut figure| {
                figure.plan.target.model = Some(left.model.clone());
                figure
            })
            .collect();
        measure(&changed, |figure, found| table.left_out(figure, found));
    }
}
