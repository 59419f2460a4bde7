//! `overdrive review`: columns, verdict, continuation, and what is refused.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The tests' small drive.
const SMALL: &str =
    concat!("model:", env!("CARGO_MANIFEST_DIR"), "/../../lab/suites/tests/small.toml?seed=5");
const PRICES: &str = r#"{"prices":{"hit_ns":300,"miss_ns":500,"fill_ns":400,"absorb_ns":500,
    "pass_ns":400,"write_out_ns":300,"flush_ns":500}}"#;

fn review(home: &Path, arguments: &[&str]) -> Command {
    let prices = home.join("prices.json");
    std::fs::write(&prices, PRICES).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("review").args(arguments).stdin(Stdio::null()).current_dir(home);
    command.env("XDG_CACHE_HOME", home).env("XDG_DATA_HOME", home.join("data"));
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    review(home, arguments).output().expect("the command runs")
}

fn modelled<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let always = ["--quick", "--cache", "64M", "--prices", "prices.json", "--baseline", SMALL];
    [&[SMALL][..], &always, arguments].concat()
}

fn object(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

fn names(object: &Value) -> Vec<&str> {
    let columns = object["columns"].as_array().expect("columns");
    columns.iter().filter_map(|column| column["name"].as_str()).collect()
}

#[test]
fn a_review_of_a_model_has_columns_and_a_verdict_and_is_the_same_again() {
    let home = tempfile::tempdir().expect("a directory");
    let arguments = modelled(&["--only", "qd1,cdm", "--with", "rapid", "--json"]);
    let output = run(home.path(), &[&arguments[..], &["--report", "review.html"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("overdrive: review of model:") && said.contains("about "), "{said}");
    let first = object(&output);
    assert_eq!(first["schema"], "overdrive.review/1");
    assert_eq!(names(&first), ["bare", "cold", "warm", "again", "rapid"]);
    assert_eq!(first["verdict"].as_array().map(Vec::len), Some(3));
    assert_eq!(first["complete"], true);
    let rows = |name: &str| {
        let columns = first["columns"].as_array().expect("columns");
        let column = columns.iter().find(|column| column["name"] == name);
        column.expect("a column")["rows"].as_array().expect("rows").clone()
    };
    let (bare, cold, rapid) = (rows("bare"), rows("cold"), rows("rapid"));
    assert_eq!((bare.len(), bare.len()), (cold.len(), rapid.len()));
    for row in bare.iter().chain(&cold) {
        assert!(row["test"].is_string() && row["value"].is_number(), "{row}");
        assert!(row["shortened"].is_string(), "a quick row says so: {row}");
    }
    let write = |rows: &[Value]| {
        let row = rows.iter().find(|row| row["test"] == "random 4 KiB write, QD1");
        row.expect("the test").clone()
    };
    assert!(write(&cold)["processor"].as_f64() > Some(0.0) && write(&bare)["processor"].is_null());
    let speed = write(&cold)["speed"].as_f64().expect("compared");
    assert!(speed > 1.0, "{speed}");
    assert_eq!(first["rapid_published"][0]["use"], "set");
    let page = std::fs::read_to_string(home.path().join("review.html")).expect("a page");
    assert!(
        page.contains("overdrive.review/1") && !page.contains("http:") && !page.contains("https:")
    );
    // The results of a complete review are not used again.
    let again = object(&run(home.path(), &arguments));
    assert_eq!(again["columns"], first["columns"]);
    assert_eq!(again["verdict"], first["verdict"]);
}

#[test]
fn an_interrupted_review_continues() {
    let home = tempfile::tempdir().expect("a directory");
    let arguments = modelled(&["--only", "cdm,iometer", "--json"]);
    let mut child = review(home.path(), &arguments);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let stored = || -> usize {
        let files = std::fs::read_dir(home.path().join("data/overdrive/reviews"));
        let files = files.into_iter().flatten().flatten();
        let text = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        text.map(|text| text.lines().count()).sum()
    };
    for _ in 0..6000 {
        if stored() > 2 {
            break;
        }
        #[allow(clippy::disallowed_methods, reason = "a test may wait")]
        std::thread::sleep(Duration::from_millis(10));
    }
    let stopped = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(stopped.expect("it is there").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(object(&output)["complete"], false);
    let output = run(home.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("continued after "), "{said}");
    assert_eq!(object(&output)["complete"], true);
    assert_eq!(stored(), 0, "a complete review leaves nothing");
    let fresh = object(&run(home.path(), &[&arguments[..], &["--restart"]].concat()));
    assert_eq!(fresh["columns"], object(&output)["columns"]);
}

#[test]
fn a_file_is_reviewed_beside_the_page_cache() {
    let home = tempfile::tempdir().expect("a directory");
    let size = ["disk.img", "--size", "128M", "--cache", "32M", "--quick", "--only", "qd1"];
    let output = run(home.path(), &[&size[..], &["--with", "page-cache", "--json"]].concat());
    let found = object(&output);
    assert_eq!(names(&found), ["bare", "cold", "warm", "again", "page-cache"]);
    assert_eq!(found["time"], "real");
    for column in found["columns"].as_array().expect("columns") {
        assert_eq!(column["rows"].as_array().map(Vec::len), Some(3), "{}", column["name"]);
    }
    assert!(!home.path().join("disk.img").exists(), "the file is removed");
    let text = run(home.path(), &size);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.starts_with("Review of disk.img: quick, 32 MiB of cache"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn mistakes_are_refused_with_a_correction() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("data.img"), vec![1; 1 << 20]).expect("written");
    for (arguments, says) in [
        (&[SMALL, "--destroy"][..], "a modelled drive has no data to lose"),
        (&[SMALL, "--with", "page-cache"], "name a file or a device"),
        (&["ram:256M", "--with", "rapid"], "write model:NAME"),
        (&["ram:256M", "--with", "page-cache"], "has no page cache"),
        (&["data.img"], "--destroy"),
        (&["none.img"], "--size 8G"),
        (&[SMALL, "--only", "qd2"], "write qd1"),
        (&[SMALL, "--quick", "--full"], "cannot be used with"),
        (&["disk.img", "--size", "1M"], "at least 64 MiB"),
        (&["model:samsung-840-evo"], "samsung-840-evo-"),
    ] {
        let output = run(home.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(std::fs::read(home.path().join("data.img")).expect("read"), vec![1; 1 << 20]);
}
