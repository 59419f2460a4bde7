//! Samples of volumes: figures of a second or a minute.

use super::{DAY_S, MINUTES_KEPT_S, Range, SECONDS_KEPT_S, Samples};
use crate::error::Error;
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::collections::BTreeMap;

/// How a figure of several samples becomes one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// The sum.
    Sum,
    /// The maximum.
    Max,
}

macro_rules! figures {
    ($($(#[doc = $doc:literal])+ $merge:ident $name:ident,)*) => {
        /// The figures of a volume in a span of time.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Figures { $($(#[doc = $doc])+ pub $name: u64,)* }

        impl Figures {
            /// Their names: columns of the file, keys of JSON.
            pub const NAMES: [&str; [$(stringify!($name)),*].len()] = [$(stringify!($name)),*];
            /// How each is merged.
            pub const MERGES: [Merge; Figures::NAMES.len()] = [$(Merge::$merge),*];

            /// Returns the values, in the order of the names.
            pub fn values(&self) -> [u64; Figures::NAMES.len()] {
                [$(self.$name),*]
            }

            /// Returns the figures with these values.
            pub fn of(values: [u64; Figures::NAMES.len()]) -> Figures {
                let [$($name),*] = values;
                Figures { $($name),* }
            }
        }
    };
}

figures! {
    /// Reads of clients.
    Sum reads,
    /// Reads that were answered from memory.
    Sum read_hits,
    /// Changes of clients: writes, zeroes, discards.
    Sum changes,
    /// Bytes that clients have written.
    Sum written_bytes,
    /// Bytes written back from the buffer.
    Sum written_back_bytes,
    /// Bytes that never had to be written back, because they were overwritten or discarded before.
    Sum saved_bytes,
    /// Flushes.
    Sum flushes,
    /// Requests that the backing has answered with an error.
    Sum errors,
    /// Time saved by reads that were answered from memory, in nanoseconds.
    Sum time_saved_ns,
    /// Time for which the cache was bypassed, in nanoseconds.
    Sum bypass_ns,
    /// Time in which a request was in flight, in nanoseconds.
    Sum busy_ns,
    /// Latency that 99 % of the reads from the backing did not exceed, in nanoseconds; 0: none.
    Max miss_p99_ns,
    /// The same of clients' flushes.
    Max flush_p99_ns,
    /// Dirty bytes.
    Max dirty_bytes,
    /// Age of the oldest dirty data, in nanoseconds.
    Max dirty_age_ns,
    /// Bytes in memory that are not compressed.
    Max held_bytes,
    /// Number of clients.
    Max clients,
}

impl Figures {
    /// Adds the figures of another span.
    pub fn merge(&mut self, other: &Figures) {
        let mut values = self.values();
        let all = values.iter_mut().zip(other.values()).zip(Figures::MERGES);
        for ((value, other), merge) in all {
            *value = match merge {
                Merge::Sum => value.saturating_add(other),
                Merge::Max => (*value).max(other),
            };
        }
        *self = Figures::of(values);
    }

    /// Whether there was no request in the span, and nothing to write back.
    pub fn is_idle(&self) -> bool {
        let counts =
            [self.reads, self.changes, self.flushes, self.errors, self.dirty_bytes, self.bypass_ns];
        counts.iter().all(|count| *count == 0)
    }
}

/// The length of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// One second.
    Second,
    /// One minute.
    Minute,
}

impl Span {
    /// Returns the length in seconds.
    pub fn seconds(self) -> i64 {
        match self {
            Span::Second => 1,
            Span::Minute => 60,
        }
    }
}

/// A sample of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSample {
    /// The volume's name.
    pub volume: String,
    /// The beginning of its span, in seconds since 1970.
    pub at_s: i64,
    /// Its figures.
    pub figures: Figures,
}

/// Returns the number as SQLite stores it.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Samples {
    /// Records samples of seconds, and adds them to their minutes. Idle seconds are only part of
    /// their minutes.
    ///
    /// # Errors
    /// The file cannot be written; then nothing of them is recorded.
    pub fn record_volumes(&mut self, seconds: &[VolumeSample]) -> Result<(), Error> {
        let recorded = record(&mut self.connection, seconds);
        recorded.map_err(|error| self.failed(error))
    }

    /// Returns the names of the volumes, in alphabetical order.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn volume_names(&self) -> Result<Vec<String>, Error> {
        let names = || -> rusqlite::Result<Vec<String>> {
            let mut query = self.connection.prepare("SELECT name FROM volumes ORDER BY name")?;
            query.query_map([], |row| row.get(0))?.collect()
        };
        names().map_err(|error| self.failed(error))
    }

    /// Returns the samples of a volume, oldest first. A span of time without a sample was idle, or
    /// the volume was not served.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn volume(&self, name: &str, span: Span, range: Range) -> Result<Vec<VolumeSample>, Error> {
        read(&self.connection, name, span, range).map_err(|error| self.failed(error))
    }
}

fn read(
    connection: &Connection,
    name: &str,
    span: Span,
    range: Range,
) -> rusqlite::Result<Vec<VolumeSample>> {
    let sql = format!(
        "SELECT at, {} FROM volume_samples WHERE volume = (SELECT id FROM volumes WHERE name = ?1)
         AND span_s = ?2 AND at >= ?3 AND at < ?4 ORDER BY at",
        Figures::NAMES.join(", ")
    );
    let mut query = connection.prepare(&sql)?;
    let sample = |row: &rusqlite::Row| {
        let mut values = [0; Figures::NAMES.len()];
        for (index, value) in values.iter_mut().enumerate() {
            // Another program may have written negative numbers.
            *value = u64::try_from(row.get::<_, i64>(index + 1)?).unwrap_or(0);
        }
        let figures = Figures::of(values);
        Ok(VolumeSample { volume: name.to_owned(), at_s: row.get(0)?, figures })
    };
    query.query_map(params![name, span.seconds(), range.from_s, range.to_s], sample)?.collect()
}

fn record(connection: &mut Connection, seconds: &[VolumeSample]) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let minutes = minutes_of(seconds);
    let mut insert = transaction.prepare(&insert_sql())?;
    let mut numbers: BTreeMap<&str, i64> = BTreeMap::new();
    for (span, samples) in [(Span::Second, seconds), (Span::Minute, &minutes)] {
        for sample in samples {
            if span == Span::Second && sample.figures.is_idle() {
                continue;
            }
            let volume = match numbers.get(&*sample.volume) {
                Some(number) => *number,
                None => {
                    let number = volume_number(&transaction, &sample.volume)?;
                    numbers.insert(&sample.volume, number);
                    number
                }
            };
            let figures = sample.figures.values().map(stored);
            let mut all: Vec<&dyn ToSql> = Vec::with_capacity(figures.len() + 3);
            let seconds = span.seconds();
            all.extend([&volume as &dyn ToSql, &seconds, &sample.at_s]);
            all.extend(figures.iter().map(|figure| figure as &dyn ToSql));
            insert.execute(&*all)?;
        }
    }
    drop(insert);
    transaction.commit()
}

/// Returns the samples of minutes that contain these seconds, in the order of their first ones.
fn minutes_of(seconds: &[VolumeSample]) -> Vec<VolumeSample> {
    let mut minutes: Vec<VolumeSample> = Vec::new();
    for second in seconds {
        let at_s = second.at_s - second.at_s.rem_euclid(60);
        let same = |it: &&mut VolumeSample| it.at_s == at_s && it.volume == second.volume;
        match minutes.iter_mut().rev().find(same) {
            Some(minute) => minute.figures.merge(&second.figures),
            None => minutes.push(VolumeSample { at_s, ..second.clone() }),
        }
    }
    minutes
}

/// Returns the SQL that adds a sample to the one at its time, which may be of another daemon.
fn insert_sql() -> String {
    let names = Figures::NAMES.join(", ");
    let values = vec!["?"; Figures::NAMES.len()].join(", ");
    // A sum beyond the maximum would become a real number, which the table refuses.
    let merged = Figures::NAMES.iter().zip(Figures::MERGES).map(|(name, merge)| match merge {
        Merge::Sum => format!("{name} = {name} + min(excluded.{name}, {} - {name})", i64::MAX),
        Merge::Max => format!("{name} = max({name}, excluded.{name})"),
    });
    let merged = merged.collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO volume_samples (volume, span_s, at, {names}) VALUES (?, ?, ?, {values})
         ON CONFLICT DO UPDATE SET {merged}"
    )
}

fn volume_number(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let sql = "SELECT id FROM volumes WHERE name = ?1";
    if let Some(found) = connection.query_row(sql, [name], |row| row.get(0)).optional()? {
        return Ok(found);
    }
    connection.execute("INSERT INTO volumes (name) VALUES (?1)", [name])?;
    Ok(connection.last_insert_rowid())
}

/// Removes old samples.
pub(super) fn thin(connection: &Connection, now_s: i64) -> rusqlite::Result<()> {
    // The key begins with the volume, so that each range is found without reading the others.
    let sql = "DELETE FROM volume_samples WHERE volume = ?1 AND span_s = ?2 AND at < ?3";
    let mut query = connection.prepare("SELECT id FROM volumes")?;
    let volumes: Vec<i64> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut remove = connection.prepare(sql)?;
    for volume in volumes {
        for (span, kept_s) in [(1, SECONDS_KEPT_S), (60, MINUTES_KEPT_S)] {
            remove.execute(params![volume, span, now_s - kept_s])?;
        }
    }
    connection.execute(
        "DELETE FROM volumes WHERE NOT EXISTS
         (SELECT 1 FROM volume_samples WHERE volume_samples.volume = volumes.id)",
        [],
    )?;
    Ok(())
}

/// Removes the oldest day of minutes.
pub(super) fn shorten(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT min(at) FROM volume_samples WHERE span_s = 60";
    let Some(oldest) = connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0))? else {
        return Ok(false);
    };
    let sql = "DELETE FROM volume_samples WHERE at < ?1";
    Ok(connection.execute(sql, [oldest.saturating_add(DAY_S)])? > 0)
}
