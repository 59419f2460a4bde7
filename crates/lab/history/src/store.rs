//! SQLite files of this program: opening one, its version, and a damaged one.

use crate::error::Error;
use rusqlite::Connection;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a lock that another program holds.
const BUSY: Duration = Duration::from_secs(5);

/// Suffixes of the files that SQLite keeps beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Maximum number of damaged files that are kept.
const ASIDE_MAX: u32 = 99;

/// A kind of file.
pub(crate) struct Layout {
    /// Marks it as a file of this kind.
    pub(crate) application: i32,
    /// The newest version that this program reads.
    pub(crate) version: i32,
    /// Returns the SQL that turns an empty file into one of this version.
    pub(crate) create: fn() -> String,
}

/// Opens a file. Creates it, for this user only, and the directories above it, if needed.
///
/// # Errors
/// It cannot be created or read, or it belongs to another program or to a later version.
pub(crate) fn open(path: &Path, layout: &Layout) -> Result<Connection, Error> {
    let of_system = |error: io::Error| Error::system(path, error);
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(of_system)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(of_system)?;
    let failed = |error| Error::sqlite(path, error);
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    if is_empty(&connection).map_err(failed)? {
        create(&mut connection, layout).map_err(failed)?;
    }
    match marks(&connection).map_err(failed)? {
        (application, version)
            if application == layout.application && version <= layout.version =>
        {
            Ok(connection)
        }
        (application, later) if application == layout.application => {
            let what = format!(
                "was written by a later version of Overdrive (layout {later}; this one reads up to \
                 {}); use that version, or move the file away",
                layout.version
            );
            Err(Error::new(path, what))
        }
        _ => Err(Error::new(path, "is another program's file; move it away")),
    }
}

/// Returns the application and the layout version of a file.
fn marks(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    Ok((number("application_id")?, number("user_version")?))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(tables == 0 && marks(connection)? == (0, 0))
}

fn create(connection: &mut Connection, layout: &Layout) -> rusqlite::Result<()> {
    // Takes the lock first: another program may be about to do the same.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    if is_empty(connection)? {
        connection.execute_batch(&(layout.create)())?;
    }
    connection.execute_batch("COMMIT")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Renames a damaged file, with the files beside it, to `NAME.damaged-N`. Returns the new path.
///
/// # Errors
/// It cannot be renamed, or there are too many damaged files already.
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let free = |number: &u32| !beside(path, &format!(".damaged-{number}")).exists();
    let Some(number) = (1..=ASIDE_MAX).find(free) else {
        let what = format!("is damaged, and {ASIDE_MAX} damaged files are beside it; remove them");
        return Err(Error::new(path, what));
    };
    let aside = beside(path, &format!(".damaged-{number}"));
    std::fs::rename(path, &aside).map_err(|error| Error::system(path, error))?;
    // A new database must not read the log of this one.
    for suffix in BESIDE {
        let _ = std::fs::rename(beside(path, suffix), beside(&aside, suffix));
    }
    Ok(aside)
}
