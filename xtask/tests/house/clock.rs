//! The engine's only clock, threads and randomness are those of its lane.

use crate::source::{Name, Source, of_crates};

/// Crates in which every step must follow from the seed.
const PURE: [&str; 20] = [
    "files",
    "lane",
    "histogram",
    "hotlist",
    "block",
    "policy",
    "packing",
    "cache",
    "layers",
    "pool",
    "drives",
    "drive-backend",
    "export",
    "fuse",
    "nbd",
    "ublk",
    "crash",
    "load",
    "suites",
    "trace",
];

/// Words that are forbidden in them.
const WORDS: [&str; 3] = ["Instant", "SystemTime", "RandomState"];

/// Beginnings of paths that are forbidden in them. The maps of std have random seeds; a BTreeMap,
/// or a map with another hasher, does not.
const PATHS: [&[&str]; 5] = [
    &["std", "thread"],
    &["std", "time", "*"],
    &["std", "collections", "HashMap"],
    &["std", "collections", "HashSet"],
    &["std", "collections", "*"],
];

/// Parts of these crates outside simulated worlds, as paths or their beginnings: the driver of the
/// laboratory counts seconds and starts threads, which does not influence choices inside a world;
/// and the client that blocks in the kernel, on no lane, for a limited time.
const OUTSIDE: [&str; 3] = [
    "crates/proof/crash/src/bin/",
    "crates/proof/crash/src/hunt.rs",
    "crates/fronts/nbd/src/client/blocking.rs",
];

fn is_outside(source: &Source) -> bool {
    OUTSIDE.iter().any(|place| source.path.starts_with(place))
}

fn is_banned(name: &Name) -> bool {
    let segments: Vec<&str> = name.segments.iter().map(String::as_str).collect();
    segments.iter().any(|segment| WORDS.contains(segment))
        || PATHS.iter().any(|path| segments.starts_with(path))
}

fn banned(source: &Source) -> Vec<String> {
    let names = source.shipped_names();
    let banned = names.iter().filter(|name| is_banned(name));
    banned
        .map(|name| format!("{}:{}: {}", source.path, name.line, name.segments.join("::")))
        .collect()
}

#[test]
fn the_engine_has_no_clock_thread_or_random_map() {
    let sources = of_crates(&PURE);
    let inside = sources.iter().filter(|source| !is_outside(source));
    let wrong: Vec<_> = inside.flat_map(banned).collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn each_banned_name_is_found_and_its_neighbours_are_not() {
    let found = |text: &str| {
        let (path, text) = (String::new(), text.to_owned());
        banned(&Source { path, text }).len()
    };
    for bad in [
        "use std::time::Instant;",
        "use std::{collections::{BTreeMap, HashMap}};",
        "fn f() { std::thread::yield_now() }",
        "use std::thread;",
        "use std::time; fn f() { time::SystemTime::now(); }",
        "use std::time::*;",
        "type Set = std::collections::HashSet<u8>;",
    ] {
        assert!(found(bad) > 0, "{bad}");
    }
    for good in [
        "use std::collections::BTreeMap;",
        "use std::time::Duration;",
        "thread_local! { static X: u8 = 0; }",
        "// std::thread\nfn thread() {}",
        "#[cfg(test)] mod tests { use std::thread; }",
    ] {
        assert_eq!(found(good), 0, "{good}");
    }
}
