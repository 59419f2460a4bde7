//! The table of `cargo run --release -p drives --example validate`, held: a row that leaves its tolerance
//! fails, and so does one that is listed as a known miss and is met. Sections of a minute each are run on
//! demand: `cargo test --release -p drives --test validation -- --include-ignored`.

#[path = "../examples/validate/mod.rs"]
mod validate;

use validate::SECTIONS;
use validate::table::{KNOWN_MISSES, Table};

fn hold(section: &str) {
    let (_, run) = SECTIONS.iter().find(|(name, _)| *name == section).expect("a section");
    let mut table = Table::new();
    run(&mut table);
    table.end();
    assert!(!table.rows.is_empty());
    let known = KNOWN_MISSES.iter().map(|(what, _)| *what);
    let known: Vec<&str> = known.filter(|what| table.rows.iter().any(|row| row == what)).collect();
    assert_eq!(table.missed, known, "missed, and known to be missed");
}

/// One test a section, so that they run side by side.
macro_rules! sections {
    ($($(#[$attribute:meta])* $section:ident)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $section() {
                hold(stringify!($section));
            }
        )*

        #[test]
        fn every_section_is_held() {
            let held = [$(stringify!($section)),*];
            assert_eq!(SECTIONS.map(|(name, _)| name), held);
        }
    };
}

sections! {
    theory
    die
    specification
    turbowrite
    latency
    #[ignore = "a minute; cargo test --release -p drives --test validation -- --ignored"]
    steady
    #[ignore = "a minute; cargo test --release -p drives --test validation -- --ignored"]
    revodrive
    #[ignore = "a minute; cargo test --release -p drives --test validation -- --ignored"]
    trim
    #[ignore = "half a minute; cargo test --release -p drives --test validation -- --ignored"]
    full_span
    intel
    vertex
}
