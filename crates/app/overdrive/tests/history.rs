//! Results of suites are stored, listed, shown, printed and removed by `overdrive bench history`;
//! samples are shown by `overdrive volume history` and `overdrive drive history`.
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
fn a_damaged_history_is_set_aside_and_costs_no_result() {
    let home = tempfile::tempdir().expect("a directory");
    let place = home.path().join("overdrive");
    std::fs::create_dir(&place).expect("made");
    let file = place.join("history.sqlite3");
    std::fs::write(&file, "this is no database, and a long text").expect("written");
    // A command that only reads changes nothing.
    let listed = bench(home.path(), &["history"]);
    assert_eq!(listed.status.code(), Some(6));
    let output = bench(home.path(), &short("null:1G", &[]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("was damaged; it is ") && said.contains(".damaged-1 now"), "{said}");
    assert!(text(&output).contains("IOPS"));
    assert_eq!(text(&bench(home.path(), &["history"])).lines().count(), 2);
    let aside = place.join("history.sqlite3.damaged-1");
    assert!(std::fs::read_to_string(aside).expect("kept").starts_with("this is no database"));
}

fn history(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.args(arguments).stdin(Stdio::null());
    command.env("XDG_STATE_HOME", home).env("XDG_RUNTIME_DIR", home);
    command.output().expect("the command runs")
}

fn refused(output: &Output, status: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(words) && output.stdout.is_empty(), "{said}");
}

#[test]
fn samples_of_drives_are_listed_and_shown() {
    let home = tempfile::tempdir().expect("a directory");
    assert!(history(home.path(), &["drive", "history"]).status.success());
    let nothing = history(home.path(), &["drive", "history", "sda"]);
    refused(&nothing, 1, "'overdrive drive health sda' records a sample");
    assert!(!home.path().join("overdrive").exists(), "a command that reads makes nothing");
    let path = home.path().join("overdrive/samples.sqlite3");
    let mut samples = history::Samples::open(&path).expect("made");
    let drive = history::DriveIdentity {
        model: "Model, with a comma".to_owned(),
        serial: "S1".to_owned(),
        device: "/dev/sda".to_owned(),
    };
    for day in 0..3 {
        let figures = history::DriveFigures {
            passed: Some(1),
            worn_percent: Some(day),
            host_written_bytes: Some(1 << 30),
            ..Default::default()
        };
        let sample = history::DriveSample { at_s: 1_795_000_000 + day * 86_400, figures };
        samples.record_drive(&drive, &sample).expect("written");
    }
    drop(samples);
    let list = text(&history(home.path(), &["drive", "history", "-n"]));
    assert!(list.contains("/dev/sda") && list.contains("2 %"), "{list}");
    for name in ["sda", "/dev/sda", "S1"] {
        let shown = text(&history(home.path(), &["drive", "history", name]));
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(shown.contains("2026-11-18T") && shown.contains("1 GiB"), "{shown}");
    }
    let shown = text(&history(home.path(), &["drive", "history", "sda", "--json"]));
    let object: Value = serde_json::from_str(&shown).expect("an object");
    assert_eq!(object["schema"], "overdrive.drive.history/1");
    assert_eq!(
        (&object["samples"][2]["worn_percent"], &object["samples"][2]["passed"]),
        (&2.into(), &true.into())
    );
    let csv = text(&history(home.path(), &["drive", "history", "sda", "--csv"]));
    assert!(csv.starts_with("at,at_s,passed,host_written_bytes,"), "{csv}");
    refused(&history(home.path(), &["drive", "history", "sdb"]), 1, "sdb: was not recorded");
    refused(&history(home.path(), &["drive", "history", "--csv"]), 2, "");
}

#[test]
fn a_file_of_samples_of_a_later_program_or_a_damaged_one_is_refused_by_readers() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("overdrive/samples.sqlite3");
    drop(history::Samples::open(&path).expect("made"));
    let whole = std::fs::read(&path).expect("there");
    let mut later = whole.clone();
    // The version is at this place of a SQLite file's header.
    later[60..64].copy_from_slice(&7i32.to_be_bytes());
    std::fs::write(&path, &later).expect("written");
    for command in ["volume", "drive"] {
        let output = history(home.path(), &[command, "history"]);
        refused(&output, 6, "by a later version of Overdrive (layout 7; this one reads up to 1)");
    }
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("written");
    let _ = std::fs::remove_file(path.with_file_name("samples.sqlite3-wal"));
    std::fs::write(&path, "no database at all, but a text of some length").expect("written");
    refused(&history(home.path(), &["volume", "history"]), 6, "cannot be read as a history");
}
