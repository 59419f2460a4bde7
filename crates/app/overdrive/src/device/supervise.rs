//! The supervisor of a device's daemon: it restarts the daemon when a signal has ended it.
//!
//! It retains no data: the memory of a killed daemon is with the holders. A service manager does
//! the same for its services.

use super::backoff::{Backoff, End, Next};
use super::broken;
use super::program::Program;
use crate::again::FOREGROUND;
use crate::supervisors::Registered;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, setsid};
use stack::{Exit, Failure};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Size of a signalfd_siginfo(2).
const SIGNAL_BYTES: usize = 128;

/// Restart a daemon that a signal has ended.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The device.
    #[arg(long)]
    name: Option<String>,

    /// Arguments of this program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Result of starting a daemon.
pub(super) enum Started {
    /// The daemon serves.
    Ready,
    /// The daemon has ended with this status, and has printed the reason.
    Ended(Exit),
}

/// Set in the environment of a supervisor and its daemon: their standard error is a log.
pub(crate) const LOG: &str = "OVERDRIVE_LOG";

/// Whether a supervisor has started this process.
pub(super) fn is_background() -> bool {
    std::env::var_os(LOG).is_some()
}

/// Returns the log of a device's daemon.
///
/// # Errors
/// The directory cannot be made.
pub(super) fn log(name: &str) -> Result<PathBuf, Failure> {
    let directory = daemon::runtime_directory().join("logs");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|error| broken(&directory.display().to_string(), &error))?;
    Ok(directory.join(name))
}

/// Prints the messages of a daemon until now. False: there are none.
pub(super) fn show(log: &Path) -> bool {
    let said = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&said)
        .lines()
        .for_each(|line| daemon::tell!("{}", host::without_stamp(line)));
    !said.is_empty()
}

/// Starts a supervisor for this command line with `--foreground`, and waits until its daemon
/// reports that it serves.
///
/// # Errors
/// It cannot be started.
pub(super) fn start(name: &str, log: &Path) -> Result<Started, Failure> {
    let trouble = |error| broken("attach", &error);
    // Removes the log of an earlier daemon; holders append to the new one.
    let _ = fs::remove_file(log);
    let messages = File::options().create(true).append(true).open(log);
    let messages = messages.map_err(|error| broken(&log.display().to_string(), &error))?;
    let program = daemon::program_path().map_err(trouble)?;
    let mut command = Command::new(program);
    command.args(["supervise", "--name", name, "--"]);
    command.args(std::env::args_os().skip(1)).arg(FOREGROUND);
    command.env(LOG, "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(messages);
    let mut supervisor = command.spawn().map_err(trouble)?;
    let mut line = String::new();
    let stdout = supervisor.stdout.take().expect("piped");
    let read = BufReader::new(stdout).read_line(&mut line);
    if read.is_ok_and(|bytes| bytes > 0) {
        return Ok(Started::Ready);
    }
    let status = supervisor.wait().map_err(trouble)?;
    Ok(Started::Ended(
        status.code().and_then(|code| u8::try_from(code).ok()).map_or(Exit::Io, Exit::of),
    ))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    host::close_inherited();
    // The terminal that it was started from may be closed.
    let _ = setsid();
    let signals = host::signals().map_err(|error| broken("signals", &error))?;
    let mut supervisor = Supervisor {
        arguments,
        program: Program::find()?,
        signals,
        backoff: Backoff::default(),
        seat: None,
        is_stopped: false,
    };
    loop {
        let end = supervisor.run_once()?;
        let status = end.status;
        if supervisor.is_stopped {
            return Ok(exit_of(status.code().unwrap_or(0)));
        }
        if !end.served {
            supervisor.program.change();
        }
        match supervisor.backoff.next(&end) {
            Next::End(code) => return Ok(exit_of(code)),
            Next::GiveUp(code) => {
                daemon::complain!(
                    "overdrive: the daemon refuses repeatedly (status {code}) and is not \
                     restarted; users of the device wait for the next 'overdrive attach'"
                );
                return Ok(exit_of(code));
            }
            Next::StartAfter(pause) if pause.is_zero() => {
                daemon::complain!("overdrive: its process was killed ({status}); restarted");
            }
            Next::StartAfter(pause) => {
                let after_ms = pause.as_millis();
                daemon::complain!(
                    "overdrive: its process was killed ({status}); restarting in {after_ms} ms"
                );
                if supervisor.is_stopped_within(pause) {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }
}

fn exit_of(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(Exit::Io as u8))
}

fn trouble(error: std::io::Error) -> Failure {
    broken("supervise", &error)
}

/// A device's supervisor.
struct Supervisor<'a> {
    arguments: &'a Arguments,
    program: Program,
    signals: host::File,
    backoff: Backoff,
    /// Set once its daemon has served.
    seat: Option<Registered>,
    /// Whether a signal has requested the end.
    is_stopped: bool,
}

impl Supervisor<'_> {
    /// Runs a daemon to its end. A signal to this process is forwarded to it.
    fn run_once(&mut self) -> Result<End, Failure> {
        #[allow(clippy::disallowed_methods, reason = "a process without a lane")]
        let begun = Instant::now();
        let mut child = self.program.start(&self.arguments.arguments).map_err(trouble)?;
        let mut stdout = child.stdout.take();
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| trouble(errno.into()))?;
        let mut served = false;
        loop {
            let ready = self.wait(&ended, stdout.as_ref()).map_err(trouble)?;
            if ready.has_output
                && let Some(line) = stdout.take().and_then(first_line)
            {
                served = true;
                self.serves(&line);
            }
            if ready.signal && !ready.ended {
                self.take_signal();
                // The daemon may have ended just now; then there is no process to signal.
                let _ = kill_process(pid, Signal::TERM);
            }
            if ready.ended {
                let status = child.wait().map_err(trouble)?;
                return Ok(End { status, lived: begun.elapsed(), served });
            }
        }
    }

    fn wait(&self, ended: &OwnedFd, stdout: Option<&ChildStdout>) -> std::io::Result<Ready> {
        let mut polled =
            vec![PollFd::new(ended, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        polled.extend(stdout.map(|stdout| PollFd::new(stdout, PollFlags::IN)));
        while matches!(poll(&mut polled, None), Err(rustix::io::Errno::INTR)) {}
        let is_ready = |index: usize| polled.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready { ended: is_ready(0), signal: is_ready(1), has_output: is_ready(2) })
    }

    /// Notes that the daemon serves: forwards its line, and registers this process as the device's
    /// supervisor.
    fn serves(&mut self, line: &str) {
        // Only the first daemon's line is awaited.
        let _ = std::io::stdout().write_all(line.as_bytes());
        if let Some(name) = &self.arguments.name
            && self.seat.is_none()
        {
            let registered = Registered::new(&daemon::runtime_directory(), name);
            self.seat = registered
                .map_err(|error| daemon::complain!("overdrive: {name}: its supervisor: {error}"))
                .ok();
        }
    }

    fn take_signal(&mut self) {
        self.is_stopped = true;
        let mut buffer = [0; SIGNAL_BYTES];
        let _ = rustix::io::read(&*self.signals, &mut buffer);
    }

    /// Waits before a restart. True: the end was requested.
    fn is_stopped_within(&self, pause: Duration) -> bool {
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: pause.as_secs().cast_signed(),
            tv_nsec: pause.subsec_nanos().into(),
        };
        matches!(poll(&mut polled, Some(&timeout)), Ok(1..))
    }
}

/// Events that have ended a supervisor's wait.
struct Ready {
    ended: bool,
    signal: bool,
    /// The daemon has printed a line, or has closed its output.
    has_output: bool,
}

/// Returns the line that a daemon prints once it serves. None: it has ended without one.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    Some(line)
}
