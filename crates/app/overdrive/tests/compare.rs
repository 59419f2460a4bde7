//! `overdrive bench compare` on results of suites, and on other files.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bench(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("bench").args(arguments).stdin(Stdio::null()).current_dir(home);
    command.env("XDG_CACHE_HOME", home).env("XDG_DATA_HOME", home);
    command.output().expect("the command runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a run on a drive that takes a moment to simulate, for twelve seconds of its time.
fn consistency<'a>(spare: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    const DRIVE: &str =
        concat!("model:", env!("CARGO_MANIFEST_DIR"), "/../../lab/suites/tests/small.toml");
    [&["consistency", DRIVE, "--time", "12s", "--spare", spare], more].concat()
}

#[test]
fn a_drive_with_more_spare_area_is_distinguished_from_noise() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let printed = text(&bench(home, &consistency("0,25", &["--json", "--report", "both.html"])));
    std::fs::write(home.join("both.json"), &printed).expect("a file");
    // Both runs are in one file, which is enough; so does the page.
    let stdout = text(&bench(home, &["compare", "both.json"]));
    for part in ["A: 0 % spare (both.json)", "B: 25 % spare", "left unused", "batch means"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    // Names of tests go on in the next line, so that a table has 100 columns.
    let line = |stdout: &str, test: &str| -> String {
        let line = stdout.lines().find(|line| line.starts_with(test));
        line.unwrap_or_else(|| panic!("{test}: {stdout}")).to_owned()
    };
    let mean = line(&stdout, "all seconds, mean of a ");
    assert!(mean.contains(" ± ") && mean.contains(" % ("), "{mean}");
    assert!(line(&stdout, "all seconds, least of a ").ends_with("no interval"), "{stdout}");
    let of_page = text(&bench(home, &["compare", "both.html"]));
    assert_eq!(of_page.replace("both.html", "both.json"), stdout);
    // Each spare share is a separate result in the history.
    let of_history = text(&bench(home, &["compare", "history:1", "history:2"]));
    assert_eq!(line(&of_history, "all seconds, mean of a "), mean);
    assert_eq!(bench(home, &["compare", "history:9", "history:1"]).status.code(), Some(1));
    let with_itself = ["compare", "history:1", "history:1", "--json", "--report", "c.html"];
    let same: Value = serde_json::from_str(&text(&bench(home, &with_itself))).expect("an object");
    assert_eq!(same["schema"], "overdrive.bench.compare/1");
    let verdicts = same["lines"].as_array().expect("lines").iter();
    let verdicts: Vec<&Value> = verdicts.map(|line| &line["against_first"][0]["verdict"]).collect();
    assert!(verdicts.iter().any(|verdict| **verdict == "noise"), "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| **verdict == "noise" || **verdict == "no interval"));
    assert_eq!(same["not_the_same"], serde_json::json!({}));
    let page = std::fs::read_to_string(home.join("c.html")).expect("the page");
    assert!(page.contains("95 % interval") && page.ends_with("</html>\n"));
}

#[test]
fn what_is_no_result_is_refused_with_file_place_and_status() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(home.join(name), bytes).expect("a file");
    write("empty.json", b"");
    write("cut.json", b"{\"schema\":\"overdrive.bench/1\",\n\"suite\":");
    write("binary.json", &[0xff, 0xfe, 0, 1]);
    write(
        "other.json",
        b"{\"schema\":\"overdrive.sim/1\",\"suite\":\"\",\"target\":\"\",\"rows\":[]}",
    );
    write(
        "nothing.json",
        b"{\"schema\":\"overdrive.bench/1\",\"suite\":\"a\",\"target\":\"\",\"rows\":[]}",
    );
    for (files, status, says) in [
        (&["empty.json", "empty.json"][..], 7, "empty.json: line 1, column 0: EOF"),
        (&["nothing.json", "cut.json"], 7, "cut.json: line 2, column 8: EOF"),
        (&["binary.json"], 7, "binary.json: "),
        (&["other.json"], 7, "other.json: schema: is 'overdrive.sim/1'"),
        (&["nothing.json"], 2, "nothing.json: is one result; give two or more"),
        (&["nothing.json", "nothing.json"], 2, "have no test in common"),
        (&["missing.json"], 1, "missing.json: No such file"),
        (&["."], 6, ".: Is a directory"),
        (&["history:x"], 2, "history:x: "),
        (&["history:1"], 1, "there is no result 1"),
    ] {
        let output = bench(home, &[&["compare"], files].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{says}: {stderr}");
        assert!(stderr.starts_with("overdrive: ") && stderr.contains(says), "{stderr}");
        assert!(output.stdout.is_empty(), "{says}");
    }
}
