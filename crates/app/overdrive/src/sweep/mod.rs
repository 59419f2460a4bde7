//! `overdrive sweep`: many simulations, by the Python package on this machine or a Dask cluster.

mod page;
mod python;
mod rows;
mod standings;

use crate::page_file::PageFile;
use python::{Sweep, find_python};
use rows::Results;
use stack::{Exit, Failure};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Simulate many traces with many policies, sizes, compressions and drives.
///
/// MANIFEST is a TOML file with the lists; each combination is a job. Jobs run in processes of this
/// machine, or with --on in the workers of a Dask cluster. The results, Parquet and CSV, are in the
/// folder or the URL that the manifest names, and are the same for any number of workers. The same
/// command goes on where an earlier one was ended. A trace that cannot be read marks its rows; the
/// exit status is then 1.
///
/// The jobs are run by the Python package 'overdrive' of the same version. See docs/SWEEP.md for
/// the manifest, the package and the columns.
///
/// Ctrl-C ends it with the results of the jobs that have ended; the exit status is then 1.
///
/// Examples:
///   overdrive sweep sweep.toml --report sweep.html
///   overdrive sweep sweep.toml --on dask://scheduler:8786
///   overdrive sweep sweep.toml --check
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The manifest.
    #[arg(value_name = "MANIFEST", value_hint = clap::ValueHint::FilePath)]
    manifest: PathBuf,

    /// Run the jobs on the Dask cluster with this scheduler.
    #[arg(long, value_name = "dask://HOST:PORT")]
    on: Option<String>,

    /// Run N jobs at a time on this machine; by default the manifest's number, or one for each
    /// processor if the memory is sufficient.
    #[arg(long, value_name = "N", conflicts_with = "on")]
    workers: Option<NonZeroUsize>,

    /// The Python that has the package; by default $OVERDRIVE_PYTHON, or python3.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Only check the manifest, and find its traces.
    #[arg(long, conflicts_with_all = ["json", "report"])]
    check: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page that compares the policies.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let python = find_python(arguments.python.as_deref())?;
    let inputs = std::slice::from_ref(&arguments.manifest);
    let report = arguments.report.as_deref();
    let report = report.map(|path| PageFile::open(path, inputs)).transpose()?;
    let rows = report.is_some().then(tempfile::NamedTempFile::new).transpose();
    let rows = rows.map_err(|error| temporary(&std::env::temp_dir(), &error))?;
    let mut sweep = Sweep::new(&python);
    sweep.path(&arguments.manifest);
    if let Some(on) = &arguments.on {
        sweep.word("--on", on);
    }
    if let Some(workers) = arguments.workers {
        sweep.word("--workers", &workers.to_string());
    }
    if arguments.check {
        sweep.flag("--check");
    }
    if arguments.json {
        sweep.flag("--json");
    }
    if let Some(rows) = &rows {
        sweep.option("--rows-to", rows.path());
    }
    let status = sweep.run()?;
    if let (Some(report), Some(rows)) = (report, rows) {
        let text = std::fs::read_to_string(rows.path());
        let text = text.map_err(|error| temporary(rows.path(), &error))?;
        // An empty file: nothing was run, and the reason was printed.
        if !text.is_empty() {
            let results = Results::parse(&text);
            let results = results.map_err(|error| Failure::new(Exit::Integrity, error))?;
            report.write(&page::page(&results))?;
        }
    }
    Ok(status)
}

fn temporary(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{}: {error}; set TMPDIR to a directory with room", path.display());
    Failure::new(Exit::Io, message)
}
