//! `overdrive trace` as users run it: its output, its files, and its exit status.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn trace(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("trace").args(arguments).stdin(Stdio::null());
    command.output().expect("the command runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(output: &Output) -> String {
    assert_eq!((output.status.code(), errors(output).as_str()), (Some(0), ""));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&trace(&[arguments, &["--json"]].concat()))).expect("one object")
}

fn file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Returns a trace with answers: pairs of a read and a write that overlap for a while, by two
/// processes, and a flush.
fn pairs(count: u64) -> String {
    let mut text = "op,offset,length,time_ns,took_ns,device,process\n".to_owned();
    for pair in 0..count {
        let at = pair * 1_000_000;
        text += &format!("R,{},4096,{at},100000,sda,reader\n", pair % 10 * 4096);
        text += &format!(
            "WF,{},131072,{},100000,sda,writer\n",
            (1 << 30) + pair * 131_072,
            at + 50_000
        );
    }
    text + &format!("F,0,0,{},50000,sda,writer\n", count * 1_000_000)
}

#[test]
fn info_shows_each_property() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "pairs.csv", pairs(100).as_bytes());
    let page = home.path().join("page.html");
    let found = json(&["info", plain(&path), "--report", plain(&page)]);
    let expect = |key: &str, value: Value| assert_eq!(found[key], value, "{key}: {found}");
    expect("schema", "overdrive.trace-info/1".into());
    expect("requests", 201.into());
    expect("flushes", 1.into());
    expect("fua", 100.into());
    expect("bytes_read", (100 * 4096).into());
    expect("bytes_written", (100 * 131_072).into());
    expect("footprint_blocks", (10 + 100 * 32).into());
    // The first read of each loop of ten blocks is not sequential, nor is the first write.
    expect("sequential_reads", 90.into());
    expect("sequential_writes", 99.into());
    expect("duration_ns", 100_050_000.into());
    expect("busy_ns", (100 * 150_000 + 50_000).into());
    expect("idle_ns", (100_050_000 - 100 * 150_000 - 50_000).into());
    assert_eq!(found["depths"][1]["requests"], 100, "{found}");
    assert_eq!(found["sizes"][6]["writes"], 100, "{found}");
    // A block of the loop is used again after 9 others of it, and 10 writes of 32 blocks.
    assert_eq!(found["reuse"]["within"][1]["block_accesses"], 90, "{found}");
    assert_eq!(found["processes"][0]["name"], "writer", "{found}");
    let shown = text(&trace(&["info", plain(&path)]));
    for part in ["0.01 GB", "writer", "reuse within", "1.50 mean at arrival", "100 us mean"] {
        let part = part.replace("100 us", "99.8 us");
        assert!(shown.contains(&part), "{part}: {shown}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("<svg")
            && page.contains("<h2>Method")
            && !page.contains("http:")
            && !page.contains("https:")
    );
}

#[test]
fn a_trace_survives_conversions() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "pairs.csv", pairs(5000).as_bytes());
    let [packed, raw, again] =
        ["a.trace.zst", "a.trace", "b.csv"].map(|name| home.path().join(name));
    let converted = json(&["convert", plain(&path), plain(&packed)]);
    assert_eq!((&converted["requests"], &converted["complete"]), (&10_001.into(), &true.into()));
    text(&trace(&["convert", plain(&packed), plain(&raw)]));
    text(&trace(&["convert", plain(&raw), plain(&again), "--to", "csv"]));
    let read = std::fs::read_to_string(&again).expect("there");
    assert_eq!(read, std::fs::read_to_string(&path).expect("there"));
    let size = |path: &Path| path.metadata().expect("there").len();
    assert!(size(&packed) < size(&raw) / 3, "{} of {}", size(&packed), size(&raw));
    let mode = packed.metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a trace is private");
    let log = trace(&["convert", plain(&raw), "-", "--to", "fio-3"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.starts_with("fio version 3 iolog\n0 sda add\n0 sda open\n0 sda read 0 4096\n"));
    assert!(log.ends_with("5000000 sda sync 0 0\n5000000 sda close\n"), "{log}");
    let of_none = trace(&["info", plain(&raw), "--device", "sdb"]);
    assert_eq!(of_none.status.code(), Some(2));
    assert!(errors(&of_none).contains("has no such device; it has sda"), "{}", errors(&of_none));
}

#[test]
fn recordings_that_end_early_are_read_as_far_as_they_go() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "pairs.csv", pairs(40_000).as_bytes());
    for name in ["cut.trace", "cut.trace.zst"] {
        let whole = home.path().join(name);
        text(&trace(&["convert", plain(&path), plain(&whole)]));
        let bytes = std::fs::read(&whole).expect("there");
        let cut = file(home.path(), &format!("x-{name}"), &bytes[..bytes.len() * 2 / 3]);
        let found = json(&["info", plain(&cut)]);
        let requests = found["requests"].as_u64().expect("a number");
        assert!((20_000..70_000).contains(&requests), "{name}: {requests}");
        assert_eq!((&found["cut"], &found["complete"]), (&true.into(), &true.into()), "{name}");
        let partial = home.path().join(format!("y-{name}"));
        let converted = trace(&["convert", plain(&cut), plain(&partial)]);
        assert_eq!(converted.status.code(), Some(1), "{}", errors(&converted));
        assert!(errors(&converted).contains("not complete"), "{}", errors(&converted));
    }
}

#[test]
fn bad_input_is_refused_and_leaves_no_file() {
    let home = tempfile::tempdir().expect("a directory");
    let output = home.path().join("out.trace");
    let mut newer = b"ODTRACE\n\x03\0\0\0\x38\0\0\0".to_vec();
    newer.extend_from_slice(&[0; 64]);
    for (bytes, status, part) in [
        (&newer[..], 7, "has version 3"),
        (b"ODTRACE\n\x02", 7, "ends inside its header"),
        (b"", 7, "is empty"),
        (b"what is this\n", 7, "format is unknown"),
        (b"R,0,4096\nR,x,4096\n", 7, "line 2"),
        (b"#\n", 7, "unknown"),
    ] {
        let path = file(home.path(), "bad", bytes);
        for arguments in [vec!["info", plain(&path)], vec!["convert", plain(&path), plain(&output)]]
        {
            let refused = trace(&arguments);
            assert_eq!(refused.status.code(), Some(status), "{}", errors(&refused));
            assert!(errors(&refused).contains(part), "{part}: {}", errors(&refused));
            assert!(!output.exists(), "{part}");
        }
    }
    let good = file(home.path(), "good.csv", b"R,0,4096\n");
    let taken = trace(&["convert", plain(&good), plain(&good)]);
    assert_eq!(taken.status.code(), Some(2));
    assert!(errors(&taken).contains("exists; name a new file"), "{}", errors(&taken));
    assert_eq!(std::fs::read(&good).expect("there"), b"R,0,4096\n");
}

#[test]
fn unsorted_requests_are_counted_and_a_bomb_needs_little_memory() {
    let home = tempfile::tempdir().expect("a directory");
    let head = "op,offset,length,time_ns,took_ns,device,process\n";
    let late = (0..70_000).map(|number| format!("R,0,512,{},,a,\n", number + 10));
    let text = head.to_owned() + &late.collect::<String>() + "R,0,512,1,,a,\n";
    let path = file(home.path(), "late.csv", text.as_bytes());
    assert_eq!(json(&["info", plain(&path)])["unsorted"], 1);
    // 64 MiB of lines without a request, in a few kilobytes.
    let bomb = home.path().join("bomb.csv.zst");
    let script = format!(
        "(echo R,0,4096; head -c 64M /dev/zero | tr '\\0' '\\n') | zstd -q -o {}",
        plain(&bomb)
    );
    if !Command::new("sh").args(["-c", &script]).status().expect("a shell").success() {
        return;
    }
    let limited = format!(
        "ulimit -d 40000; exec {} trace info {} --json",
        env!("CARGO_BIN_EXE_overdrive"),
        plain(&bomb)
    );
    let output = Command::new("sh").args(["-c", &limited]).output().expect("a shell");
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
}
