//! The models against theory and against what was published of the real drives: published, modelled, error
//! and what the row is worth, and the median error of new, worn and trimmed drives apart.
//! `validate [WORD...]` runs only what has one of the words in its name, `theory` the closed forms;
//! `--write` keeps what came out for `overdrive drive models NAME`; `--strict` makes a miss the status 1.

#[path = "validate/table.rs"]
mod table;
#[path = "validate/theory.rs"]
mod theory;

use suites::published::{Figure, figures, measure};
use table::Table;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(*word));
    let mut table = Table::new();
    if wants("theory") {
        theory::amplification(&mut table);
        theory::die_bound(&mut table);
    }
    let named =
        |figure: &Figure| format!("{} {} {}", figure.drive, figure.what, figure.class.name());
    let figures: Vec<Figure> = figures().into_iter().filter(|it| wants(&named(it))).collect();
    measure(&figures, |figure, found| table.figure(figure, found));
    let missed = table.end();
    if has("--strict") && missed > 0 {
        std::process::exit(1);
    }
}
