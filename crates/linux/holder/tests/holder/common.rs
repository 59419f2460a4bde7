//! A directory with an image and a runtime directory, and daemons in it.

use holder::{Keeper, Status};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const TRIAL: &str = env!("CARGO_BIN_EXE_holder-trial");

/// Repeats the check until it succeeds; false after five seconds.
pub(crate) fn eventually(holds: impl FnMut() -> bool) -> bool {
    within(Duration::from_secs(5), holds)
}

/// Repeats the check until it succeeds; false after this time.
pub(crate) fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    #[allow(clippy::disallowed_methods, reason = "a test of processes")]
    let start = Instant::now();
    while start.elapsed() < time {
        if holds() {
            return true;
        }
        #[allow(clippy::disallowed_methods, reason = "a test of processes")]
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a process that a test has started");
    rustix::process::kill_process(pid, signal).expect("it is ours");
}

pub(crate) fn is_alive(pid: i32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

pub(crate) struct TestDirectory {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) image: PathBuf,
}

impl TestDirectory {
    pub(crate) fn new() -> TestDirectory {
        let directory = tempfile::tempdir().expect("a directory");
        let image = directory.path().join("image");
        fs::write(&image, [0; 4096]).expect("an image");
        TestDirectory { directory, image }
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.directory.path().join("runtime")
    }

    pub(crate) fn key(&self) -> String {
        holder::key_at(&self.image).expect("a file")
    }

    pub(crate) fn command(&self, mode: &str) -> Command {
        let mut command = Command::new(TRIAL);
        command.arg(mode).arg(self.runtime()).arg(&self.image);
        command.env_remove("NOTIFY_SOCKET").env_remove("FDSTORE");
        command
    }

    pub(crate) fn daemon(&self, mode: &str) -> Daemon {
        Daemon::new(self.command(mode))
    }

    pub(crate) fn status(&self) -> Option<Status> {
        let mut all = Keeper::list(&self.runtime()).expect("a list");
        assert!(all.len() < 2, "one holder per volume: {all:?}");
        all.pop()
    }

    pub(crate) fn is_locked(&self) -> bool {
        let image = File::open(&self.image).expect("the image");
        rustix::fs::flock(&image, FlockOperation::NonBlockingLockExclusive).is_err()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A holder left by a failed test would stay for ever, so it is discarded.
        for status in Keeper::list(&self.runtime()).unwrap_or_default() {
            let _ = Keeper::discard(&self.runtime(), &status.key, None);
        }
    }
}

pub(crate) struct Daemon {
    child: Child,
    orders: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

impl Daemon {
    pub(crate) fn new(mut command: Command) -> Daemon {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let orders = child.stdin.take();
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Daemon { child, orders, said }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Returns the next line of its output; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a pipe");
        line.trim_end().to_owned()
    }

    /// Checks that its next lines are these.
    #[track_caller]
    pub(crate) fn says(&mut self, expected: &[&str]) -> &mut Daemon {
        for expected in expected {
            assert_eq!(self.line(), *expected);
        }
        self
    }

    pub(crate) fn order(&mut self, order: &str) -> &mut Daemon {
        writeln!(self.orders.as_mut().expect("open"), "{order}").expect("it reads");
        self
    }

    /// Kills it. Its stdout ends with it: no holder keeps that open.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        let mut rest = Vec::new();
        io::Read::read_to_end(&mut self.said, &mut rest).expect("its end");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It ends when its input ends.
        self.orders = None;
        let _ = self.child.wait();
    }
}
