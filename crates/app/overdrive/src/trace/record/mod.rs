//! `overdrive trace record`.

pub(crate) mod device;
pub(crate) mod events;
mod kernel;
mod merge;
mod output;
mod recorder;
mod tracefs;
mod volume;

use crate::volumes;
use daemon::control::words::RecordAt;
use daemon::units;
use device::Device;
use events::Events;
use kernel::DeviceSource;
use output::{FILES_BYTES_MIN, Output};
use recorder::{Recorded, Recorder, Source, SourceCounts};
use report::words::grouped;
use serde_json::json;
use stack::{Exit, Failure};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use traces::Matched;
use volume::VolumeSource;

/// Record the requests to a served volume or to a block device, until Ctrl-C.
///
/// The daemon of a volume records while it serves, and clients do not notice. For a device, the
/// kernel's tracepoints of tracefs show each request, also the time when it was sent to the device,
/// its flags and its process; that needs root. There are no data in a recording. See
/// docs/TRACES.md.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The name of a volume, or the path of a disk or partition, such as /dev/nvme0n1.
    #[arg(value_name = "VOLUME|DEVICE")]
    source: String,

    /// The new recording, which must not exist, nor be on the recorded volume or device. It is
    /// compressed if its name ends with .zst.
    #[arg(value_name = "OUTPUT", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,

    /// The place in a volume: the requests of clients above its cache, those to the backing below,
    /// or both, as two devices [default: above].
    #[arg(long, value_name = "above|below|both", value_parser = places)]
    at: Option<Places>,

    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,

    /// Keep the newest requests in files of this size together, at least 4M: OUTPUT, and OUTPUT.1
    /// with older ones.
    #[arg(long, value_name = "SIZE", value_parser = files_size)]
    max_bytes: Option<u64>,

    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Places in a volume's stack.
type Places = &'static [RecordAt];

fn places(text: &str) -> Result<Places, String> {
    match text {
        "above" => Ok(&[RecordAt::Above]),
        "below" => Ok(&[RecordAt::Below]),
        "both" => Ok(&[RecordAt::Above, RecordAt::Below]),
        _ => Err("write above, below or both".into()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    units::time_us(text).map(Duration::from_micros)
}

fn files_size(text: &str) -> Result<u64, String> {
    let bytes = units::size(text)?.0;
    if bytes < FILES_BYTES_MIN { Err("write at least 4M".into()) } else { Ok(bytes) }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    // A name of a volume has no slash.
    if options.source.contains('/') { run_device(options) } else { run_volume(options) }
}

fn run_device(options: &Options) -> Result<ExitCode, Failure> {
    if options.at.is_some() {
        let message = format!("{}: --at is for the name of a volume; leave it out", options.source);
        return Err(Failure::new(Exit::Usage, message));
    }
    let device = Device::find(Path::new(&options.source))?;
    if device.is_below(directory_of(&options.output)) {
        return Err(records_itself(options, "device"));
    }
    let signals = signals()?;
    let events = Events::open(&[device.filter_number], false)?;
    record(options, &signals, || Ok(DeviceSource::new(device, events)))
}

fn run_volume(options: &Options) -> Result<ExitCode, Failure> {
    let target = volumes::find_served(&options.source)?;
    let directory = directory_of(&options.output);
    if volume::is_on_volume(directory, &target.row, volumes::rows()) {
        return Err(records_itself(options, "disk"));
    }
    let signals = signals()?;
    let places = options.at.unwrap_or(&[RecordAt::Above]);
    record(options, &signals, || VolumeSource::begin(target, places))
}

/// Returns the directory of a path.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn records_itself(options: &Options, other: &str) -> Failure {
    let (output, source) = (options.output.display(), &options.source);
    let message = format!(
        "{output}: is on {source}, so that its own writes would be recorded; name a file on \
         another {other}"
    );
    Failure::new(Exit::Usage, message)
}

fn signals() -> Result<host::File, Failure> {
    host::signals().map_err(|error| Failure::new(Exit::Io, format!("signals: {error}")))
}

/// Records a source to its end.
fn record<S: Source>(
    options: &Options,
    signals: &host::File,
    begin: impl FnOnce() -> Result<S, Failure>,
) -> Result<ExitCode, Failure> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(0);
    let source = begin()?;
    let output = Output::create(&options.output, options.max_bytes, begin_ns)?;
    if std::io::stderr().is_terminal() {
        daemon::complain!("recording {}; Ctrl-C ends it", options.source);
    }
    let (recorded, ended) = Recorder::new(source, output).run(signals, options.duration);
    show(options, &recorded, ended.is_ok());
    ended.map(|()| ExitCode::SUCCESS)
}

fn show(options: &Options, recorded: &Recorded, is_complete: bool) {
    let Recorded { requests, source, duration_ns, rotations } = *recorded;
    let SourceCounts { matched, dropped, unreadable, gaps, gap_ns } = source;
    let Matched { unanswered, unknown_answers, merged, others } = matched;
    if options.json {
        let object = json!({
            "schema": "overdrive.trace-record/1",
            "source": options.source,
            "output": options.output.display().to_string(),
            "complete": is_complete,
            "duration_ns": duration_ns,
            "requests": requests,
            "unanswered": unanswered,
            "unknown_answers": unknown_answers,
            "merged": merged,
            "others": others,
            "dropped": dropped,
            "unreadable": unreadable,
            "gaps": gaps,
            "gap_ns": gap_ns,
            "rotations": rotations,
        });
        daemon::say!("{object}");
        return;
    }
    let seconds = duration_ns as f64 / 1e9;
    daemon::say!("{} requests in {seconds:.1} s", grouped(requests));
    let notes = [
        (unanswered, "requests have no answer: in flight at the end, or their event was lost"),
        (unknown_answers, "answers belong to requests from before the recording, or lost ones"),
        (merged, "requests were merged into others, or were not sent until the end"),
        (others, "commands without sectors were left out"),
        (dropped, "events were lost: the buffer for them was full"),
        (unreadable, "entries of the kernel's buffers could not be read"),
        (gaps, "times another daemon continued; the requests between two daemons are missing"),
        (rotations, "times OUTPUT became OUTPUT.1; the older requests are gone"),
    ];
    for (count, note) in notes.into_iter().filter(|(count, _)| *count > 0) {
        daemon::say!("{} {note}", grouped(count));
    }
}
