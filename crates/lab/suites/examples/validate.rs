//! Compares the models with theory and with published figures of the real drives: published,
//! modelled, error and evidence of each row, and the median errors of new, worn and trimmed drives
//! and of latencies separately. `validate [WORD...]` runs only rows with one of the words in their
//! name, `theory` the closed forms; `--left-out` also runs each drive with the parameters that its
//! own figures have set replaced by those of its family, `--line-left-out` by those of other lines
//! only; `--saved` takes the values of the drives themselves from the last `--write`, which saves
//! them for `overdrive drive models NAME`; with `--strict` a miss gives status 1. `validate
//! parameters` runs nothing: it prints which parameter of which preset was chosen by which figure,
//! and counts the free ones.

#[path = "validate/parameters.rs"]
mod parameters;
#[path = "validate/table.rs"]
mod table;
#[path = "validate/theory.rs"]
mod theory;

use suites::published::family::Relatives;
use suites::published::{Figure, figures, kept_in, measure, stored_value};
use table::Table;

#[global_allocator]
static ALLOCATOR: host::HugeAllocator = host::HugeAllocator;

fn main() {
    host::want_huge_allocations();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let selects = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(*word));
    if words.first().is_some_and(|word| word == "parameters") {
        parameters::print();
        return;
    }
    let mut table = Table::new();
    if selects("theory") {
        theory::amplification(&mut table);
        theory::die_bound(&mut table);
    }
    let named =
        |figure: &Figure| format!("{} {} {}", figure.drive, figure.what, figure.class.name());
    let figures: Vec<Figure> = figures().into_iter().filter(|it| selects(&named(it))).collect();
    let presets = parameters::all();
    if has("--saved") {
        figures.iter().for_each(|figure| table.figure(figure, stored_value(figure), &presets));
    } else {
        measure(&figures, |figure, found| table.figure(figure, found, &presets));
    }
    let relatives = match (has("--line-left-out"), has("--left-out")) {
        (true, _) => Some(Relatives::OtherLines),
        (false, true) => Some(Relatives::Others),
        (false, false) => None,
    };
    if let Some(relatives) = relatives {
        parameters::leave_out(&figures, &presets, relatives, &mut table);
    }
    if has("--write") {
        keep(&table);
    }
    let missed = table.end();
    if has("--strict") && missed > 0 {
        std::process::exit(1);
    }
}

/// The file that `overdrive drive models NAME` reads.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/published/modelled.tsv");

/// Replaces the saved figures by those measured now; keeps those not measured, and drops those that
/// no longer exist.
fn keep(table: &Table) {
    let before = std::fs::read_to_string(KEPT).unwrap_or_default();
    let mut kept = String::new();
    for figure in suites::published::figures() {
        let (drive, what) = (&figure.drive, &figure.what);
        let found = table.found.iter().find(|(of, name, _)| of == drive && name == what);
        let value = found.map(|(.., value)| *value).or_else(|| kept_in(&before, drive, what));
        if let Some(value) = value {
            let digits = if value.abs() < 100.0 { 2 } else { 0 };
            kept.push_str(&format!("{drive}\t{what}\t{value:.digits$}\n"));
        }
    }
    if let Err(error) = std::fs::write(KEPT, kept) {
        eprintln!("{KEPT}: {error}");
    }
}
