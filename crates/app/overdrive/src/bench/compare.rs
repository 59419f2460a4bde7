//! `overdrive bench compare`: results side by side.

#[cfg(feature = "history")]
use super::history;
use crate::page_file::PageFile;
use crate::terminal;
use ::compare::{Comparison, Run, json, page, read, text};
use stack::{Exit, Failure};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// No result is larger, and a device is not read to its end.
const BYTES_MAX: u64 = 256 << 20;

/// Compare results: several drives, bare and cached, before and after.
///
/// Each figure is shown with its 95 % interval if it consists of parts: runs, rounds, or seconds of
/// one run, which are grouped into batches. A difference whose interval contains 0 is noise.
/// Figures without an interval are called neither equal nor different.
///
/// A result is the output of 'overdrive bench --json', a page of '--report', or history:N, the
/// result with that number in 'overdrive bench history'. All others are compared with the first
/// one.
///
/// Examples:
///   overdrive bench compare bare.json cached.json
///   overdrive bench compare history:3 history:7 --report drives.html
///   overdrive bench compare 840.html 850.html xp941.html --json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// Results: files, or history:N.
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with plots.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    for place in &options.results {
        let held = match place.strip_prefix("history:") {
            Some(number) => stored_result(place, number)?,
            None => text_of(Path::new(place))?,
        };
        runs.extend(read(place, &held).map_err(|what| Failure::new(Exit::Integrity, what))?);
    }
    let comparison = Comparison::new(runs).map_err(|what| Failure::new(Exit::Usage, what))?;
    let report = options.report.as_deref();
    let results: Vec<PathBuf> = options.results.iter().map(PathBuf::from).collect();
    let report = report.map(|path| PageFile::open(path, &results)).transpose()?;
    match options.json {
        true => daemon::say!("{}", json(&comparison)),
        false => terminal::print(text(&comparison, terminal::width())),
    }
    if let Some(report) = report {
        report.write(&page(&comparison))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the contents of a file.
fn text_of(path: &Path) -> Result<String, Failure> {
    let place = path.display();
    let unreadable = |error: std::io::Error| {
        let (exit, mend) = match error.kind() {
            ErrorKind::NotFound => (Exit::Negative, "; name a file, or history:N"),
            ErrorKind::PermissionDenied => (Exit::Permission, ""),
            ErrorKind::InvalidData => (Exit::Integrity, "; name a result as JSON or as a page"),
            _ => (Exit::Io, ""),
        };
        Failure::new(exit, format!("{place}: {error}{mend}"))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if read as u64 > BYTES_MAX {
        let message = format!("{place}: is larger than any result; name the result of a suite");
        return Err(Failure::new(Exit::Integrity, message));
    }
    Ok(text)
}

/// Returns a stored result, with its machine and its command.
#[cfg(feature = "history")]
fn stored_result(place: &str, number: &str) -> Result<String, Failure> {
    let usage = || format!("{place}: write history:N with a number of 'overdrive bench history'");
    let id = number.parse().map_err(|_| Failure::new(Exit::Usage, usage()))?;
    let run = history::find_stored(id)?;
    let mut result = run.result;
    // Results of earlier versions contain neither. In virtual time the machine makes no difference.
    if result["command"].is_null() && result.is_object() {
        result["command"] = run.command.into();
    }
    if result["at"].is_null() && result.is_object() {
        result["at"] = run.at.into();
    }
    if result["machine"].is_null() && result["time"] == "real" {
        result["machine"] = run.machine;
    }
    Ok(result.to_string())
}

#[cfg(not(feature = "history"))]
fn stored_result(place: &str, _number: &str) -> Result<String, Failure> {
    let message = format!("{place}: this program was built without the history; name a file");
    Err(Failure::new(Exit::Usage, message))
}
