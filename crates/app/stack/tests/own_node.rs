//! A stack over a node type that this crate does not define: its opening waits, its identity may
//! change, and its fence fails once. The daemons are real processes, which are killed and upgraded.
//! No answered write is lost, or the start reports that writes could be lost and they are written
//! through.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const BLOCKS: usize = 200;
const BLOCK_BYTES: usize = 4096;

struct Daemon {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Lines printed until it was ready or had failed.
    start: Vec<String>,
}

impl Daemon {
    fn serve(directory: &Path, mode: &str) -> Daemon {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stack-trial"))
            .arg("serve")
            .arg(directory)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut daemon = Daemon { child, stdin, stdout, start: Vec::new() };
        daemon.wait_until_ready();
        daemon
    }

    fn wait_until_ready(&mut self) {
        self.start.clear();
        loop {
            let line = self.line();
            let is_end = line.is_empty() || line.starts_with("ready") || line.starts_with("error");
            self.start.push(line);
            if is_end {
                return;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    fn has_started_with(&self, words: &str) -> bool {
        self.start.iter().any(|line| line.contains(words))
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.stdin, "{order}").expect("it lives");
        self.line()
    }

    fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is ours");
    }
}

/// Makes a directory with the disk of a server that calls it `one`.
fn server() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("room");
    let disk = fs::File::create(directory.path().join("disk")).expect("room");
    disk.set_len(16 << 20).expect("room");
    fs::create_dir(directory.path().join("run")).expect("room");
    rename(directory.path(), "one");
    directory
}

fn rename(directory: &Path, name: &str) {
    fs::write(directory.join("name"), name).expect("room");
}

/// Returns the amounts of data that were reported to be left, in bytes.
fn reported_left(daemon: &Daemon) -> Vec<usize> {
    let amounts = daemon.start.iter().filter_map(|line| {
        let rest = line.strip_prefix("step WriteBack { left_bytes: ")?;
        rest.strip_suffix(" }")?.parse().ok()
    });
    amounts.collect()
}

/// Has everything that is kept written to the disk, so that no holder stays behind.
fn settle(directory: &Path) {
    Daemon::serve(directory, "none").kill();
}

fn first_bytes_on_disk(directory: &Path) -> Vec<u8> {
    let disk = fs::read(directory.join("disk")).expect("it is there");
    disk.chunks(BLOCK_BYTES).take(BLOCKS).map(|block| block[0]).collect()
}

#[test]
fn killed_upgraded_and_settled_it_loses_nothing() {
    let place = server();
    let directory = place.path();
    let mut daemon = Daemon::serve(directory, "back");
    assert!(daemon.has_started_with("ready outlives"), "{:?}", daemon.start);
    assert_eq!(daemon.order(&format!("write {BLOCKS} 1")), "written");
    assert!(first_bytes_on_disk(directory).contains(&0), "some of it is in memory alone");
    daemon.kill();
    // The next daemon continues with the retained disk and session.
    let mut daemon = Daemon::serve(directory, "back");
    assert!(daemon.has_started_with("were retained from an earlier process"), "{:?}", daemon.start);
    assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{1}");
    assert_eq!(daemon.order(&format!("write {BLOCKS} 2")), "written");
    // An upgrade: another program in the same process.
    writeln!(daemon.stdin, "exec").expect("it lives");
    daemon.wait_until_ready();
    assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{2}", "{:?}", daemon.start);
    daemon.kill();
    // Without a cache its memory cannot be taken over: its data is written to the disk before
    // anything else.
    let mut daemon = Daemon::serve(directory, "none");
    assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{2}", "{:?}", daemon.start);
    assert_eq!(first_bytes_on_disk(directory), [2; BLOCKS]);
    daemon.kill();
}

#[test]
fn a_fence_that_fails_delays_the_takeover_and_loses_nothing() {
    let place = server();
    let directory = place.path();
    for mode in ["back", "none"] {
        let mut daemon = Daemon::serve(directory, "back");
        assert_eq!(daemon.order(&format!("write {BLOCKS} 3")), "written");
        daemon.kill();
        fs::write(directory.join("unfenced"), "").expect("room");
        let daemon = Daemon::serve(directory, mode);
        assert!(daemon.has_started_with("the server does not answer"), "{:?}", daemon.start);
        assert!(daemon.has_started_with("an earlier process may still arrive"));
        let mut daemon = Daemon::serve(directory, mode);
        assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{3}", "{:?}", daemon.start);
        daemon.kill();
        settle(directory);
        fs::write(directory.join("disk"), vec![0; 16 << 20]).expect("room");
    }
}

#[test]
fn a_backing_with_another_identity_gets_nothing_that_was_kept() {
    let place = server();
    let directory = place.path();
    let mut daemon = Daemon::serve(directory, "back");
    assert_eq!(daemon.order(&format!("write {BLOCKS} 4")), "written");
    daemon.kill();
    rename(directory, "two");
    let daemon = Daemon::serve(directory, "back");
    assert!(
        daemon.start.last().is_some_and(|line| line.starts_with("error")),
        "{:?}",
        daemon.start
    );
    assert!(daemon.has_started_with("is locked by another program"), "{:?}", daemon.start);
    rename(directory, "one");
    let mut daemon = Daemon::serve(directory, "back");
    assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{4}", "{:?}", daemon.start);
    daemon.kill();
    settle(directory);
}

#[test]
fn a_node_that_cannot_be_kept_says_so_and_its_writes_go_through() {
    let place = server();
    let directory = place.path();
    let mut daemon = Daemon::serve(directory, "renamed");
    assert!(daemon.has_started_with("writes are written through"), "{:?}", daemon.start);
    assert!(daemon.has_started_with("its server may give it another name"));
    assert!(daemon.has_started_with("absorbing is refused"), "also later: {:?}", daemon.start);
    assert_eq!(daemon.order(&format!("write {BLOCKS} 5")), "written");
    assert_eq!(first_bytes_on_disk(directory), [5; BLOCKS]);
    daemon.kill();
    rename(directory, "two");
    let mut daemon = Daemon::serve(directory, "renamed");
    assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{5}", "{:?}", daemon.start);
    daemon.kill();
}

#[test]
fn data_that_is_written_to_a_slow_disk_before_it_is_served_is_reported() {
    let place = server();
    let directory = place.path();
    let mut daemon = Daemon::serve(directory, "back");
    assert_eq!(daemon.order(&format!("write {BLOCKS} 1")), "written");
    daemon.kill();
    fs::write(directory.join("slow"), "").expect("room");
    let mut daemon = Daemon::serve(directory, "none");
    let left = reported_left(&daemon);
    assert_eq!(left.first(), Some(&(BLOCKS * BLOCK_BYTES)), "{:?}", daemon.start);
    assert!(left.len() > 1, "it takes longer than a second: {:?}", daemon.start);
    assert!(daemon.has_started_with("step Fence"), "{:?}", daemon.start);
    assert_eq!(daemon.order(&format!("read {BLOCKS}")), "{1}");
    daemon.kill();
}
