//! `overdrive advise`, as users run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn advise(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("advise").args(arguments).current_dir(directory);
    command.output().expect("overdrive can be started")
}

fn object(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Writes a trace in MSR's format: one read per second of `blocks` different blocks.
fn trace(path: &Path, blocks: u64) {
    let line = |number: u64| {
        // Distances that differ: equal steps would be a stream.
        let block = number % blocks;
        let (time, offset) = (number * 10_000_000 + 128_166_372_003_061_629, block * block * 7);
        format!("{time},usr,0,Read,{},4096,5000\n", offset * 4096)
    };
    fs::write(path, (0..2000).map(line).collect::<String>()).expect("written");
}

#[test]
fn a_trace_is_answered_by_yes_or_no_with_a_page() {
    let home = tempfile::tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name);
    trace(&path("again.csv"), 10);
    let arguments = ["again.csv", "--latency", "8ms", "--json", "--report", "page.html"];
    let output = advise(&arguments, home.path());
    let (value, words) = (object(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!((&value["schema"], &value["kind"]), (&"overdrive.advise/1".into(), &"trace".into()));
    let sizes = value["sizes"].as_array().expect("sizes");
    assert_eq!(sizes[0]["memory_bytes"], 256 << 20);
    assert_eq!(sizes[0]["read_hit_ratio"], 0.995);
    let per_day = sizes[0]["saved_ns_per_day"].as_f64().expect("a number");
    // 1,990 hits of 7.99 ms within 1,999 s.
    let expected = 1990.0 * 7.99e6 / 1999.0 * 86_400.0;
    assert!((per_day / expected - 1.0).abs() < 1e-9, "{per_day}, {expected}");
    assert!(value["recommendation"].as_str().is_some_and(|it| it.ends_with(" --memory 256M")));
    let page = fs::read_to_string(path("page.html")).expect("a page");
    assert!(page.contains("Would a cache help? again.csv"));
    trace(&path("once.csv"), 2000);
    let output = advise(&["once.csv"], home.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("leave it: it would save you 0.0 us a day\n"), "{text}");
}

#[test]
fn little_is_answered_with_what_follows_from_so_little() {
    let home = tempfile::tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name);
    // Ten seconds: ten blocks, each read 100 times.
    let line = |number: u64| {
        let (time, block) = (number * 100_000 + 128_166_372_003_061_629, number % 10);
        format!("{time},usr,0,Read,{},4096,80000\n", block * block * 7 * 4096)
    };
    fs::write(path("short.csv"), (0..=1000).map(line).collect::<String>()).expect("written");
    let value = object(&advise(&["short.csv", "--json"], home.path()));
    let verdict = value["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("yes: ") && verdict.ends_with("(extrapolated from 10.00 s)"));
    let unseen = value["unseen"][0].as_str().expect("a gap");
    assert!(unseen.starts_with("Only 10.00 s were observed: a day is 8640 times that"), "{unseen}");
    // No times at all: ARC's format has none. The same block again and again.
    fs::write(path("times.arc"), "7 1 0 1\n".repeat(1000)).expect("written");
    let output = advise(&["times.arc", "--format", "arc", "--json"], home.path());
    let value = object(&output);
    assert_eq!(output.status.code(), Some(0), "{value}");
    assert_eq!(value["duration_ns"], serde_json::Value::Null);
    assert_eq!(value["latency_source"], "assumed");
    assert_eq!(value["sizes"][0]["saved_ns_per_day"], serde_json::Value::Null);
    let verdict = value["verdict"].as_str().expect("a verdict");
    assert!(verdict.ends_with(" in the observed time"), "{verdict}");
    let unseen = value["unseen"].to_string();
    assert!(unseen.contains("The trace has no times") && unseen.contains("are assumed"));
}

#[test]
fn a_target_that_is_none_is_refused_in_one_sentence() {
    let home = tempfile::tempdir().expect("a directory");
    let none = advise(&["nothing"], home.path());
    let words = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!((none.status.code(), words.lines().count()), (Some(2), 1), "{words}");
    assert!(words.contains("nothing: ") && words.contains("name a trace"), "{words}");
    fs::write(home.path().join("garbage"), [0u8; 64]).expect("written");
    let garbage = advise(&["garbage"], home.path());
    assert_ne!(garbage.status.code(), Some(0));
    assert!(garbage.stdout.is_empty() && !garbage.stderr.is_empty());
    // A directory without a device below it.
    let proc = advise(&["/proc", "--for", "1s"], home.path());
    let words = String::from_utf8_lossy(&proc.stderr).into_owned();
    assert_eq!(proc.status.code(), Some(2), "{words}");
    assert!(words.contains("no block device"), "{words}");
}
