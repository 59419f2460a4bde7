//! `overdrive trace` with recordings that were made to do harm: little memory, one sentence, and a
//! documented exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use trace::recording::{self, EVENTS_MAX, Entry};
use trace::{Event, Operation};
use traces::Packed;

/// A target without data.
const NULL: [&str; 4] = ["null:2G", "--read-only", "--depth", "1"];
/// A target whose tables need 250 MiB.
const MODEL: &str = "model:samsung-840-evo-250?size=2G";
/// Limits of the memory of a program, in KiB: it needs about 20 MiB for itself.
const DATA_KIB: u32 = 80_000;
const DATA_KIB_WITH_MODEL: u32 = 600_000;

/// Runs the program in little memory.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let has_model = arguments.contains(&MODEL);
    let data_kib = if has_model { DATA_KIB_WITH_MODEL } else { DATA_KIB };
    let script = format!("ulimit -d {data_kib}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_overdrive")]).args(arguments);
    command.stdin(Stdio::null()).output().expect("a shell")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the program, and checks its exit status and that it says at most a sentence.
fn expect(arguments: &[&str], statuses: &[i32], part: &str) -> Output {
    let output = run(arguments);
    let (status, errors) = (output.status.code().unwrap_or(-1), errors(&output));
    assert!(statuses.contains(&status), "{arguments:?}: {status}: {errors}");
    assert!(errors.trim_end().lines().count() <= 1, "{arguments:?}: {errors}");
    assert!(errors.contains(part) && !errors.contains("panicked"), "{arguments:?}: {errors}");
    output
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

fn read(time_ns: u64, took_ns: Option<u64>, first: u64, sectors: u32) -> Entry {
    let (operation, device, failed) = (Operation::Read, 0, None);
    Event { time_ns, took_ns, operation, device, first, sectors, failed }.into()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Packed::new(Vec::new());
    std::io::Write::write_all(&mut packed, bytes).expect("memory");
    packed.finish().expect("memory")
}

/// Writes a compressed recording of this header, and `count` times this content.
fn bomb(directory: &Path, content: &[u8], count: usize) -> PathBuf {
    let mut head = Vec::new();
    recording::header(&mut head);
    let bytes = [packed(&head), packed(content).repeat(count)].concat();
    let path = directory.join("bomb.trace.zst");
    std::fs::write(&path, bytes).expect("written");
    path
}

/// Writes a recording of these entries.
fn recorded(directory: &Path, name: &str, entries: &[Entry]) -> PathBuf {
    let mut bytes = Vec::new();
    recording::header(&mut bytes);
    recording::entries_with(&mut bytes, entries, &[], 0);
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn a_recording_that_inflates_without_requests_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let mut block = Vec::new();
    recording::entries_with(&mut block, &[], &[], 1);
    // 80 MiB of blocks in which events were lost, and no event is.
    let path = bomb(home.path(), &block.repeat((1 << 20) / block.len()), 80);
    let bytes = path.metadata().expect("there").len();
    assert!(bytes < 1 << 20, "{bytes}");
    let (output, part) = (home.path().join("out.trace"), "64 MiB without a request");
    expect(&["trace", "info", plain(&path)], &[7], part);
    expect(&["trace", "convert", plain(&path), plain(&output)], &[7], part);
    expect(&[&["trace", "replay", plain(&path)], &NULL[..]].concat(), &[7], part);
    expect(&["sim", "--trace", plain(&path), "--memory", "1M"], &[7], part);
}

#[test]
fn a_recording_of_many_requests_is_counted_in_little_memory_and_refused_where_it_has_to_fit() {
    let home = tempfile::tempdir().expect("a directory");
    let entries: Vec<Entry> =
        (0..EVENTS_MAX as u64).map(|number| read(number, Some(9), number * 8, 8)).collect();
    let mut block = Vec::new();
    recording::entries_with(&mut block, &entries, &[], 0);
    let (count, output) = (200, home.path().join("out.trace"));
    let path = bomb(home.path(), &block, count);
    let info = expect(&["trace", "info", plain(&path), "--json"], &[0], "");
    let found: serde_json::Value = serde_json::from_slice(&info.stdout).expect("one object");
    assert_eq!(found["requests"], count * EVENTS_MAX);
    expect(&[&["trace", "replay", plain(&path)], &NULL[..]].concat(), &[2], "memory");
    expect(&["trace", "generate", "--like", plain(&path), plain(&output)], &[2], "memory");
    assert!(!output.exists());
}

#[test]
fn requests_of_a_gibibyte_do_not_become_more_pieces_than_fit_into_memory() {
    let home = tempfile::tempdir().expect("a directory");
    let entries: Vec<Entry> =
        (0..16_384).map(|number| read(number, None, 0, (1 << 30) / 512)).collect();
    let path = recorded(home.path(), "long.trace", &entries);
    expect(&[&["trace", "replay", plain(&path)], &NULL[..]].concat(), &[2], "memory");
}

#[test]
fn times_and_addresses_at_the_end_of_all_numbers_have_an_answer() {
    let home = tempfile::tempdir().expect("a directory");
    let end = u64::MAX;
    let last = (1 << 51) - 8;
    let entries = [
        read(0, Some(end - 1), 0, 8),
        read(1, Some(0), last, 8),
        read(end - 1, Some(end - 1), 8, 8),
        read(end, Some(end - 1), 16, 8),
        read(end, None, 24, 8),
    ];
    let path = recorded(home.path(), "far.trace", &entries);
    let trace = plain(&path);
    expect(&["trace", "info", trace, "--json"], &[0], "");
    for (number, form) in ["recording", "csv", "fio-2", "fio-3"].into_iter().enumerate() {
        let output = home.path().join(format!("out-{number}"));
        expect(&["trace", "convert", trace, plain(&output), "--to", form], &[0], "");
    }
    let wrap = &["trace", "replay", trace, MODEL, "--map", "wrap"][..];
    // The first request is busy for all of it.
    for times in [&[][..], &["--speed", "0.000001"], &["--idle-max", "1ms"]] {
        expect(&[wrap, times].concat(), &[2], "longer than 100 years");
    }
    expect(&[wrap, &["--speed", "1000000"]].concat(), &[0], "");
    expect(&[wrap, &["--dependent"]].concat(), &[2], "no recorded answer");
    for map in ["scale", "clip"] {
        expect(&["trace", "replay", trace, MODEL, "--map", map, "--depth", "2"], &[0], "");
    }
    expect(&["sim", "--trace", trace, "--memory", "1M"], &[0], "");
    let beyond = recorded(home.path(), "beyond.trace", &[read(0, None, last + 1, 8)]);
    expect(&["trace", "info", plain(&beyond)], &[7], "beyond 1 EiB");
    let long = recorded(home.path(), "long.trace", &[read(0, None, 0, u32::MAX)]);
    expect(&["trace", "info", plain(&long)], &[7], "longer than 1 GiB");
}

#[test]
fn damaged_heads_and_blocks_are_refused_by_their_position() {
    let home = tempfile::tempdir().expect("a directory");
    let entries: Vec<Entry> = (0..5000).map(|number| read(number, None, 0, 8)).collect();
    let good = std::fs::read(recorded(home.path(), "good.trace", &entries)).expect("there");
    let second = 28 + 24 + EVENTS_MAX * 56;
    for (at, byte, part) in [
        (8, 3, "has version 3"),
        (8, 1, "has version 1 with events of 56 bytes"),
        (12, 40, "events of 40 bytes"),
        (16, 1, "its header does not match its checksum"),
        (28 + 2, 1, "block 0 claims more events"),
        (28 + 18, 2, "block 0 claims more names"),
        (second + 30, 1, "block 1 does not match its checksum"),
    ] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let path = home.path().join("bad.trace");
        std::fs::write(&path, bytes).expect("written");
        expect(&["trace", "info", plain(&path)], &[7], part);
        expect(&[&["trace", "replay", plain(&path)], &NULL[..]].concat(), &[7], part);
    }
}

#[test]
fn a_recording_that_ends_in_the_middle_is_replayed_to_there_and_marked() {
    let home = tempfile::tempdir().expect("a directory");
    let entries: Vec<Entry> =
        (0..5000).map(|number| read(number * 100_000, Some(9), number % 100 * 8, 8)).collect();
    let whole = std::fs::read(recorded(home.path(), "whole.trace", &entries)).expect("there");
    let path = home.path().join("cut.trace");
    std::fs::write(&path, &whole[..whole.len() - 7]).expect("written");
    let replayed = expect(&["trace", "replay", plain(&path), MODEL, "--json"], &[1], "is cut off");
    let found: serde_json::Value = serde_json::from_slice(&replayed.stdout).expect("one object");
    assert_eq!((&found["requests"], &found["complete"]), (&EVENTS_MAX.into(), &false.into()));
}
