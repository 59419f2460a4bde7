//! Samples for the history: the file in which they are recorded, and the time between two samples
//! of a drive.

use crate::state::state_directory;
use crate::units;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The variable with a [`HistoryFile`], for daemons without the option, and for commands that read.
const VARIABLE: &str = "OVERDRIVE_HISTORY";
const OFF: &str = "off";

/// The file in which samples are recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HistoryFile {
    /// None: nothing is recorded.
    Off,
    /// This file.
    File(PathBuf),
}

impl FromStr for HistoryFile {
    type Err = String;

    fn from_str(text: &str) -> Result<HistoryFile, String> {
        match text {
            OFF => Ok(HistoryFile::Off),
            path if Path::new(path).is_absolute() => Ok(HistoryFile::File(path.into())),
            _ => Err(format!("'{text}': write the absolute path of a file, or 'off'")),
        }
    }
}

impl fmt::Display for HistoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HistoryFile::Off => f.write_str(OFF),
            HistoryFile::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The time between two samples of the drives below the volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveSamples(
    /// None: drives are not sampled.
    pub Option<Duration>,
);

/// Shortest time between two samples of a drive.
const EVERY_MIN: Duration = Duration::from_secs(1);

impl Default for DriveSamples {
    fn default() -> DriveSamples {
        DriveSamples(Some(Duration::from_secs(3600)))
    }
}

impl FromStr for DriveSamples {
    type Err = String;

    fn from_str(text: &str) -> Result<DriveSamples, String> {
        if text == OFF {
            return Ok(DriveSamples(None));
        }
        let every = units::time_ms(text).map(Duration::from_millis);
        match every.map_err(|error| format!("{error}, or 'off'"))? {
            short if short < EVERY_MIN => {
                Err(format!("'{text}': write a time of at least a second, or 'off'"))
            }
            every => Ok(DriveSamples(Some(every))),
        }
    }
}

impl fmt::Display for DriveSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(OFF),
            Some(every) => {
                f.write_str(&units::time_text(u64::try_from(every.as_micros()).unwrap_or(u64::MAX)))
            }
        }
    }
}

/// Returns the file in the environment. None: there is none, or it is no such value.
fn of_environment() -> Option<HistoryFile> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Returns the usual file of the history. None: there is no state directory.
fn usual_file() -> Option<PathBuf> {
    state_directory().map(|state| state.join("samples.sqlite3"))
}

/// Returns the file of the history for a command that reads it: the one in the environment, or the
/// usual one. None: there is no state directory.
pub fn history_file() -> Option<PathBuf> {
    match of_environment() {
        Some(HistoryFile::File(path)) => Some(path),
        Some(HistoryFile::Off) | None => usual_file(),
    }
}

/// Returns the file in which a daemon with this option records. None: it records nothing.
pub fn history_to_record(chosen: Option<&HistoryFile>) -> Option<PathBuf> {
    match chosen.cloned().or_else(of_environment) {
        Some(HistoryFile::Off) => None,
        Some(HistoryFile::File(path)) => Some(path),
        None => usual_file(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written() {
        for text in ["off", "/var/lib/a b/samples.sqlite3"] {
            assert_eq!(text.parse::<HistoryFile>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "on", "samples.sqlite3", "./x"] {
            assert!(text.parse::<HistoryFile>().is_err_and(|why| why.contains("absolute")));
        }
        for text in ["off", "3600s", "1500ms"] {
            assert_eq!(text.parse::<DriveSamples>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("1h".parse(), Ok(DriveSamples::default()));
        for text in ["0s", "10ms", "soon", "-1s"] {
            assert!(text.parse::<DriveSamples>().is_err_and(|why| why.contains("'off'")), "{text}");
        }
    }

    #[test]
    fn the_option_comes_before_the_environment() {
        let file = HistoryFile::File("/x/y".into());
        assert_eq!(history_to_record(Some(&file)), Some("/x/y".into()));
        assert_eq!(history_to_record(Some(&HistoryFile::Off)), None);
    }
}
