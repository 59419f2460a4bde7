//! Processes that exist and do not answer, and sockets of processes that have ended.

use crate::common::{Server, have_libnbd, image, other_disk, pause, place, python, wait_until};
use crate::home::Home;
use crate::mounted::plain;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const HELD: [&str; 6] = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
const WRITE: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b"P" * 4096, 0)
"#;

/// A process that is stopped, until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Stopped {
        kill_process(pid, Signal::STOP).expect("it runs");
        let stopped = || {
            let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
            status.expect("it lives").contains("State:\tT")
        };
        wait_until("it is stopped", stopped);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Returns the listed volumes, although a process does not answer.
fn listed(home: &Home, words: &[&str]) -> Vec<serde_json::Value> {
    let listed = home.overdrive(&["volume", "list", "--json"]);
    assert_eq!(listed.status, 3, "{}", listed.stderr);
    for word in words {
        assert!(listed.stderr.contains(word), "no '{word}' in {}", listed.stderr);
    }
    let value: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    value["volumes"].as_array().expect("a list").clone()
}

#[test]
fn a_stopped_daemon_is_not_an_absent_one() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let server = Server::start(image(&place, 16), &HELD);
    python(WRITE, &[&server.uri]).well();
    let other = server.home.command(&["serve", "ram:4M", "--name", "other", "--memory", "1M"]);
    let other = Server::run_in(&server.home, other);
    let stopped = Stopped::new(server.pid());
    let pid = server.pid().as_raw_nonzero().to_string();
    let rows = listed(&server.home, &["does not answer", &pid, "kill -CONT"]);
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect(name);
    assert_eq!(row("other")["state"], "serving");
    let silent = row("disk");
    assert_eq!(silent["state"], "no-answer");
    assert_eq!(silent["pid"].to_string(), pid);
    assert_eq!((&silent["size_bytes"], &silent["dirty_bytes"]), (&(16 << 20).into(), &4096.into()));
    // The volumes of a silent process are unknown; those of another one are not.
    for command in [&["flush", "disk"][..], &["stats"], &["detach"], &["clear-error", "--retry"]] {
        server.volume(command).refused(3, &[&pid, "does not answer"]);
    }
    server.home.overdrive(&["upgrade"]).refused(3, &[&pid, "does not answer"]);
    server.volume(&["flush", "other"]).well();
    // Only its daemon reports a volume without a holder.
    let stopped_too = Stopped::new(other.pid());
    let rows = listed(&server.home, &["does not answer"]);
    let row = rows.iter().find(|row| row["name"] == "-").expect("one without a name");
    assert_eq!(row["pid"], other.pid().as_raw_nonzero().get());
    drop((stopped, stopped_too));
    server.volume(&["flush", "disk"]).well();
    other.end().well();
    server.end().well();
}

#[test]
fn a_daemon_that_is_stopped_while_it_is_asked_is_not_waited_for() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    // Requests that take longer than the time limit for a sign of life are waited for.
    let options = [&HELD[..], &["--delay", "flush=8s", "--retry-time", "60s"]].concat();
    let server = Server::start(image(&place, 16), &options);
    python(WRITE, &[&server.uri]).well();
    server.volume(&["flush"]).well();
    python(WRITE, &[&server.uri]).well();
    let mut flush = server.home.command(&["volume", "flush"]);
    let flush = flush.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    pause(Duration::from_secs(1));
    let stopped = Stopped::new(server.pid());
    let flush = flush.wait_with_output().expect("it ends");
    assert_eq!(flush.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&flush.stderr).contains("does not answer"));
    drop(stopped);
    server.end().well();
}

#[test]
fn a_stopped_holder_is_not_an_absent_one() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &HELD);
    python(WRITE, &[&server.uri]).well();
    let holder = server.home.holders().pop().expect("one");
    let pid = holder.holder_pid.to_string();
    let stopped = Stopped::new(Pid::from_raw(holder.holder_pid).expect("a number"));
    // While it is served that is only a message, and not another volume.
    let rows = listed(&server.home, &["od-holder", "does not answer", &pid]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["state"], "serving");
    let home = server.kill();
    let rows = listed(&home, &["od-holder", "does not answer", &pid]);
    assert_eq!(rows[0]["state"], "no-answer");
    assert_eq!(
        (&rows[0]["pid"], &rows[0]["backing"]),
        (&holder.holder_pid.into(), &holder.key.into())
    );
    let aside = other_disk();
    let file = aside.path().join("saved");
    let rescue = ["volume", "clear-error", "disk", "--rescue", plain(&file)];
    home.overdrive(&rescue).refused(3, &["od-holder", "does not answer", &pid]);
    let again = crate::common::serve_in(&home, &image, &["-q", "--run", "true"]);
    again.refused(5, &["does not answer", "stopped"]);
    drop(stopped);
    home.overdrive(&rescue).well();
    Server::start_in(&home, &image, &HELD).end().well();
}

#[test]
fn an_orphan_is_listed_by_what_is_kept_and_not_by_what_stands_at_its_path() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let path = image(&place, 16);
    let server = Server::start(&path, &HELD);
    python(WRITE, &[&server.uri]).well();
    let home = server.kill();
    let orphaned = || home.holders().iter().any(|holder| holder.owner_pid.is_none());
    wait_until("the holder is an orphan", orphaned);
    let moved = place.path().join("moved.img");
    fs::rename(&path, &moved).expect("ours");
    fs::write(&path, "something else").expect("room");
    let rows = home.overdrive(&["volume", "list", "--json"]).json("overdrive.volumes/1");
    let row = &rows["volumes"][0];
    assert_eq!((&row["size_bytes"], &row["backing"]), (&(16 << 20).into(), &plain(&moved).into()));
    // It can be named as it is listed.
    let discard = ["volume", "clear-error", "--discard-dirty", plain(&moved)];
    home.overdrive(&discard).well();
}

/// Above the largest number that the kernel gives to a process.
const NO_PROCESS: i32 = 5_000_000;

fn sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect()
}

/// Process numbers are reused on small machines, and another process may have that of a killed
/// daemon by now.
fn give_the_dead_a_number_of_their_own(runtime: &Path, pid: i32) {
    let (own, other) = (format!("{pid}.sock"), format!("{}.sock", pid + NO_PROCESS));
    for directory in [runtime.to_owned(), runtime.join("daemons")] {
        for path in sockets(&directory) {
            let name = path.file_name().and_then(|name| name.to_str()).expect("ours");
            let before =
                name.strip_suffix(&own).filter(|before| before.is_empty() || before.ends_with('.'));
            if let Some(before) = before {
                fs::rename(&path, directory.join(format!("{before}{other}"))).expect("ours");
            }
        }
    }
}

#[test]
fn sockets_of_killed_daemons_are_swept_and_those_of_stopped_ones_are_not() {
    let home = Home::new();
    let runtime = home.runtime().join("overdrive");
    let all = || [sockets(&runtime).len(), sockets(&runtime.join("daemons")).len()];
    let start = || {
        let mut command = home.command(&["serve", "ram:4M", "--memory", "1M"]);
        command.env("RUST_BACKTRACE", "0");
        Server::run_in(&home, command)
    };
    let stopped = start();
    for _ in 0..3 {
        let killed = start();
        let pid = killed.pid().as_raw_nonzero().get();
        killed.kill();
        give_the_dead_a_number_of_their_own(&runtime, pid);
    }
    assert_eq!(all(), [2, 2], "each start has swept what the one before has left");
    let held = Stopped::new(stopped.pid());
    let listed = home.overdrive(&["volume", "list"]);
    assert_eq!((listed.status, all()), (3, [1, 1]), "{}", listed.stderr);
    drop(held);
    home.overdrive(&["volume", "list"]).well();
    stopped.end().well();
    assert_eq!(all(), [0, 0]);
}
