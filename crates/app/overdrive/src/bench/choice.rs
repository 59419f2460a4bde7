//! The suites on the command line: their names and help texts.

use block::Size;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use suites::{ALL, PRESETS, Profile, Suite, find};

/// Returns a parser for the name of a suite.
pub(super) fn suites() -> impl TypedValueParser<Value = &'static dyn Suite> {
    let values = profiles().map(|suite| PossibleValue::new(suite.name).help(suite.about));
    PossibleValuesParser::new(values).map(|name| find(&name).expect("one of the suites"))
}

fn profiles() -> impl Iterator<Item = &'static Profile> {
    ALL.iter().map(|suite| suite.profile())
}

/// Returns the names of the suites that match.
fn names(which: impl Fn(&Profile) -> bool) -> String {
    let names = profiles().filter(|suite| which(suite)).map(|suite| suite.name);
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn state_help() -> String {
    let takes = names(|suite| suite.takes_state);
    format!("State of the whole drive before the suite: a name, or steps ({takes})")
}

pub(super) fn state_long_help() -> String {
    let usual = profiles().map(|suite| format!("{} {}", suite.name, suite.preparation));
    let usual: Vec<String> = usual.collect();
    format!(
        "{}.\n\n{}\n\nDefault preparation of the used part, by suite: {}",
        state_help(),
        steps_help(),
        usual.join(", ")
    )
}

/// Returns the help on the steps of a preparation, and on named preparations.
pub(super) fn steps_help() -> String {
    let presets = PRESETS.iter().map(|(name, steps, about)| {
        let steps = if steps.is_empty() { "-" } else { steps };
        format!("\n  {name:<12} {steps:<26} {about}")
    });
    format!(
        "Steps, separated by commas: fill, fill:DATA% (compressible to this), random:PERCENT%, \
         torture:SECONDSs or torture:BYTES:DEPTH:SECONDSs, trim, trim:BYTES, idle:SECONDSs. \
         Names:{}",
        presets.collect::<String>()
    )
}

pub(super) fn era_help() -> String {
    let years = |suite: &dyn Suite| {
        let eras: Vec<String> = suite.eras().iter().map(|era| era.to_string()).collect();
        format!("{} {}", suite.profile().name, eras.join(", "))
    };
    let with = ALL.iter().filter(|suite| !suite.eras().is_empty());
    let with: Vec<String> = with.map(|suite| years(*suite)).collect();
    format!("Run the test as reviewers did in a year ({})", with.join("; "))
}

pub(super) fn era_long_help() -> String {
    let eras = ALL.iter().flat_map(|suite| suite.eras());
    let lines = eras
        .map(|era| format!("\n  {:<12} {:<13} {}", era.profile.name, era.to_string(), era.about));
    format!("Run the test as reviewers did in a year:\n{}", lines.collect::<String>())
}

pub(super) fn span_help() -> String {
    let mut sizes: Vec<u64> = profiles().flat_map(|suite| suite.span_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let one = |&bytes: &u64| {
        format!("{} for {}, ", Size(bytes), names(|suite| suite.span_bytes == Some(bytes)))
    };
    let usual: String = sizes.iter().map(one).collect();
    format!("Use only the first SIZE bytes of the target [default: {usual}otherwise all]")
}

pub(super) fn time_help() -> String {
    let timed = profiles().filter(|suite| suite.time_ns > 0);
    let usual = timed.map(|suite| format!("{} {}s", suite.name, suite.time_ns / 1_000_000_000));
    let usual = usual.collect::<Vec<_>>().join(", ");
    format!("Duration of the timed parts [default: {usual}]")
}
