//! The Python that runs the jobs.

use crate::tools;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use stack::{Exit, Failure};
use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

/// The variable that names the Python with the package.
const VARIABLE: &str = "OVERDRIVE_PYTHON";
/// Checks the package and its version, and starts the sweep.
const START: &str = include_str!("start.py");

/// Returns the Python to use: the one of the option, of the environment, or in PATH.
///
/// # Errors
/// It does not exist.
pub(super) fn find_python(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let of_environment = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let (path, by) = match (named, of_environment()) {
        (Some(path), _) => (path.to_owned(), "--python"),
        (None, Some(path)) => (path.into(), VARIABLE),
        (None, None) => {
            let what = "python3: is not in PATH; install Python 3.10 or later, or name one by \
                        --python";
            let found = tools::find("python3");
            return found.ok_or_else(|| Failure::new(Exit::Usage, what));
        }
    };
    // A name without a directory is searched for in PATH, as shells do.
    let found = match path.components().count() {
        1 => path.to_str().and_then(tools::find),
        _ => path.is_file().then(|| path.clone()),
    };
    found.ok_or_else(|| {
        let message = format!("{by}: {} is no program; name a Python", path.display());
        Failure::new(Exit::Usage, message)
    })
}

/// A run of the package.
pub(super) struct Sweep {
    command: Command,
    python: PathBuf,
}

impl Sweep {
    /// Prepares a run with this Python.
    pub(super) fn new(python: &Path) -> Sweep {
        let mut command = Command::new(python);
        command.args(["-c", START, env!("CARGO_PKG_VERSION")]).stdin(Stdio::null());
        Sweep { command, python: python.to_owned() }
    }

    /// Adds a path that is no option, even if it begins with a hyphen.
    pub(super) fn path(&mut self, path: &Path) {
        let is_plain = !path.as_os_str().as_encoded_bytes().starts_with(b"-");
        self.command.arg(if is_plain { path.to_owned() } else { Path::new(".").join(path) });
    }

    pub(super) fn flag(&mut self, name: &str) {
        self.command.arg(name);
    }

    /// Adds an option with a word of the user, which may begin with a hyphen.
    pub(super) fn word(&mut self, name: &str, value: &str) {
        self.command.arg(format!("{name}={value}"));
    }

    pub(super) fn option(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.command.arg(name).arg(value);
    }

    /// Runs it to its end. Ctrl-C is passed on, and the package ends with the results of
    /// the jobs that have ended.
    ///
    /// # Errors
    /// It cannot be started, or was killed.
    pub(super) fn run(mut self) -> Result<ExitCode, Failure> {
        let place = self.python.display().to_string();
        let failed =
            |error: std::io::Error| Failure::new(Exit::Negative, format!("{place}: {error}"));
        let signals = host::signals().map_err(failed)?;
        host::make_ordinary(&mut self.command);
        // A terminal's Ctrl-C reaches this process only, which passes it on once.
        self.command.process_group(0);
        let mut child = self.command.spawn().map_err(failed)?;
        let status = wait(&mut child, &signals).map_err(failed)?;
        // A script in front of Python reports a signal as 128 plus its number.
        let signal =
            status.signal().or(status.code().filter(|code| *code > 128).map(|it| it - 128));
        match signal {
            None => Ok(ExitCode::from(status.code().map_or(1, |code| code as u8))),
            Some(signal) => {
                let what = format!(
                    "{place}: was killed by signal {signal}; run the same command again to go on"
                );
                Err(Failure::new(Exit::Negative, what))
            }
        }
    }
}

/// Waits for the end of a child, and passes signals on to it.
fn wait(child: &mut Child, signals: &host::File) -> std::io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let mut is_interrupted = false;
    loop {
        let mut polled = [PollFd::new(&ended, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        // Signals stay readable: only the first one is passed on.
        let watched = if is_interrupted { &mut polled[..1] } else { &mut polled[..] };
        // An error here is an interrupted call: the next round polls again.
        _ = poll(watched, None);
        let arrived = polled.map(|one| !one.revents().is_empty());
        if arrived[0] {
            return child.wait();
        }
        if arrived[1] && !is_interrupted {
            is_interrupted = true;
            // It may have ended just now. The whole group: the Python may be behind a script, as
            // those of pyenv are.
            _ = kill_process_group(pid, Signal::INT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_is_found_or_named_in_the_message() {
        assert_eq!(find_python(Some(Path::new("/bin/sh"))).ok(), Some("/bin/sh".into()));
        assert!(find_python(Some(Path::new("sh"))).is_ok(), "in PATH");
        for bad in ["/no/such/python", "no-such-python", "/"] {
            let failure = find_python(Some(Path::new(bad))).expect_err("no program");
            assert!(failure.to_string().starts_with(&format!("--python: {bad} is no program")));
        }
    }
}
