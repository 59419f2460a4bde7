//! The models against theory and against what was published of the real drives, as a table of target,
//! tolerance, result, and what each row is worth: a closed form, predicted, fitted or circular.
//! `validate [SECTION...]` runs only these: theory, die, specification, turbowrite, latency, steady,
//! revodrive, trim, full_span, intel, vertex. Targets that are missed are printed as such; with `--strict` they make
//! the status 1. `tests/validation.rs` holds each row.

#[path = "validate/mod.rs"]
mod validate;

use validate::{SECTIONS, table::Table};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let strict = words.iter().any(|word| word == "--strict");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let mut table = Table::new();
    for (name, run) in SECTIONS {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            run(&mut table);
        }
    }
    let missed = table.end();
    if strict && missed > 0 {
        std::process::exit(1);
    }
}
