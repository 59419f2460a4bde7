//! The layout of the file of samples.
//!
//! ```text
//!   volumes        id, name
//!   volume_samples volume, span_s (1 or 60), at (seconds since 1970), figures: see `Figures`
//!   drives         id, model, serial, device (its name at the last sample)
//!   drive_samples  drive, at, figures: see `DriveFigures`
//! ```

use super::drives::DriveFigures;
use super::volumes::Figures;

/// The version of the layout.
pub(super) const VERSION: i32 = 1;

/// "OvSa". Files of other programs have another number.
pub(super) const APPLICATION: i32 = 0x4f76_5361;

/// Returns the SQL that turns an empty file into one of samples.
pub(super) fn create() -> String {
    let of_volume = Figures::NAMES.map(|name| format!("{name} INTEGER NOT NULL")).join(", ");
    let of_drive = DriveFigures::NAMES.map(|name| format!("{name} INTEGER")).join(", ");
    format!(
        "CREATE TABLE volumes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
         CREATE TABLE volume_samples (
            volume INTEGER NOT NULL REFERENCES volumes (id),
            span_s INTEGER NOT NULL,
            at INTEGER NOT NULL,
            {of_volume},
            PRIMARY KEY (volume, span_s, at)
         ) STRICT, WITHOUT ROWID;
         CREATE TABLE drives (
            id INTEGER PRIMARY KEY,
            model TEXT NOT NULL,
            serial TEXT NOT NULL,
            device TEXT NOT NULL,
            UNIQUE (model, serial)
         ) STRICT;
         CREATE TABLE drive_samples (
            drive INTEGER NOT NULL REFERENCES drives (id),
            at INTEGER NOT NULL,
            {of_drive},
            PRIMARY KEY (drive, at)
         ) STRICT, WITHOUT ROWID;
         PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {VERSION};"
    )
}
