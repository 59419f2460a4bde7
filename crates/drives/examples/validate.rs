//! The models against theory and against what was published of the real drives, as a table of target,
//! tolerance and result. `validate [SECTION...]` runs only these: theory, die, specification, turbowrite,
//! steady, revodrive, trim, intel, vertex, latency. Targets that are missed are printed as such; with `--strict`
//! they make the status 1.

mod validate {
    pub(crate) mod load;
    pub(crate) mod measured;
    pub(crate) mod specification;
    pub(crate) mod table;
    pub(crate) mod theory;
}

use validate::{measured, specification, table::Table, theory};

/// A section by its name.
type Section = (&'static str, fn(&mut Table));

const SECTIONS: [Section; 10] = [
    ("theory", theory::amplification),
    ("die", theory::die_bound),
    ("specification", specification::all),
    ("turbowrite", measured::turbowrite),
    ("latency", measured::latency),
    ("steady", measured::steady),
    ("revodrive", measured::revodrive),
    ("trim", measured::trim),
    ("intel", measured::intel),
    ("vertex", measured::vertex),
];

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
