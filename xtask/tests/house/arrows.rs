//! Dependencies between the crates point downwards only.

use crate::metadata::{list, metadata, text};
use std::collections::BTreeSet;

/// The crates of the workspace that a crate may use, its tests included. Bottom to top.
const ALLOWED: [(&str, &[&str]); 48] = [
    ("allocations", &[]),
    ("lane", &["allocations"]),
    // Its tests use random latencies.
    ("histogram", &["lane"]),
    ("trace", &[]),
    ("hotlist", &[]),
    ("files", &[]),
    ("report", &[]),
    // Names in saved results are made printable.
    ("compare", &["lane", "block", "report"]),
    ("history", &[]),
    ("review", &["lane", "block", "compare", "report"]),
    ("block", &["lane"]),
    ("packing", &["allocations", "lane"]),
    // Its example generates traces.
    ("policy", &["allocations", "lane"]),
    ("simulator", &["lane", "block", "packing", "policy", "trace"]),
    ("traces", &["lane", "simulator", "trace"]),
    ("imitation", &["lane", "policy", "simulator", "trace", "traces"]),
    ("cache", &["allocations", "lane", "block", "policy", "histogram", "hotlist", "packing"]),
    ("layers", &["allocations", "lane", "block", "trace"]),
    ("pool", &["allocations", "lane", "block", "layers"]),
    ("drives", &["lane", "block"]),
    // Its tests put the cache in front of a drive.
    ("drive-backend", &["lane", "block", "cache", "drives", "histogram"]),
    ("host", &["lane", "block"]),
    ("ring", &["lane", "block", "host"]),
    ("mounted", &["files", "host"]),
    ("hints", &["block", "files", "hotlist", "policy"]),
    ("export", &["allocations", "lane", "block", "layers"]),
    ("fuse", &["lane", "block", "export"]),
    ("ublk", &["lane", "block", "export"]),
    ("authority", &[]),
    ("tls", &["authority", "lane", "block"]),
    // Its tests serve parts of blocks with a layer.
    ("nbd", &["lane", "block", "layers", "export", "authority", "tls"]),
    ("holder", &["lane", "block", "cache", "fuse", "host", "ring"]),
    // Its tests record requests, and replay them.
    ("load", &["lane", "block", "layers", "trace"]),
    ("suites", SUITES),
    // Its tests cut the links of a fence.
    ("crash", &["lane", "block", "cache", "hotlist", "layers", "nbd", "policy", "pool"]),
    ("explore", &["lane", "block", "cache", "policy"]),
    ("stack", STACK),
    ("rigs", &["lane", "block", "load", "nbd", "stack", "suites", "host", "ring"]),
    ("replay", &["block", "host", "load", "simulator", "suites", "trace", "traces"]),
    ("daemon", DAEMON),
    // Verdicts on what the daemon reports and what a simulation finds.
    ("advice", ADVICE),
    ("live", &["cache", "daemon", "histogram", "stack"]),
    ("dashboard", &["advice", "block", "daemon", "host", "live", "report", "stack"]),
    ("overdrive", OVERDRIVE),
    ("overdrive-python", PYTHON),
    ("benchmarks", BENCHMARKS),
    ("killtest", KILLTEST),
    ("xtask", &[]),
];

// Its tests run suites on a ring's lane, and record the requests there. An example compares a drive
// with a stripe.
const SUITES: &[&str] = &[
    "lane",
    "block",
    "cache",
    "layers",
    "pool",
    "drives",
    "drive-backend",
    "load",
    "trace",
    "host",
    "ring",
    "report",
    "stack",
];
// A test counts the allocations of reads from a server.
const STACK: &[&str] = &[
    "tls",
    "allocations",
    "lane",
    "block",
    "cache",
    "layers",
    "pool",
    "drives",
    "drive-backend",
    "host",
    "ring",
    "nbd",
    "holder",
];
// It records samples of its volumes.
const DAEMON: &[&str] = &[
    "history",
    "tls",
    "lane",
    "block",
    "cache",
    "files",
    "hints",
    "hotlist",
    "layers",
    "policy",
    "pool",
    "drives",
    "histogram",
    "trace",
    "drive-backend",
    "host",
    "ring",
    "export",
    "fuse",
    "nbd",
    "ublk",
    "holder",
    "stack",
];
// Its tests record latencies, and match events of a watched load.
const ADVICE: &[&str] = &[
    "lane",
    "block",
    "cache",
    "daemon",
    "histogram",
    "host",
    "report",
    "simulator",
    "trace",
    "traces",
];
// Its tests use the lossy disk of `killtest`.
const OVERDRIVE: &[&str] = &[
    "advice",
    "live",
    "dashboard",
    "lane",
    "block",
    "cache",
    "layers",
    "pool",
    "drives",
    "drive-backend",
    "host",
    "ring",
    "export",
    "nbd",
    "authority",
    "holder",
    "crash",
    "stack",
    "daemon",
    "files",
    "hints",
    "hotlist",
    "imitation",
    "load",
    "replay",
    "suites",
    "rigs",
    "killtest",
    "simulator",
    "packing",
    "review",
    "report",
    "compare",
    "history",
    "trace",
    "traces",
];
// Only what the command uses for the same tasks.
const PYTHON: &[&str] = &[
    "lane",
    "block",
    "drives",
    "host",
    "replay",
    "rigs",
    "simulator",
    "stack",
    "suites",
    "trace",
    "traces",
];
const KILLTEST: &[&str] = &["lane", "block", "export", "nbd", "host", "ring", "holder"];
const BENCHMARKS: &[&str] = &[
    "files",
    // The history whose pages are measured.
    "history",
    "mounted",
    "lane",
    "block",
    "packing",
    "policy",
    "cache",
    "hotlist",
    "layers",
    "drives",
    "drive-backend",
    "host",
    "ring",
    "export",
    "authority",
    "tls",
    "nbd",
    "ublk",
    "holder",
    "crash",
    "stack",
    "daemon",
    "load",
    "trace",
    "suites",
    "rigs",
    "simulator",
    "overdrive",
];

fn wrong_arrows(packages: &[(String, Vec<String>)]) -> Vec<String> {
    let members: BTreeSet<&String> = packages.iter().map(|(name, _)| name).collect();
    let mut wrong = Vec::new();
    for (name, dependencies) in packages {
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| known == name) else {
            wrong.push(format!("{name} has no place in the table of arrows; give it one"));
            continue;
        };
        let ours = dependencies.iter().filter(|used| members.contains(used));
        wrong.extend(
            ours.filter(|used| !allowed.contains(&used.as_str()))
                .map(|used| format!("{name} may not use {used}")),
        );
    }
    wrong
}

#[test]
fn the_arrows_between_crates_point_downwards() {
    let all = metadata(&["--no-deps"]);
    let packages: Vec<_> = list(&all, "packages")
        .iter()
        .map(|package| {
            let used = list(package, "dependencies").iter();
            let used = used.map(|dependency| text(dependency, "name").to_owned());
            (text(package, "name").to_owned(), used.collect())
        })
        .collect();
    assert!(packages.len() > 9, "cargo named {} crates", packages.len());
    assert_eq!(wrong_arrows(&packages), [""; 0]);
}

/// Crates that may enable the planted bugs and races in their builds.
const LABORATORIES: [&str; 3] = ["crash", "explore", "benchmarks"];

#[test]
fn the_product_is_built_without_planted_bugs() {
    let all = metadata(&["--no-deps"]);
    let products = list(&all, "packages").iter();
    let products = products.filter(|package| !LABORATORIES.contains(&text(package, "name")));
    let mut wrong = Vec::new();
    for package in products {
        for used in list(package, "dependencies") {
            let features = list(used, "features").iter();
            let plants = ["crash", "explore"].contains(&text(used, "name"))
                || features.into_iter().any(|name| name == "laboratory" || name == "explore");
            // Tests may use them: their builds are not shipped.
            if plants && text(used, "kind") != "dev" {
                wrong.push(format!("{} by {}", text(package, "name"), text(used, "name")));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "the features `laboratory` or `explore` would reach the product");
}

#[test]
fn an_arrow_that_points_upwards_is_found() {
    let package = |name: &str, used: &[&str]| {
        let used = used.iter().map(|name| (*name).to_owned()).collect();
        (name.to_owned(), used)
    };
    let packages = [
        package("lane", &["block", "serde"]),
        package("block", &["lane"]),
        package("stranger", &[]),
    ];
    assert_eq!(
        wrong_arrows(&packages),
        ["lane may not use block", "stranger has no place in the table of arrows; give it one"]
    );
}
