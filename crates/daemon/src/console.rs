//! What is said to a person: lines on the standard output and the standard error that need not be read.
//!
//! `println!` and `eprintln!` panic when the other end of a pipe has gone, and in the product a panic ends
//! the process: a daemon would die of the end of its log's reader, with clients connected.

use core::fmt::Arguments;
use stack::{Exit, Failure};
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why the first line that could not be written was not.
static LOST: OnceLock<String> = OnceLock::new();
/// A line could not be written.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Writes a line to the standard output, as `println!` does. If it is not read, nothing happens; what fails
/// otherwise (a full disk) makes the command fail in the end; see [`lost`](crate::console::lost).
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::console::output(format_args!("{}\n", format_args!($($words)*))) };
}

/// Writes a line to the standard error, as `eprintln!` does. What fails is left alone: there is no place to
/// tell it.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::console::error(format_args!("{}\n", format_args!($($words)*))) };
}

/// Writes to the standard output; see [`say!`](crate::say).
pub fn output(words: Arguments<'_>) {
    let Err(error) = io::stdout().lock().write_fmt(words) else { return };
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

/// Writes to the standard error; see [`tell!`](crate::tell).
pub fn error(words: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(words);
}
