//! `overdrive trace replay` as users run it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MODEL: &str = "model:samsung-840-evo-250?size=1G";

fn replay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.args(["trace", "replay"]).args(arguments).stdin(Stdio::null());
    command.output().expect("the command runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = replay(&[arguments, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn refused(arguments: &[&str], status: i32, what: &str) {
    let output = replay(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert!(errors.contains(what) && errors.trim_end().lines().count() == 1, "{errors}");
}

fn file(directory: &Path, name: &str, lines: &str) -> PathBuf {
    let path = directory.join(name);
    let head = "op,offset,length,time_ns,took_ns,device,process\n";
    std::fs::write(&path, head.to_owned() + lines).expect("written");
    path
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Reads 10 ms apart, a write, a read of its data at the same time, and a flush after a pause.
fn trace(directory: &Path) -> PathBuf {
    let mut lines = String::new();
    for number in 0..20 {
        lines += &format!("R,{},4096,{},100000,sda,\n", number * 65_536, number * 10_000_000);
    }
    lines += "W,0,131072,200000000,100000,sda,\nR,4096,4096,200000000,100000,sda,\n";
    lines += "F,0,0,1200000000,100000,sda,\n";
    file(directory, "trace.csv", &lines)
}

#[test]
fn a_model_is_replayed_in_virtual_time_in_each_kind_of_times() {
    let home = tempfile::tempdir().expect("a directory");
    let path = trace(home.path());
    let found = json(&[plain(&path), MODEL]);
    assert_eq!(found, json(&[plain(&path), MODEL]), "the same figures");
    assert_eq!((&found["complete"], &found["valid"]), (&true.into(), &true.into()), "{found}");
    let count = |part: &str| found[part]["requests"].as_u64().expect("a number");
    assert_eq!((count("reads"), count("writes"), count("flushes")), (21, 1, 1));
    assert_eq!(found["bytes"], 21 * 4096 + 131_072);
    assert_eq!(found["held"], 1, "the read waits for the write");
    let ns = |found: &Value, key: &str| found[key].as_f64().expect("a number");
    // Requests that do not overlap are busy as long as they take; the held read starts after the
    // write, so that its wait is in its own time only.
    let sum = |part: &str| ns(&found[part], "mean_ns") * count(part) as f64;
    let all = sum("reads") + sum("writes") + sum("flushes") - sum("writes");
    assert!((ns(&found, "busy_ns") / all - 1.0).abs() < 1e-6, "{found}");
    assert!((ns(&found, "depth_mean") - 1.0).abs() < 1e-6, "{found}");
    assert!(ns(&found, "elapsed_ns") >= 1.2e9);
    let faster = json(&[plain(&path), MODEL, "--speed", "10"]);
    assert!((1.2e8..1.3e8).contains(&ns(&faster, "elapsed_ns")), "{faster}");
    let capped = json(&[plain(&path), MODEL, "--idle-max", "25ms"]);
    assert!((2.2e8..2.4e8).contains(&ns(&capped, "elapsed_ns")), "{capped}");
    for times in [["--depth", "4"].as_slice(), &["--dependent"]] {
        let fast = json(&[&[plain(&path), MODEL], times].concat());
        assert!(ns(&fast, "elapsed_ns") < 5e7, "{fast}");
        assert_eq!(fast["lateness_p99_ns"], Value::Null);
    }
}

#[test]
fn a_file_is_replayed_and_verified_and_is_kept_without_destroy() {
    let home = tempfile::tempdir().expect("a directory");
    let path = trace(home.path());
    let image = home.path().join("new.img");
    let found = json(&[
        plain(&path),
        plain(&image),
        "--size",
        "64M",
        "--verify",
        "--data",
        "50",
        "--speed",
        "20",
    ]);
    assert_eq!((&found["time"], &found["requests"]), (&"real".into(), &23.into()), "{found}");
    assert!(!image.exists(), "removed");
    std::fs::write(&image, vec![7; 16 << 20]).expect("written");
    refused(&[plain(&path), plain(&image)], 2, "--destroy");
    let found = json(&[plain(&path), plain(&image), "--read-only", "--depth", "2"]);
    assert_eq!((&found["requests"], &found["not_reads"]), (&21.into(), &2.into()), "{found}");
    let bytes = std::fs::read(&image).expect("read");
    assert!(bytes.iter().all(|byte| *byte == 7), "only read");
}

#[test]
fn targets_of_another_size_need_a_mapping_and_missing_facts_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let big =
        file(home.path(), "big.csv", "R,0,4096,0,,sda,\nW,3221225472,4096,1000000,100000,sda,\n");
    refused(&[plain(&big), MODEL], 2, "needs 3.0 GiB");
    for (map, requests, beyond) in [("wrap", 2, 0), ("scale", 2, 0), ("clip", 1, 1)] {
        let found = json(&[plain(&big), MODEL, "--map", map]);
        assert_eq!((&found["requests"], &found["beyond"]), (&requests.into(), &beyond.into()));
    }
    refused(&[plain(&big), MODEL, "--map", "wrap", "--dependent"], 2, "no recorded answer");
    let timeless = file(home.path(), "timeless.csv", "R,0,4096,0,,sda,\nR,0,4096,0,,sda,\n");
    refused(&[plain(&timeless), MODEL], 2, "has no times; use --depth");
    let damaged = file(home.path(), "damaged.csv", "R,0,4096,0,,sda,\nbad\n");
    refused(&[plain(&damaged), MODEL], 7, "line 3");
    refused(&[plain(&big), MODEL, "--destroy"], 2, "no data to lose");
    refused(&[plain(&big), "ram:4G", "--read-only", "--state", "fill"], 2, "only read");
}
