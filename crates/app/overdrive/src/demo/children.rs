//! Runs other programs so that Ctrl-C leaves nothing behind.
//!
//! The signals that end a process are read from a descriptor, which every wait also polls: the demo
//! then returns normally and removes mounts, loop devices, control groups and files.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use stack::{Exit, Failure};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Interval at which a wait calls back, in milliseconds.
const TICK_MS: i64 = 20;

/// Starts programs, and waits for them or for a signal.
pub(super) struct Children {
    signals: host::File,
    /// Directory for their messages.
    directory: PathBuf,
}

/// A running program; it is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    pidfd: OwnedFd,
    name: String,
    log: PathBuf,
}

fn timespec(milliseconds: i64) -> Timespec {
    Timespec { tv_sec: milliseconds / 1000, tv_nsec: (milliseconds % 1000) * 1_000_000 }
}

fn interrupted() -> Failure {
    Failure::new(Exit::Negative, "the demo was interrupted; its files are removed")
}

/// Returns the last line of a log that is not empty.
fn last_words(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.unwrap_or("it printed no message").to_owned()
}

impl Children {
    /// Takes over the handling of signals. Call this before any thread is started.
    pub(super) fn new(directory: &Path) -> Result<Children, Failure> {
        let signals =
            host::signals().map_err(|error| Failure::new(Exit::Io, format!("signals: {error}")))?;
        Ok(Children { signals, directory: directory.to_owned() })
    }

    /// Starts a program. Its messages go to a log of this name; `out` is its stdout.
    pub(super) fn start(
        &self,
        name: &str,
        command: &mut Command,
        out: Stdio,
    ) -> Result<Running, Failure> {
        let failed =
            |error| Failure::new(Exit::Negative, format!("{name}: cannot be started: {error}"));
        let log = self.directory.join(format!("{name}.log"));
        let messages = File::create(&log).map_err(failed)?;
        command.current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(out).stderr(messages);
        host::make_ordinary(command);
        let mut child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Running { child, pidfd, name: name.to_owned(), log }),
            Err(errno) => {
                // The program cannot be watched, so it must not stay.
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(errno.into()))
            }
        }
    }

    /// Waits for its end; `tick` is called periodically.
    ///
    /// # Errors
    /// A signal arrived: the program is ended first.
    pub(super) fn wait(
        &self,
        running: &mut Running,
        tick: &mut dyn FnMut(),
    ) -> Result<ExitStatus, Failure> {
        loop {
            let mut watched = [
                PollFd::new(&running.pidfd, PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            ];
            // An error here is an interrupted call: the next round polls again.
            let _ = poll(&mut watched, Some(&timespec(TICK_MS)));
            let [ended, asked] = watched.map(|one| !one.revents().is_empty());
            tick();
            if ended {
                return running.child.wait().map_err(|error| {
                    Failure::new(Exit::Negative, format!("{}: {error}", running.name))
                });
            }
            if asked {
                running.terminate();
                let _ = running.child.wait();
                return Err(interrupted());
            }
        }
    }

    /// Runs a program to its end, which must be a success.
    pub(super) fn run(
        &self,
        name: &str,
        command: &mut Command,
        tick: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        let mut running = self.start(name, command, Stdio::null())?;
        let status = self.wait(&mut running, tick)?;
        if status.success() { Ok(()) } else { Err(running.failure(&status.to_string())) }
    }

    /// Waits this long, or for a signal.
    pub(super) fn pause(&self, milliseconds: i64) -> Result<(), Failure> {
        let mut watched = [PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        match poll(&mut watched, Some(&timespec(milliseconds))) {
            Ok(1..) => Err(interrupted()),
            _ => Ok(()),
        }
    }
}

impl Running {
    /// Takes its output, if that is a pipe; once.
    pub(super) fn take_output(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns the first line of its messages that begins with `start`.
    pub(super) fn find_line(&self, start: &str) -> Option<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        // A line that is just being written has no end yet.
        let (whole, _) = log.rsplit_once('\n')?;
        whole.lines().find(|line| line.starts_with(start)).map(str::to_owned)
    }

    /// Sends it a signal to end.
    pub(super) fn terminate(&self) {
        // It may have ended just now.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Whether it has ended already.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its failure, with the last line of its messages.
    pub(super) fn failure(&self, how: &str) -> Failure {
        let message = format!("{} failed ({how}): {}", self.name, last_words(&self.log));
        Failure::new(Exit::Negative, message)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After its end both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
