//! The supervisor of a device's daemon: it restarts the daemon when a signal has ended it.
//!
//! It retains no data: the memory of a killed daemon is with the holders. A service manager does
//! the same for its services.

use super::backoff::{Backoff, End, Next};
use super::broken;
use super::program::Program;
use crate::again::FOREGROUND;
use crate::supervisors::Registered;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, setsid};
use stack::{Exit, Failure};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, ExitCode, Stdio};
use std::time::Instant;

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
    /// The daemon has ended.
    Ended {
        exit: Exit,
        /// Whether it has printed messages, with the reason.
        has_said: bool,
    },
}

/// Set in the environment of a supervisor and its daemon: their standard error is a log.
pub(crate) const LOG: &str = "OVERDRIVE_LOG";

/// Whether a supervisor has started this process.
pub(super) fn is_background() -> bool {
    std::env::var_os(LOG).is_some()
}

/// The log of a device's daemon. It gets its name once the daemon serves: a daemon that is refused,
/// because another one serves the device, must not replace the other one's log.
struct Log {
    path: PathBuf,
    fresh: PathBuf,
}

impl Log {
    /// # Errors
    /// The directory cannot be made.
    fn new(name: &str) -> Result<Log, Failure> {
        let directory = daemon::runtime_directory().join("logs");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| broken(&directory.display().to_string(), &error))?;
        // No device has a hidden name.
        let fresh = directory.join(format!(".{name}.{}", std::process::id()));
        Ok(Log { path: directory.join(name), fresh })
    }

    /// # Errors
    /// The file cannot be made.
    fn open(&self) -> Result<File, Failure> {
        // Holders append to it as well.
        let opened = File::options().create(true).append(true).open(&self.fresh);
        opened.map_err(|error| broken(&self.fresh.display().to_string(), &error))
    }

    /// Prints the messages of the daemon until now. False: there are none.
    fn show(&self) -> bool {
        let said = fs::read(&self.fresh).unwrap_or_default();
        String::from_utf8_lossy(&said)
            .lines()
            .for_each(|line| daemon::tell!("{}", host::without_stamp(line)));
        !said.is_empty()
    }

    /// Gives the log its name, in the place of an earlier daemon's.
    fn keep(&self) {
        let _ = fs::rename(&self.fresh, &self.path);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.fresh);
    }
}

/// Starts a supervisor for this command line with `--foreground`, waits until its daemon reports
/// that it serves, and prints the daemon's messages until then.
///
/// # Errors
/// It cannot be started.
pub(super) fn start(name: &str) -> Result<Started, Failure> {
    let trouble = |error| broken("attach", &error);
    let log = Log::new(name)?;
    let messages = log.open()?;
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
        log.show();
        log.keep();
        return Ok(Started::Ready);
    }
    let status = supervisor.wait().map_err(trouble)?;
    let exit = status.code().and_then(|code| u8::try_from(code).ok()).map_or(Exit::Io, Exit::of);
    Ok(Started::Ended { exit, has_said: log.show() })
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
    let name = arguments.name.as_deref().unwrap_or("a device");
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
                daemon::complain!("overdrive: {name}: its daemon was killed ({status}); restarted");
            }
            Next::StartAfter(pause) => {
                let after_ms = pause.as_millis();
                daemon::complain!(
                    "overdrive: {name}: its daemon was killed ({status}); restarting in {after_ms} \
                     ms"
                );
                if host::is_stopped_within(&supervisor.signals, pause) {
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
