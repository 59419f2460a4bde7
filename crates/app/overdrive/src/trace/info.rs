//! `overdrive trace info`.

use super::{failure, info_page, info_text};
use crate::page_file::PageFile;
use crate::progress::Stages;
use crate::watch::Watch;
use crate::{sim, terminal};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;
use trace::Format;

/// Show the properties of a trace: requests, bytes, sizes, depth, busy time, reuse, processes.
///
/// The file may be compressed by gzip, xz or zstd. See docs/TRACES.md for each figure.
///
/// Ctrl-C ends it with the figures of the beginning; the exit status is then 1.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The trace.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(super) trace: PathBuf,

    #[arg(long, value_name = "F", value_parser = sim::format, help = sim::format_help())]
    format: Option<Format>,

    /// Only requests of these devices, by their names in the trace.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device: Vec<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with plots, the figures and the method.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let inputs = std::slice::from_ref(&options.trace);
    let report = options.report.as_deref();
    let report = report.map(|path| PageFile::open(path, inputs)).transpose()?;
    let mut watch = Watch::new(Stages::with_time_left())?;
    let studied = traces::study(&options.trace, options.format, &options.device, &mut watch);
    watch.finish();
    let info = studied.map_err(failure)?;
    match options.json {
        true => daemon::say!("{}", traces::json::object(&options.trace, &info)),
        false => terminal::print(info_text::lines(&options.trace, &info, terminal::width())),
    }
    if let Some(report) = report {
        report.write(&info_page::page(&options.trace, &info))?;
    }
    if info.is_complete {
        return Ok(ExitCode::SUCCESS);
    }
    let trace = options.trace.display();
    let message = format!("{trace}: interrupted; the figures are for its beginning");
    Err(Failure::new(Exit::Negative, message))
}
