//! Where an outcome goes.

use stack::{Exit, Failure};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use suites::{Outcome, report};

/// A page to be written at the end; opened at the start, so that a path that cannot be written costs
/// no run.
pub(super) struct Report {
    path: PathBuf,
    file: File,
}

impl Report {
    pub(super) fn open(path: &Path) -> Result<Report, Failure> {
        // What is there stays until there is something to put in its place.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| failure(path, &error))?;
        Ok(Report { path: path.to_owned(), file })
    }

    pub(super) fn write(mut self, page: &str) -> Result<(), Failure> {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(page.as_bytes()));
        written.map_err(|error| failure(&self.path, &error))
    }
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::PermissionDenied => Exit::Permission,
        _ => Exit::Usage,
    };
    Failure::new(
        exit,
        format!("--report {}: {error}; name a file that can be written", path.display()),
    )
}

/// A table, or one JSON object.
pub(super) fn print(outcome: &Outcome, json: bool) {
    let text = if json { format!("{}\n", report::json(outcome)) } else { report::text(outcome) };
    // It need not be read: a closed pipe is no failure of the suite.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
