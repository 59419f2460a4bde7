//! The former program after an upgrade, which continues if this one cannot start.
//!
//! ```text
//!   old program   opens itself, names the descriptor in the environment, executes the new one
//!   new program   serves: closes it.   Cannot start: executes it, with its former arguments
//!   old program   serves again, and reports the reason to 'overdrive upgrade'. Cannot reach a
//!                 backing just now: executes itself again after a pause
//! ```
//!
//! These values are those of `exec_values.rs`.

use crate::broker;
use crate::confine;
use crate::exec_values::{read_variable, set_variable};
use crate::front::Handover;
use rustix::fs::{Mode, OFlags};
use stack::{Exit, Failure};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// `PID:DESCRIPTOR` of the former program, ...
const FORMER: &str = "OVERDRIVE_FORMER";
/// ... and `PID:` with its arguments, as JSON.
const ARGUMENTS: &str = "OVERDRIVE_ARGUMENTS";
/// `PID:STATUS:MESSAGE`: the reason why the program that was to replace this one could not start.
const UNDONE: &str = "OVERDRIVE_UNDONE";
/// `PID:PATH` of the program that the last upgrade has executed. The next upgrade executes the same
/// path, even if the running program has no path any more.
const PROGRAM: &str = "OVERDRIVE_PROGRAM";

/// `PID:COUNT:MESSAGE`: attempts of a program to serve again after an upgrade that was undone, and
/// the reason why the last one failed.
const ATTEMPTS: &str = "OVERDRIVE_ATTEMPTS";
/// The pause after the first attempt. Each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause: well below the time for which requests wait.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The kernel's suffix to the path of a program whose file was removed or replaced.
const REPLACED: &str = " (deleted)";

/// The former program, until this one serves.
static PROGRAM_BEFORE: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// Whether this program has served.
static HAS_SERVED: AtomicBool = AtomicBool::new(false);

/// Returns a command with these arguments, without the values that an earlier upgrade has left in
/// the environment.
fn program_with(
    program: impl AsRef<Path>,
    arguments: impl IntoIterator<Item = OsString>,
) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(arguments);
    for name in [FORMER, ARGUMENTS, UNDONE, PROGRAM, ATTEMPTS, broker::SOCKET] {
        command.env_remove(name);
    }
    // The next program of this process is confined from its start.
    let confinement = confine::state();
    set_variable(&mut command, confine::CONFINED, &serde_json::json!(confinement).to_string());
    #[cfg(feature = "history")]
    crate::drive_samples::leave(&mut command);
    if let Some(Ok(number)) = broker::present().map(|broker| broker.leave_open()) {
        set_variable(&mut command, broker::SOCKET, &number.to_string());
    }
    command
}

fn own_arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// Returns the arguments of the former program.
fn former_arguments() -> Vec<OsString> {
    let text = read_variable(ARGUMENTS).unwrap_or_default();
    match serde_json::from_str::<Vec<String>>(&text) {
        Ok(arguments) => arguments.into_iter().map(OsString::from).collect(),
        // Arguments that are not valid text are replaced by those of this program.
        Err(_) => own_arguments(),
    }
}

/// Takes over the descriptor of the former program that the environment names, if there was an
/// upgrade, and the former program's connection to the broker. Call this at the start, before
/// anything is opened.
pub fn find_former() {
    broker::find();
    let number = read_variable(FORMER).and_then(|number| number.parse().ok());
    let file = number.and_then(|number| host::inherited(number).ok());
    *PROGRAM_BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = file;
}

/// Closes the former program's descriptor: this program serves, so the upgrade is final.
pub(crate) fn forget_former() {
    HAS_SERVED.store(true, Ordering::SeqCst);
    *PROGRAM_BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Executes the former program, if this one was to replace it and cannot start. Returns otherwise.
pub fn resume_former(exit: Exit, message: &str) {
    let taken = PROGRAM_BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(file) = taken else { return };
    crate::complain!("overdrive: {message}");
    crate::complain!("overdrive: the new program cannot start; the former program continues");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut command = program_with(path, former_arguments());
    set_variable(&mut command, UNDONE, &format!("{}:{message}", exit as u8));
    if let Some(program) = read_variable(PROGRAM) {
        set_variable(&mut command, PROGRAM, &program);
    }
    let error = command.exec();
    crate::complain!("overdrive: the former program cannot be executed: {error}");
}

/// Executes this program again after a pause, if it continues after an upgrade that was undone and
/// cannot start for a reason that may pass: users of its volumes wait, and a supervisor takes the
/// end of a daemon that has served for a stop. Returns otherwise, or if a signal requests the end.
pub fn resume_again(exit: Exit, message: &str) {
    let Some(undone) = read_variable(UNDONE) else { return };
    if exit.is_lasting() || HAS_SERVED.load(Ordering::SeqCst) {
        return;
    }
    let before = read_variable(ATTEMPTS).unwrap_or_default();
    let (attempts, reason) = before.split_once(':').unwrap_or_default();
    let attempts = attempts.parse().unwrap_or(0u32);
    if reason != message {
        crate::complain!("overdrive: {message}; trying again until it can be served");
    }
    let Ok(signals) = host::signals() else { return };
    if host::is_stopped_within(&signals, pause_after(attempts)) {
        return;
    }
    let mut command = program_with("/proc/self/exe", own_arguments());
    set_variable(&mut command, UNDONE, &undone);
    let attempts = attempts.saturating_add(1);
    set_variable(&mut command, ATTEMPTS, &format!("{attempts}:{message}"));
    crate::front::forget_inherited(&mut command);
    if let Some(program) = read_variable(PROGRAM) {
        set_variable(&mut command, PROGRAM, &program);
    }
    let error = command.exec();
    crate::complain!("overdrive: the program cannot be executed again: {error}");
}

fn pause_after(attempts: u32) -> Duration {
    (PAUSE_MIN * (1 << attempts.min(16))).min(PAUSE_MAX)
}

/// Replaces this program with another one, which can return to this one. Returns if neither can be
/// executed.
pub(crate) fn execute(program: &Path, handover: &Handover) -> io::Error {
    let own = rustix::fs::open("/proc/self/exe", OFlags::RDONLY, Mode::empty());
    let mut command = program_with(program, own_arguments());
    command.env(handover.variable, &handover.text);
    let path = program.to_str();
    path.into_iter().for_each(|path| set_variable(&mut command, PROGRAM, path));
    if let Ok(own) = &own {
        set_variable(&mut command, FORMER, &own.as_raw_fd().to_string());
        let arguments = own_arguments().into_iter().map(|one| one.into_string().ok());
        if let Some(arguments) = arguments.collect::<Option<Vec<_>>>() {
            set_variable(&mut command, ARGUMENTS, &serde_json::json!(arguments).to_string());
        }
    }
    let error = command.exec();
    let message = format!("{}: cannot be executed: {error}", program.display());
    crate::complain!("overdrive: {message}; the former program continues");
    let mut command = program_with("/proc/self/exe", own_arguments());
    command.env(handover.variable, &handover.text);
    set_variable(&mut command, UNDONE, &format!("{}:{message}", Exit::Usage as u8));
    path.into_iter().for_each(|path| set_variable(&mut command, PROGRAM, path));
    command.exec()
}

/// Returns the program that an upgrade executes: the one at this program's path, where the new
/// version was installed.
pub fn program_to_upgrade_to() -> Option<PathBuf> {
    read_variable(PROGRAM).map(PathBuf::from).or_else(|| program_path().ok())
}

/// Returns the path of this program; another file may be there by now.
///
/// # Errors
/// There is no /proc.
pub fn program_path() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let without_note =
        path.to_str().and_then(|path| path.strip_suffix(REPLACED)).map(PathBuf::from);
    match without_note {
        Some(without_note) if !path.exists() => Ok(without_note),
        _ => Ok(path),
    }
}

/// Fails if the last upgrade was undone.
///
/// # Errors
/// The reason why the new program could not start.
pub(crate) fn check_upgraded() -> Result<(), Failure> {
    let Some(undone) = read_variable(UNDONE) else { return Ok(()) };
    let (status, message) = undone.split_once(':').unwrap_or_default();
    let exit = status.parse().map_or(Exit::Io, Exit::of);
    Err(Failure::new(exit, format!("{message}; not upgraded: the former program continues")))
}
