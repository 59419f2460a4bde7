//! Results of suites are stored, listed, shown, printed and removed by `overdrive bench history`.
#![cfg(feature = "history")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bench(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", home).env("XDG_DATA_HOME", home);
    command.output().expect("the command runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn short<'a>(target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["custom", target, "--time", "50ms", "--span", "64M"], more].concat()
}

#[test]
fn a_result_is_kept_and_comes_back_as_it_was_printed() {
    let home = tempfile::tempdir().expect("a directory");
    let printed = text(&bench(home.path(), &short("null:1G", &["--json"])));
    let mut printed: Value = serde_json::from_str(&printed).expect("an object");
    text(&bench(home.path(), &short("ram:64M", &[])));
    text(&bench(home.path(), &short("ram:64M", &["--no-history"])));
    let list = text(&bench(home.path(), &["history"]));
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[0].starts_with("RUN AT") && lines[2].contains("null:1G"), "{list}");
    let kept: Value = serde_json::from_str(&text(&bench(home.path(), &["history", "1", "--json"])))
        .expect("an object");
    assert_eq!(kept, printed);
    let shown = text(&bench(home.path(), &["history", "1"]));
    for part in [
        "Own loads on null:1G",
        "bench custom null:1G",
        "machine: kernel",
        "memory ",
        "(shortened)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let csv = text(&bench(home.path(), &["history", "--csv", "--target", "null"]));
    let rows = printed["rows"].as_array_mut().expect("a list");
    assert_eq!(csv.lines().count(), 1 + rows.len(), "{csv}");
    assert!(csv.contains("\"random 4 KiB reads, QD1\""), "{csv}");
}

#[test]
fn what_is_not_there_is_said_and_what_is_removed_is_gone() {
    let home = tempfile::tempdir().expect("a directory");
    for (arguments, sentence) in [
        (&["history"][..], "no result is stored yet; each suite stores its own"),
        (&["history", "--target", "null"], "there are no such results"),
    ] {
        let none = bench(home.path(), arguments);
        let said = String::from_utf8_lossy(&none.stderr);
        assert!(none.status.success() && said.contains(sentence), "{said}");
    }
    assert!(!home.path().join("overdrive").exists(), "to look makes nothing");
    text(&bench(home.path(), &short("null:1G", &[])));
    text(&bench(home.path(), &["history", "1", "--remove"]));
    for arguments in [&["history", "1"][..], &["history", "1", "--remove"]] {
        let output = bench(home.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("there is no result 1; 'overdrive bench history' lists them"),
            "{said}"
        );
    }
}

#[test]
fn a_history_that_cannot_be_written_costs_no_result() {
    let home = tempfile::tempdir().expect("a directory");
    let place = home.path().join("overdrive");
    std::fs::create_dir(&place).expect("made");
    std::fs::write(place.join("history.sqlite3"), "this is no database, and a long text")
        .expect("written");
    let output = bench(home.path(), &short("null:1G", &[]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("the result could not be stored: ") && said.contains("move it away"),
        "{said}"
    );
    assert!(text(&output).contains("IOPS"));
    let listed = bench(home.path(), &["history"]);
    assert_eq!(listed.status.code(), Some(6));
}
