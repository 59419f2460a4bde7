//! `overdrive doctor`, and the quick demo, as users run them.

use std::path::Path;
use std::process::{Command, Output};

const OVERDRIVE: &str = env!("CARGO_BIN_EXE_overdrive");

fn run(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(OVERDRIVE);
    command.args(arguments).current_dir(directory);
    command.output().expect("overdrive can be started")
}

fn object(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn doctor_says_that_serve_works_where_these_tests_do() {
    let place = tempfile::tempdir().expect("a directory");
    let output = run(&["doctor", "--json"], place.path());
    let value = object(&output);
    assert_eq!(value["schema"], "overdrive.doctor/1");
    assert_eq!(value["serve"], true);
    let to_mend = value["to_mend"].as_u64().expect("a number");
    assert_eq!(output.status.code(), Some(i32::from(to_mend > 0)));
    let checks = value["checks"].as_array().expect("a list");
    for name in [
        "kernel",
        "io_uring",
        "memory",
        "direct I/O",
        "image locks",
        "short memory",
        "CPU governor",
        "transparent pages",
        "fio",
        "nbdcopy",
    ] {
        let found: Vec<_> = checks.iter().filter(|check| check["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        assert!(!found[0]["found"].as_str().expect("words").is_empty(), "{name}");
    }
    let costly = |check: &&serde_json::Value| check["state"] == "mend";
    assert_eq!(checks.iter().filter(costly).count() as u64, to_mend);
    for check in checks {
        assert_eq!(check["state"] == "mend", check["effect"].is_string() && costly(&check));
        let is_worse = check["state"] != "ok" && check["group"] != "also";
        assert!(!is_worse || check["mend"].is_string(), "no mend: {check}");
    }
    let left = place.path().read_dir().expect("readable").count();
    assert_eq!(left, 0, "doctor leaves nothing behind");
}

#[test]
fn doctor_finds_programs_by_path_and_names_what_is_missing() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(OVERDRIVE);
    let output = command.arg("doctor").env("PATH", place.path()).output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = text.lines().collect();
    let fio = lines.iter().position(|line| line.starts_with("  missing  fio ")).expect("missing");
    assert!(lines[fio + 1].contains("-> ") && lines[fio + 1].contains("install"), "{text}");
    let costs = lines.iter().any(|line| line.starts_with("  mend     "));
    assert_eq!(output.status.code(), Some(i32::from(costs)), "serve needs no programs");
    assert!(lines[0].starts_with("overdrive serve can work here"), "the verdict first: {text}");
    assert!(
        !text.contains("qemu-io") && !text.contains('\x1b') && !text.contains("not use"),
        "{text}"
    );
    let all = Command::new(OVERDRIVE).args(["doctor", "--all"]).output().expect("started");
    assert!(String::from_utf8_lossy(&all.stdout).contains("qemu-io"), "tools of the tests");
}

#[test]
fn demo_says_what_to_install() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(OVERDRIVE);
    command.args(["demo", "--dir"]).arg(place.path()).env("PATH", place.path());
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("the demo needs") && words.contains("fio"), "{words}");
    assert!(words.contains("apt-get install"), "{words}");
    assert_eq!(words.lines().count(), 1, "one sentence: {words}");
}

#[test]
fn demo_refuses_a_place_that_is_not_there() {
    let place = tempfile::tempdir().expect("a directory");
    let output = run(&["demo", "--dir", "nowhere"], place.path());
    if has_programs() {
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--dir"));
    }
}

#[test]
fn demo_in_its_small_form_measures_verifies_and_cleans_up() {
    if !has_programs() {
        eprintln!("skipped: fio, nbdcopy or mkfs.ext4 is missing");
        return;
    }
    // Not below /tmp: if that is memory, there is no direct I/O.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let directory = place.path().to_str().expect("plain");
    let output = run(&["demo", "--quick", "--json", "--dir", directory], place.path());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{words}");
    let value = object(&output);
    assert_eq!(value["schema"], "overdrive.demo/1");
    assert_eq!(value["verified"], true);
    let sides = value["sides"].as_array().expect("three sides");
    assert_eq!(sides.len(), 3);
    for side in &sides[..2] {
        assert!(side["database_ns"].as_u64().expect("measured") > 0);
        assert_eq!(side["copy_ns"].as_array().expect("rounds").len(), 3);
    }
    // Either there is a third column, or the reason why there is none.
    assert_eq!(sides[2]["database_ns"].is_null(), value["no_page_cache"].is_string());
    assert_eq!(place.path().read_dir().expect("readable").count(), 0, "nothing is left");
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("readable");
    assert!(!mounts.contains(directory), "nothing stays mounted");
}

fn has_programs() -> bool {
    let output = run(&["doctor", "--json"], Path::new("."));
    let value = object(&output);
    let checks = value["checks"].as_array().expect("a list");
    ["mkfs.ext4", "e2fsck", "fio", "nbdcopy"]
        .iter()
        .all(|name| checks.iter().any(|check| check["name"] == *name && check["state"] == "ok"))
}
