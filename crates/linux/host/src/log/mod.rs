//! Messages of a daemon: lines with a time and a severity, or messages of systemd's journal.
//!
//! | standard error | a message |
//! |---|---|
//! | a terminal, or of a command | `overdrive: ...` |
//! | a log | `2026-11-25T23:01:09Z error overdrive: ...` |
//! | systemd's journal, which has times itself | `<3>overdrive: ...` (sd-daemon(3)) |
//!
//! In the journal, messages about a volume have fields instead ([`journal`]). Others stay lines of
//! the stream to the journal: they include the last message of a process, and a stream belongs to
//! its unit even if its process has ended.

mod journal;

use journal::Journal;
use rustix::time::{ClockId, clock_gettime};
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Form of the lines on standard error: one of the following.
static FORM: AtomicU8 = AtomicU8::new(PLAIN);

const PLAIN: u8 = 0;
/// Lines have a time and a severity.
const LOG: u8 = 1;
/// Lines have a severity.
const JOURNAL: u8 = 2;

/// The most verbose level whose messages are written; see [`set_log_level`].
static LEVEL: AtomicU8 = AtomicU8::new(5);

/// The device and the inode of the journal's stream, in the environment of services.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Severity of a message; as a level, the least severe one that is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Something has failed.
    Error,
    /// Something has happened.
    Notice,
    /// A step on the way, for the search for a fault.
    Debug,
}

impl Severity {
    /// All of them, the most severe first.
    pub const ALL: [Severity; 3] = [Severity::Error, Severity::Notice, Severity::Debug];

    /// Returns its number in syslog(3).
    fn level(self) -> u8 {
        match self {
            Severity::Error => 3,
            Severity::Notice => 5,
            Severity::Debug => 7,
        }
    }

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Notice => "notice",
            Severity::Debug => "debug",
        }
    }
}

/// The level of messages if none was chosen.
impl Default for Severity {
    fn default() -> Severity {
        Severity::Notice
    }
}

impl std::str::FromStr for Severity {
    type Err = String;

    fn from_str(word: &str) -> Result<Severity, String> {
        let known = Severity::ALL.into_iter().find(|severity| severity.word() == word);
        known.ok_or_else(|| {
            format!("'{word}' is no level of messages; write error, notice or debug")
        })
    }
}

/// Writes only messages of this severity and more severe ones from now on.
pub fn set_log_level(level: Severity) {
    LEVEL.store(level.level(), Ordering::Relaxed);
}

/// Returns the level of messages.
pub fn log_level() -> Severity {
    let number = LEVEL.load(Ordering::Relaxed);
    Severity::ALL.into_iter().find(|level| level.level() == number).unwrap_or_default()
}

/// Whether messages of this severity are written. Callers check it before they format a message.
pub fn is_logged(severity: Severity) -> bool {
    severity.level() <= LEVEL.load(Ordering::Relaxed)
}

/// Makes lines on standard error begin with their time (UTC) and their severity, from now on.
pub fn begin_log() {
    FORM.store(LOG, Ordering::Relaxed);
}

/// Makes lines begin with their severity from now on, if standard error is systemd's journal.
pub fn begin_journal() {
    let stream = std::env::var(JOURNAL_STREAM).unwrap_or_default();
    let is_journal = rustix::fs::fstat(stderr())
        .is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino));
    if is_journal {
        FORM.store(JOURNAL, Ordering::Relaxed);
    }
}

/// Makes lines those of a log from now on, unless standard error is a terminal, or another form was
/// chosen before.
pub fn begin_daemon() {
    if FORM.load(Ordering::Relaxed) == PLAIN && !stderr().is_terminal() {
        begin_log();
    }
}

/// Whether lines begin with their severity.
pub fn has_stamps() -> bool {
    FORM.load(Ordering::Relaxed) != PLAIN
}

/// Returns a line of a log without its time and its severity, if it has them.
pub fn without_stamp(line: &str) -> &str {
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(time), Some(severity), Some(rest))
            if time.len() == TIME_BYTES
                && time.ends_with('Z')
                && Severity::ALL.iter().any(|known| known.word() == severity) =>
        {
            rest
        }
        _ => line,
    }
}

/// Length of a time in the format of [`utc`], in bytes.
const TIME_BYTES: usize = "2026-11-25T23:01:09Z".len();

/// Formats a time in seconds since 1970. (The calendar: H. Hinnant, days from civil, inverted.)
fn utc(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns a line as this process writes it: with its time and its severity if standard error is a
/// log.
pub fn stamped(severity: Severity, line: String) -> String {
    let now_s = || clock_gettime(ClockId::Realtime).tv_sec;
    match FORM.load(Ordering::Relaxed) {
        LOG => format!("{} {} {line}", utc(now_s()), severity.word()),
        JOURNAL => format!("<{}>{line}", severity.level()),
        _ => line,
    }
}

/// Writes a message of one line, about this volume if it is about one. Errors are ignored: there
/// is nowhere to report them.
pub fn write_log(severity: Severity, volume: Option<&str>, line: String) {
    static JOURNAL_SOCKET: OnceLock<Option<Journal>> = OnceLock::new();
    if volume.is_some() && FORM.load(Ordering::Relaxed) == JOURNAL {
        let journal = JOURNAL_SOCKET.get_or_init(|| Journal::at(Path::new(journal::SOCKET)));
        if journal.as_ref().is_some_and(|journal| journal.send(severity, volume, &line)) {
            return;
        }
    }
    let _ = stderr().lock().write_all(stamped(severity, line).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_have_a_time_and_a_severity() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
        for severity in Severity::ALL {
            let line = format!("{} {} overdrive: a b", utc(1), severity.word());
            assert_eq!(without_stamp(&line), "overdrive: a b");
            assert_eq!(severity.word().parse(), Ok(severity));
        }
        for plain in ["overdrive: a b", "", "one two three"] {
            assert_eq!(without_stamp(plain), plain);
        }
        assert!("Error".parse::<Severity>().is_err_and(|why| why.contains("notice or debug")));
    }
}
