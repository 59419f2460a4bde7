//! Saved results of the suites. A result is saved as the JSON object that the suite prints, so that
//! keys that are added later are saved too.

use crate::error::Error;
use crate::store::{self, Layout};
use crate::{csv, results_schema as schema};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Maximum size of the file, in bytes. No result is removed without a request.
const BYTES_MAX: u64 = 1 << 30;
const PAGE_BYTES: u64 = 4096;

const LAYOUT: Layout =
    Layout { application: schema::APPLICATION, version: schema::VERSION, create: schema::create };

/// The file of saved results.
pub struct History {
    connection: Connection,
    path: PathBuf,
}

/// A saved result, with its command, machine and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Its number, which is never used again.
    pub id: i64,
    /// The time when it was saved, in UTC: `2026-11-25T10:00:00Z`.
    pub at: String,
    /// The words of the command.
    pub command: Vec<String>,
    /// Facts about the machine: names and values.
    pub machine: Value,
    /// The object that the suite printed: `overdrive.bench/1`.
    pub result: Value,
}

/// A selection of runs.
#[derive(Clone, Default, Debug)]
pub struct Which {
    /// Only runs of this suite.
    pub suite: Option<String>,
    /// Only runs whose target contains this text.
    pub target: Option<String>,
    /// Only this number of newest runs. None: all.
    pub newest: Option<u32>,
}

impl Which {
    /// Returns the subquery that selects them. Only numbers become part of its text.
    fn clause(&self) -> String {
        let newest = self.newest.map_or(-1, i64::from);
        format!(
            "(SELECT * FROM runs WHERE (?1 IS NULL OR result ->> '$.suite' = ?1) AND \
             (?2 IS NULL OR instr(result ->> '$.target', ?2) > 0) ORDER BY id DESC LIMIT {newest})"
        )
    }
}

impl History {
    /// Opens the file. Creates it, and the directories above it, if needed.
    ///
    /// # Errors
    /// It cannot be created or read, or it belongs to another program or to a later version.
    pub fn open(path: &Path) -> Result<History, Error> {
        let connection = store::open(path, &LAYOUT)?;
        let history = History { connection, path: path.to_owned() };
        let limit = format!("PRAGMA max_page_count = {}", BYTES_MAX / PAGE_BYTES);
        let limited = history.connection.query_row(&limit, [], |_| Ok(()));
        limited.map_err(|error| history.failed(error))?;
        Ok(history)
    }

    /// Opens the file, as [`History::open`] does. A damaged one is renamed and begun again; the
    /// sentence about that is for the user.
    ///
    /// # Errors
    /// Those of [`History::open`], except damage.
    pub fn open_or_renew(path: &Path) -> Result<(History, Option<String>), Error> {
        match History::open(path) {
            Err(error) if error.is_damage() => {
                let aside = store::set_aside(path)?;
                let note = format!(
                    "{}: was damaged; it is {} now, and a new one was begun",
                    path.display(),
                    aside.display()
                );
                Ok((History::open(path)?, Some(note)))
            }
            opened => Ok((opened?, None)),
        }
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        Error::sqlite(&self.path, error)
    }

    /// Saves a result with the current time. Returns its number.
    ///
    /// # Errors
    /// The file cannot be written: no space, no permission, or another program holds the lock for
    /// seconds.
    pub fn keep(
        &mut self,
        command: &[String],
        machine: &Value,
        result: &Value,
    ) -> Result<i64, Error> {
        let kept = self.connection.execute(
            "INSERT INTO runs (at, command, machine, result) \
             VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?1, ?2, ?3)",
            params![Value::from(command).to_string(), machine.to_string(), result.to_string()],
        );
        kept.map_err(|error| self.failed(error))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Returns runs, newest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self, which: &Which) -> Result<Vec<Run>, Error> {
        self.query_runs(which).map_err(|error| self.failed(error))
    }

    fn query_runs(&self, which: &Which) -> rusqlite::Result<Vec<Run>> {
        let sql = format!("SELECT id, at, command, machine, result FROM {}", which.clause());
        let mut query = self.connection.prepare(&sql)?;
        query.query_map(params![which.suite, which.target], run)?.collect()
    }

    /// Returns the run of this number. None: there is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&self, id: i64) -> Result<Option<Run>, Error> {
        let sql = "SELECT id, at, command, machine, result FROM runs WHERE id = ?1";
        let found = self.connection.query_row(sql, [id], run).optional();
        found.map_err(|error| self.failed(error))
    }

    /// Deletes the run of this number. False: there was none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remove(&mut self, id: i64) -> Result<bool, Error> {
        let removed = self.connection.execute("DELETE FROM runs WHERE id = ?1", [id]);
        Ok(removed.map_err(|error| self.failed(error))? > 0)
    }

    /// Passes the rows of runs as CSV (RFC 4180) to `line`, oldest first, after a line of column
    /// names. Each line has its line end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn csv(&self, which: &Which, line: &mut dyn FnMut(String)) -> Result<(), Error> {
        self.csv_lines(which, line).map_err(|error| self.failed(error))
    }

    fn csv_lines(&self, which: &Which, line: &mut dyn FnMut(String)) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT * FROM rows WHERE run IN (SELECT id FROM {}) ORDER BY run, number",
            which.clause()
        );
        let mut query = self.connection.prepare(&sql)?;
        let names = query.column_names();
        let columns = names.len();
        line(csv::line(names.iter().map(|name| (*name).to_owned())));
        let mut rows = query.query(params![which.suite, which.target])?;
        while let Some(row) = rows.next()? {
            let cells: rusqlite::Result<Vec<String>> =
                (0..columns).map(|index| Ok(csv::cell(row.get_ref(index)?))).collect();
            line(csv::line(cells?.into_iter()));
        }
        Ok(())
    }
}

fn run(row: &Row) -> rusqlite::Result<Run> {
    let object = |index: usize| -> rusqlite::Result<Value> {
        let text: String = row.get(index)?;
        serde_json::from_str(&text).map_err(|error| {
            let kind = rusqlite::types::Type::Text;
            rusqlite::Error::FromSqlConversionFailure(index, kind, Box::new(error))
        })
    };
    let words = object(2)?;
    let words = words.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(Run {
        id: row.get(0)?,
        at: row.get(1)?,
        command: words.map(str::to_owned).collect(),
        machine: object(3)?,
        result: object(4)?,
    })
}
