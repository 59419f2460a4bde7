//! The supervisor of a device's daemon: it starts the daemon again when a signal has ended it.
//!
//! It keeps nothing: what a killed daemon leaves is with the holders. A service manager does the same for what it starts.

use super::broken;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, setsid};
use stack::{Exit, Failure};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A daemon that lived for so long was well.
const WELL: Duration = Duration::from_secs(10);
/// So many that did not live so long, one after the other, are enough.
const DEATHS_MAX: u32 = 5;

/// Keep a daemon running that a signal may end.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments of this program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// How the start of a daemon went.
pub(super) enum Started {
    /// It serves.
    Ready,
    /// It has ended with this status, after it said why.
    Ended(Exit),
}

/// Where the messages of a device's daemon go.
///
/// # Errors
/// The directory cannot be made.
pub(super) fn log(name: &str) -> Result<PathBuf, Failure> {
    let directory = daemon::runtime_directory().join("logs");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|error| broken(&directory.display().to_string(), &error))?;
    Ok(directory.join(name))
}

/// Removes the messages of a daemon that has written everything out. Those of one that has failed
/// stay until the next 'attach'.
pub(crate) fn forget_log(name: &str) {
    let _ = fs::remove_file(daemon::runtime_directory().join("logs").join(name));
}

/// Prints what a daemon has said so far.
pub(super) fn show(log: &Path) {
    let said = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().for_each(|line| daemon::tell!("{line}"));
}

/// Starts a supervisor for this command line with `--foreground`, and waits until its daemon tells that it serves.
///
/// # Errors
/// It cannot be started.
pub(super) fn start(log: &Path) -> Result<Started, Failure> {
    let trouble = |error| broken("attach", &error);
    // What an earlier daemon has said goes; what holders say of this one comes beside its own words.
    let _ = fs::remove_file(log);
    let messages = File::options().create(true).append(true).open(log);
    let messages = messages.map_err(|error| broken(&log.display().to_string(), &error))?;
    let program = std::env::current_exe().map_err(trouble)?;
    let mut command = Command::new(program);
    command.arg("supervise").arg("--").args(std::env::args_os().skip(1)).arg("--foreground");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(messages);
    let mut supervisor = command.spawn().map_err(trouble)?;
    let mut line = String::new();
    let told = supervisor.stdout.take().expect("piped");
    let read = BufReader::new(told).read_line(&mut line);
    if read.is_ok_and(|bytes| bytes > 0) {
        return Ok(Started::Ready);
    }
    let status = supervisor.wait().map_err(trouble)?;
    Ok(Started::Ended(
        status.code().and_then(|code| u8::try_from(code).ok()).map_or(Exit::Io, Exit::of),
    ))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    uring::close_inherited();
    // The terminal that it was started from may go.
    let _ = setsid();
    let signals = uring::signals().map_err(|error| broken("signals", &error))?;
    let mut deaths = 0;
    loop {
        #[allow(clippy::disallowed_methods, reason = "a process without a lane")]
        let begun = Instant::now();
        let status = run_once(&arguments.arguments, &signals)?;
        if let Some(code) = status.code() {
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(Exit::Io as u8)));
        }
        deaths = if begun.elapsed() < WELL { deaths + 1 } else { 1 };
        if deaths == DEATHS_MAX {
            let message =
                format!("its process was ended {deaths} times ({status}); not started again");
            return Err(Failure::new(Exit::Io, message));
        }
        daemon::tell!("overdrive: its process was ended ({status}); started again");
    }
}

/// Runs a daemon to its end. A signal to us is passed on to it.
fn run_once(arguments: &[OsString], signals: &uring::File) -> Result<ExitStatus, Failure> {
    let trouble = |error| broken("supervise", &error);
    let program = std::env::current_exe().map_err(trouble)?;
    let mut command = Command::new(program);
    command.args(arguments);
    uring::make_ordinary(&mut command);
    let mut child = command.spawn().map_err(trouble)?;
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| trouble(errno.into()))?;
    wait(&mut child, pid, &ended, signals).map_err(trouble)
}

fn wait(
    child: &mut Child,
    pid: Pid,
    ended: &OwnedFd,
    signals: &uring::File,
) -> std::io::Result<ExitStatus> {
    let mut polled = [PollFd::new(ended, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
    while matches!(poll(&mut polled, None), Err(rustix::io::Errno::INTR)) {}
    if polled[0].revents().is_empty() {
        // It may have ended in this moment; then there is nothing to tell.
        let _ = kill_process(pid, Signal::TERM);
    }
    child.wait()
}
