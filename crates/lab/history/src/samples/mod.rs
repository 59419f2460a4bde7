//! Samples of volumes and drives over time.
//!
//! | samples | one for each | kept for |
//! |---|---|---|
//! | volumes | second with requests | an hour |
//! | volumes | minute | two weeks |
//! | drives | hour | two weeks |
//! | drives | day | ten years |
//!
//! The file has at most [`BYTES_MAX`]. If it is full, the oldest minutes are removed first.

mod drives;
mod schema;
mod volumes;

pub use drives::{DriveFigures, DriveIdentity, DriveSample};
pub use volumes::{Figures, Merge, Span, VolumeSample};

use crate::error::Error;
use crate::store::{self, Layout};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// How long the samples of seconds are kept, in seconds.
pub const SECONDS_KEPT_S: i64 = 3600;
/// How long the samples of minutes are kept, in seconds.
pub const MINUTES_KEPT_S: i64 = 14 * DAY_S;
/// Maximum size of the file, in bytes.
pub const BYTES_MAX: u64 = 256 << 20;

const DAY_S: i64 = 86_400;
const PAGE_BYTES: u64 = 4096;
/// Maximum size of the log after its contents were moved to the file, in bytes.
const LOG_BYTES: u64 = 4 << 20;
/// Memory for pages, in KiB: the daemon's memory is locked.
const CACHE_KIB: u32 = 512;

const LAYOUT: Layout =
    Layout { application: schema::APPLICATION, version: schema::VERSION, create: schema::create };

/// A range of times, in seconds since 1970: from the first to before the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first second.
    pub from_s: i64,
    /// The first second that is not part of it.
    pub to_s: i64,
}

impl Range {
    /// All times.
    pub const ALL: Range = Range { from_s: i64::MIN, to_s: i64::MAX };
}

/// The file of samples.
pub struct Samples {
    connection: Connection,
    path: PathBuf,
}

impl Samples {
    /// Opens the file. Creates it, and the directories above it, if needed.
    ///
    /// # Errors
    /// It cannot be created or read, or it belongs to another program or to a later version.
    pub fn open(path: &Path) -> Result<Samples, Error> {
        Samples::open_limited(path, BYTES_MAX)
    }

    /// Opens the file, which grows to this size at most.
    fn open_limited(path: &Path, bytes_max: u64) -> Result<Samples, Error> {
        let connection = store::open(path, &LAYOUT)?;
        let samples = Samples { connection, path: path.to_owned() };
        samples.set_up(bytes_max).map_err(|error| samples.failed(error))?;
        Ok(samples)
    }

    /// Opens the file to write to it, and examines all of it. A damaged one is renamed and begun
    /// again; the sentence about that is for the operator.
    ///
    /// # Errors
    /// Those of [`Samples::open`], except damage.
    pub fn open_or_renew(path: &Path) -> Result<(Samples, Option<String>), Error> {
        let opened = Samples::open(path).and_then(|samples| {
            samples.check()?;
            Ok(samples)
        });
        match opened {
            Err(error) if error.is_damage() => {
                let aside = store::set_aside(path)?;
                let note = format!(
                    "{}: was damaged; it is {} now, and a new one was begun",
                    path.display(),
                    aside.display()
                );
                Ok((Samples::open(path)?, Some(note)))
            }
            opened => Ok((opened?, None)),
        }
    }

    fn set_up(&self, bytes_max: u64) -> rusqlite::Result<()> {
        // A file system without shared memory refuses WAL and keeps the journal.
        self.connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        self.connection.execute_batch(&format!(
            "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -{CACHE_KIB};"
        ))?;
        for limit in [
            format!("PRAGMA journal_size_limit = {LOG_BYTES}"),
            format!("PRAGMA max_page_count = {}", bytes_max / PAGE_BYTES),
        ] {
            self.connection.query_row(&limit, [], |_| Ok(()))?;
        }
        Ok(())
    }

    /// Examines the whole file.
    fn check(&self) -> Result<(), Error> {
        let found =
            self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        match found.map_err(|error| self.failed(error))?.as_str() {
            "ok" => Ok(()),
            words => Err(Error::damaged(&self.path, words)),
        }
    }

    /// Whether the file at its path is still this one. It may have been removed or set aside.
    pub(crate) fn is_at(&self, identity: (u64, u64)) -> bool {
        file_identity(&self.path) == Some(identity)
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        Error::sqlite(&self.path, error)
    }

    /// Removes samples that are older than they are kept for, and thins those of drives.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn thin(&mut self, now_s: i64) -> Result<(), Error> {
        volumes::thin(&self.connection, now_s)
            .and_then(|()| drives::thin(&self.connection, now_s))
            .map_err(|error| self.failed(error))
    }

    /// Thins the samples of drives, and removes those that are older than they are kept for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn thin_drives(&mut self, now_s: i64) -> Result<(), Error> {
        drives::thin(&self.connection, now_s).map_err(|error| self.failed(error))
    }

    /// Removes the oldest day of minutes, so that a full file can be written again. Returns whether
    /// there was one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn shorten(&mut self) -> Result<bool, Error> {
        volumes::shorten(&self.connection).map_err(|error| self.failed(error))
    }
}

/// Returns the device and inode of the file at a path.
pub(crate) fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_has_room_again_without_its_oldest_day() {
        let home = tempfile::tempdir().expect("a directory");
        let mut samples = Samples::open_limited(&home.path().join("s"), 1 << 20).expect("made");
        let minute = |at_s| VolumeSample {
            volume: "db".to_owned(),
            at_s,
            figures: Figures { reads: u64::MAX, ..Figures::default() },
        };
        let mut at_s = 0;
        let full = loop {
            if let Err(error) = samples.record_volumes(&[minute(at_s)]) {
                break error;
            }
            at_s += 60;
            assert!(at_s < 60 * 100_000, "the limit is never reached");
        };
        assert!(full.is_full() && full.to_string().contains("no space left"), "{full}");
        assert!(samples.shorten().expect("written"));
        samples.record_volumes(&[minute(at_s)]).expect("there is room");
        let left = samples.volume("db", Span::Minute, Range::ALL).expect("read");
        assert_eq!((left[0].at_s, left.last().map(|it| it.at_s)), (DAY_S, Some(at_s)));
    }
}
