//! Samples of drives: figures of their health.

use super::{DAY_S, Range, Samples};
use crate::error::Error;
use rusqlite::{Connection, OptionalExtension, ToSql, params};

/// How long hourly samples are kept before one for each day remains, in seconds.
const HOURS_KEPT_S: i64 = 14 * DAY_S;
/// How long daily samples are kept, in seconds: ten years.
const DAYS_KEPT_S: i64 = 3653 * DAY_S;

macro_rules! figures {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The figures of a drive's health. None: not reported.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct DriveFigures { $($(#[doc = $doc])+ pub $name: Option<i64>,)* }

        impl DriveFigures {
            /// Their names: columns of the file, keys of JSON.
            pub const NAMES: [&str; [$(stringify!($name)),*].len()] = [$(stringify!($name)),*];

            /// Returns the values, in the order of the names.
            pub fn values(&self) -> [Option<i64>; DriveFigures::NAMES.len()] {
                [$(self.$name),*]
            }

            /// Returns the figures with these values.
            pub fn of(values: [Option<i64>; DriveFigures::NAMES.len()]) -> DriveFigures {
                let [$($name),*] = values;
                DriveFigures { $($name),* }
            }
        }
    };
}

figures! {
    /// 1 if the drive considers itself healthy, 0 if not.
    passed,
    /// Bytes that the host wrote.
    host_written_bytes,
    /// Bytes that the host read.
    host_read_bytes,
    /// Bytes written to the flash.
    nand_written_bytes,
    /// Used share of the flash's rated life, in percent.
    worn_percent,
    /// Spare blocks left, in percent.
    spare_percent,
    /// Temperature in degrees Celsius.
    temperature_c,
    /// Hours that the drive was on.
    power_on_hours,
    /// Reads or writes whose errors could not be corrected.
    media_errors,
    /// Replaced sectors or blocks.
    reallocated,
}

/// A drive, wherever it is connected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriveIdentity {
    /// The model's name.
    pub model: String,
    /// The serial number. Empty: the drive reports none, and is known by its device.
    pub serial: String,
    /// Its device at the last sample.
    pub device: String,
}

impl DriveIdentity {
    /// Returns the second part of the key.
    fn key(&self) -> &str {
        if self.serial.is_empty() { &self.device } else { &self.serial }
    }
}

/// A sample of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveSample {
    /// Its time, in seconds since 1970.
    pub at_s: i64,
    /// Its figures.
    pub figures: DriveFigures,
}

impl Samples {
    /// Records a sample of a drive. It replaces the one of the same hour.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record_drive(
        &mut self,
        drive: &DriveIdentity,
        sample: &DriveSample,
    ) -> Result<(), Error> {
        record(&mut self.connection, drive, sample).map_err(|error| self.failed(error))
    }

    /// Returns the drives, by their devices.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn drives(&self) -> Result<Vec<DriveIdentity>, Error> {
        let drives = || -> rusqlite::Result<Vec<DriveIdentity>> {
            let sql = "SELECT model, serial, device FROM drives ORDER BY device, id";
            let mut query = self.connection.prepare(sql)?;
            let drive = |row: &rusqlite::Row| {
                Ok(DriveIdentity { model: row.get(0)?, serial: row.get(1)?, device: row.get(2)? })
            };
            query.query_map([], drive)?.collect()
        };
        drives().map_err(|error| self.failed(error))
    }

    /// Returns the samples of a drive, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn drive(&self, drive: &DriveIdentity, range: Range) -> Result<Vec<DriveSample>, Error> {
        read(&self.connection, drive, range).map_err(|error| self.failed(error))
    }
}

fn read(
    connection: &Connection,
    drive: &DriveIdentity,
    range: Range,
) -> rusqlite::Result<Vec<DriveSample>> {
    let sql = format!(
        "SELECT at, {} FROM drive_samples WHERE drive =
         (SELECT id FROM drives WHERE model = ?1 AND serial = ?2) AND at >= ?3 AND at < ?4
         ORDER BY at",
        DriveFigures::NAMES.join(", ")
    );
    let mut query = connection.prepare(&sql)?;
    let sample = |row: &rusqlite::Row| {
        let mut values = [None; DriveFigures::NAMES.len()];
        for (index, value) in values.iter_mut().enumerate() {
            *value = row.get(index + 1)?;
        }
        Ok(DriveSample { at_s: row.get(0)?, figures: DriveFigures::of(values) })
    };
    query.query_map(params![drive.model, drive.key(), range.from_s, range.to_s], sample)?.collect()
}

fn record(
    connection: &mut Connection,
    drive: &DriveIdentity,
    sample: &DriveSample,
) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let number = drive_number(&transaction, drive)?;
    let hour_s = sample.at_s - sample.at_s.rem_euclid(3600);
    transaction.execute(
        "DELETE FROM drive_samples WHERE drive = ?1 AND at >= ?2 AND at < ?3",
        params![number, hour_s, hour_s + 3600],
    )?;
    let sql = format!(
        "INSERT INTO drive_samples (drive, at, {}) VALUES (?, ?, {})",
        DriveFigures::NAMES.join(", "),
        vec!["?"; DriveFigures::NAMES.len()].join(", ")
    );
    let values = sample.figures.values();
    let mut all: Vec<&dyn ToSql> = vec![&number, &sample.at_s];
    all.extend(values.iter().map(|value| value as &dyn ToSql));
    transaction.execute(&sql, &*all)?;
    transaction.commit()
}

fn drive_number(connection: &Connection, drive: &DriveIdentity) -> rusqlite::Result<i64> {
    let sql = "SELECT id FROM drives WHERE model = ?1 AND serial = ?2";
    let found = connection
        .query_row(sql, params![drive.model, drive.key()], |row| row.get(0))
        .optional()?;
    if let Some(number) = found {
        let sql = "UPDATE drives SET device = ?1 WHERE id = ?2 AND device <> ?1";
        connection.execute(sql, params![drive.device, number])?;
        return Ok(number);
    }
    connection.execute(
        "INSERT INTO drives (model, serial, device) VALUES (?1, ?2, ?3)",
        params![drive.model, drive.key(), drive.device],
    )?;
    Ok(connection.last_insert_rowid())
}

/// Thins and removes old samples.
pub(super) fn thin(connection: &Connection, now_s: i64) -> rusqlite::Result<()> {
    // The last sample of each day remains.
    connection.execute(
        "DELETE FROM drive_samples WHERE at < ?1 AND EXISTS
         (SELECT 1 FROM drive_samples AS later WHERE later.drive = drive_samples.drive
          AND later.at > drive_samples.at AND later.at / ?2 = drive_samples.at / ?2)",
        params![now_s - HOURS_KEPT_S, DAY_S],
    )?;
    connection.execute("DELETE FROM drive_samples WHERE at < ?1", [now_s - DAYS_KEPT_S])?;
    Ok(())
}
