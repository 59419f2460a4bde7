//! Output for operators: lines on the standard output and the standard error, which may be closed.
//!
//! `println!` and `eprintln!` panic when the other end of a pipe is closed, and in the product a
//! panic ends the process: a daemon with connected clients would die when the reader of its log
//! ends.
//!
//! Names and paths of users may contain any bytes. Everything that is written here is made
//! printable: a line stays one line, and it cannot control a terminal.
//!
//! Colours are shown by terminals that have them, and by other outputs only if CLICOLOR_FORCE is
//! set; NO_COLOR, CLICOLOR=0 and TERM=dumb turn them off. Objects of `--json` never have colours.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use block::printable;
use core::fmt::Arguments;
pub use host::Severity;
use stack::{Exit, Failure};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Beginning of a message.
const PREFIX: &str = "overdrive:";
/// Error of the first line that could not be written for another reason than a closed pipe.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();
/// Breaks messages into the lines of a terminal.
static FIT: OnceLock<fn(&str) -> String> = OnceLock::new();
/// Whether writing a line has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Writes one line to the standard output, as `println!` does. A closed reader is ignored; any
/// other failure (a full disk) makes the command fail in the end; see
/// [`check_output`](crate::console::check_output).
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::console::say(format_args!($($words)*)) };
}

/// Writes one line to the standard error or the journal, as `eprintln!` does. Errors are ignored:
/// there is nowhere to report them. With `volume = NAME,` before the words, the message has this
/// volume as a field in the journal.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::log!($crate::console::Severity::Notice, $($words)*) };
}

/// Writes one line about an error, as [`tell!`](crate::tell) does, but with a higher severity.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => { $crate::log!($crate::console::Severity::Error, $($words)*) };
}

/// Writes one line about a step on the way, as [`complain!`](crate::complain) does, if the level of
/// messages includes those.
#[macro_export]
macro_rules! detail {
    ($($words:tt)*) => { $crate::log!($crate::console::Severity::Debug, $($words)*) };
}

/// Writes one line of any severity, for the macros above.
#[doc(hidden)]
#[macro_export]
macro_rules! log {
    ($severity:expr, volume = $volume:expr, $($words:tt)*) => {
        $crate::console::log(
            $severity,
            Some(AsRef::<str>::as_ref(&$volume)),
            format_args!($($words)*),
        )
    };
    ($severity:expr, $($words:tt)*) => {
        $crate::console::log($severity, None, format_args!($($words)*))
    };
}

/// Formats one printable line.
fn line(words: Arguments<'_>) -> String {
    let text = words.to_string();
    let mut line = printable(&text).into_owned();
    line.push('\n');
    line
}

/// Writes a line to the standard output; see [`say!`](crate::say).
pub fn say(words: Arguments<'_>) {
    write_text(&line(words));
}

/// Writes lines to the standard output, as [`say!`](crate::say) does, but keeps line ends: a name
/// in the text must not contain one.
pub fn output(words: Arguments<'_>) {
    let text = words.to_string();
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    write_text(&lines.join("\n"));
}

/// Writes a line of parts, each with its style, to the standard output.
pub fn say_styled<'a>(parts: impl IntoIterator<Item = (Style, &'a str)>) {
    let has_colours = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let mut line = String::new();
    for (style, text) in parts {
        let text = printable(text);
        match has_colours && style != Style::new() {
            true => line.push_str(&format!("{style}{text}{style:#}")),
            false => line.push_str(&text),
        }
    }
    line.push('\n');
    write_text(&line);
}

fn write_text(text: &str) {
    let Err(error) = io::stdout().lock().write_all(text.as_bytes()) else { return };
    HAS_FAILED.store(true, Ordering::Relaxed);
    if error.kind() != ErrorKind::BrokenPipe {
        let _ = WRITE_ERROR.set(error.to_string());
    }
}

/// Whether the standard output accepts nothing any more, so that repeated output may stop.
pub fn has_ended() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Checks that all output has reached the standard output. A command whose result is missing has
/// failed, even if its work has succeeded.
///
/// # Errors
/// Exit status 6, with the reason.
pub fn check_output() -> Result<(), Failure> {
    let Some(error) = WRITE_ERROR.get() else { return Ok(()) };
    let message = format!("the standard output cannot be written: {error}; free space on its disk");
    Err(Failure::new(Exit::Io, message))
}

/// Lets this function break messages, each of which ends with a line end, into lines where the
/// standard error is a terminal. Elsewhere, other programs may read them, and each is one line.
pub fn fit_messages(fit: fn(&str) -> String) {
    let _ = FIT.set(fit);
}

/// Writes a line to the standard error or the journal, if the level of messages includes it.
pub fn log(severity: Severity, volume: Option<&str>, words: Arguments<'_>) {
    if !host::is_logged(severity) {
        return;
    }
    // A log has no colours: its lines have their severity.
    let has_colours =
        !host::has_stamps() && AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let mut line = line(words);
    if let Some(fit) = FIT.get().filter(|_| !host::has_stamps() && io::stderr().is_terminal()) {
        line = fit(&line);
    }
    host::write_log(severity, volume, if has_colours { coloured(severity, line) } else { line });
}

/// Returns a line whose first word, the name of the program, has the colour of the severity.
fn coloured(severity: Severity, line: String) -> String {
    let style = match severity {
        Severity::Error => AnsiColor::Red.on_default().bold(),
        Severity::Notice => Style::new().bold(),
        Severity::Debug => Style::new(),
    };
    match line.strip_prefix(PREFIX) {
        Some(rest) => format!("{style}{PREFIX}{style:#}{rest}"),
        None => line,
    }
}
