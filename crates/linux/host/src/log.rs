//! Lines of a log: each begins with its time and its severity.
//!
//! | standard error | a line |
//! |---|---|
//! | a terminal, or of a command | `overdrive: ...` |
//! | a log | `2026-11-25T23:01:09Z error overdrive: ...` |
//! | systemd's journal, which has times itself | `<3>overdrive: ...` (sd-daemon(3)) |

use rustix::time::{ClockId, clock_gettime};
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU8, Ordering};

/// Form of the lines on standard error: one of the following.
static FORM: AtomicU8 = AtomicU8::new(PLAIN);

const PLAIN: u8 = 0;
/// Lines have a time and a severity.
const LOG: u8 = 1;
/// Lines have a severity.
const JOURNAL: u8 = 2;

/// The device and the inode of the journal's stream, in the environment of services.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Severity of a line of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Something has happened.
    Notice,
    /// Something has failed.
    Error,
}

impl Severity {
    const ALL: [Severity; 2] = [Severity::Notice, Severity::Error];

    /// Returns its number in syslog(3).
    fn level(self) -> u8 {
        match self {
            Severity::Notice => 5,
            Severity::Error => 3,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Error => "error",
        }
    }
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
        }
        for plain in ["overdrive: a b", "", "one two three"] {
            assert_eq!(without_stamp(plain), plain);
        }
    }
}
