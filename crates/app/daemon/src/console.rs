//! Output for operators: lines on the standard output and the standard error that need not be read.
//!
//! `println!` and `eprintln!` panic when the other end of a pipe has gone, and in the product a
//! panic ends the process: a daemon would die of the end of its log's reader, with clients
//! connected.
//!
//! Names and paths of users may hold anything. Everything that is written here is printable: a line
//! stays a line, and no terminal obeys it.

use block::printable;
use core::fmt::Arguments;
use stack::{Exit, Failure};
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why the first line that could not be written was not.
static LOST: OnceLock<String> = OnceLock::new();
/// A line could not be written.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Writes one line to the standard output, as `println!` does. If it is not read, nothing happens;
/// what fails otherwise (a full disk) makes the command fail in the end; see
/// [`lost`](crate::console::lost).
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::console::say(format_args!($($words)*)) };
}

/// Writes one line to the standard error, as `eprintln!` does. Errors are
/// ignored: there is no place to report them.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::console::tell(format_args!($($words)*)) };
}

/// Writes one line about an error to the standard error; as [`tell!`](crate::tell), but of a higher
/// severity in a log.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => { $crate::console::complain(format_args!($($words)*)) };
}

/// Returns a line of these words.
fn line(words: Arguments<'_>) -> String {
    let text = words.to_string();
    let mut line = printable(&text).into_owned();
    line.push('\n');
    line
}

/// Writes a line to the standard output; see [`say!`](crate::say).
pub fn say(words: Arguments<'_>) {
    put(&line(words));
}

/// Writes lines to the standard output; as [`say!`](crate::say), but a name in them must be
/// printable already, or its ends of lines are those of the text.
pub fn output(words: Arguments<'_>) {
    let text = words.to_string();
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    put(&lines.join("\n"));
}

fn put(text: &str) {
    let Err(error) = io::stdout().lock().write_all(text.as_bytes()) else { return };
    ENDED.store(true, Ordering::Relaxed);
    if error.kind() != ErrorKind::BrokenPipe {
        let _ = LOST.set(error.to_string());
    }
}

/// Whether the standard output takes nothing any more: what is said again and again may end.
pub fn has_ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// Whether something that was to be said on the standard output could not be: a command that goes well
/// otherwise has failed then, for what it was asked for is not there.
///
/// # Errors
/// Exit status 6, with the reason.
pub fn lost() -> Result<(), Failure> {
    let Some(error) = LOST.get() else { return Ok(()) };
    let message = format!("the standard output cannot be written: {error}; give it room");
    Err(Failure::new(Exit::Io, message))
}

fn tell_as(severity: host::Severity, words: Arguments<'_>) {
    let line = host::stamped(severity, line(words));
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Writes a line to the standard error; see [`tell!`](crate::tell).
pub fn tell(words: Arguments<'_>) {
    tell_as(host::Severity::Notice, words);
}

/// Writes a line to the standard error; see [`complain!`](crate::complain).
pub fn complain(words: Arguments<'_>) {
    tell_as(host::Severity::Error, words);
}
