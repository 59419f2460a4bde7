//! `overdrive trace convert`.

use super::failure;
use crate::progress::Stages;
use crate::sim;
use crate::watch::Watch;
use report::words::grouped;
use serde_json::json;
use stack::{Exit, Failure};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::Format;
use traces::Packed;
use traces::convert::{Converted, Output, convert};

/// Write a trace in another format.
///
/// Requests are put in the order of their times, which begin at 0. A new file is readable for its
/// owner only: a trace shows what its users did. See docs/TRACES.md for the formats.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The trace.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    trace: PathBuf,

    /// The new file, which must not exist; '-' for the standard output. It is compressed if its
    /// name ends with .zst.
    #[arg(value_name = "OUTPUT", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,

    /// Format of the new file: recording, csv, fio-2 (a log for fio), fio-3 (for fio 3.31 or
    /// later).
    #[arg(long, value_name = "F", default_value = "recording", value_parser = output)]
    to: Output,

    #[arg(long, value_name = "F", value_parser = sim::format, help = sim::format_help())]
    format: Option<Format>,

    /// Only requests of these devices, by their names in the trace.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device: Vec<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn output(text: &str) -> Result<Output, String> {
    Output::by_name(text).ok_or_else(|| {
        let names = Output::ALL.map(Output::name).join(", ");
        format!("there is no such format to write; choose one of {names}")
    })
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let is_stdout = options.output.as_os_str() == "-";
    if is_stdout && options.json {
        let message = "--json: the standard output has the trace; name a file for one of them";
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut watch = Watch::new(Stages::with_time_left())?;
    let converted = match is_stdout {
        true => write(options, &mut std::io::stdout().lock(), &mut watch),
        false => to_file(options, &mut watch),
    };
    watch.finish();
    let converted = converted?;
    show(options, &converted, is_stdout);
    if converted.is_complete {
        return Ok(ExitCode::SUCCESS);
    }
    let path = options.output.display();
    let message = format!("{path}: not complete: the trace was interrupted or is cut off");
    Err(Failure::new(Exit::Negative, message))
}

fn write(options: &Options, into: &mut dyn Write, watch: &mut Watch) -> Result<Converted, Failure> {
    let Options { trace, format, device, to, .. } = options;
    convert(trace, *format, device, *to, into, watch).map_err(failure)
}

/// Writes a new file, which is removed if nothing can be converted.
fn to_file(options: &Options, watch: &mut Watch) -> Result<Converted, Failure> {
    let path = &options.output;
    let file = create(path)?;
    let written = into_file(options, file, watch);
    if written.is_err() {
        _ = std::fs::remove_file(path);
    }
    written
}

fn into_file(options: &Options, file: File, watch: &mut Watch) -> Result<Converted, Failure> {
    let is_packed = options.output.extension().is_some_and(|extension| extension == "zst");
    let unwritten = |error| unwritable(&options.output, &error);
    let (converted, file) = if is_packed {
        let mut packed = Packed::new(file);
        // A flush would end a part early: the converter writes pieces, and flushes once.
        let converted = write(options, &mut packed, watch)?;
        (converted, packed.finish().map_err(unwritten)?)
    } else {
        let mut buffered = BufWriter::new(file);
        let converted = write(options, &mut buffered, watch)?;
        let file = buffered.into_inner().map_err(|error| unwritten(error.into_error()))?;
        (converted, file)
    };
    file.sync_all().map_err(unwritten)?;
    Ok(converted)
}

/// Creates a new file that only its owner can read.
pub(super) fn create(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let message = format!("{}: exists; name a new file", path.display());
            Failure::new(Exit::Usage, message)
        }
        _ => unwritable(path, &error),
    })
}

/// Returns the failure of a file that cannot be written.
pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::PermissionDenied => Exit::Permission,
        ErrorKind::NotFound => Exit::Usage,
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{}: {error}; name a file that can be written", path.display()))
}

fn show(options: &Options, converted: &Converted, is_stdout: bool) {
    let Converted { requests, left_out, extended, unsorted, dropped, is_complete } = *converted;
    if options.json {
        let object = json!({
            "schema": "overdrive.trace-convert/1",
            "trace": options.trace.display().to_string(),
            "output": options.output.display().to_string(),
            "to": options.to.name(),
            "complete": is_complete,
            "requests": requests,
            "left_out": left_out,
            "extended": extended,
            "unsorted": unsorted,
            "dropped": dropped,
        });
        daemon::say!("{object}");
        return;
    }
    let mut lines = vec![format!("{} requests", grouped(requests))];
    let notes = [
        (left_out, "requests were left out: the format cannot express them"),
        (extended, "requests were extended to whole sectors of 512 bytes"),
        (unsorted, "requests were out of order by more than 65,536 requests; their times changed"),
        (dropped, "requests were lost during recording"),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    lines.extend(notes.map(|(count, note)| format!("{} {note}", grouped(count))));
    for line in lines {
        match is_stdout {
            true => daemon::complain!("{line}"),
            false => daemon::say!("{line}"),
        }
    }
}
