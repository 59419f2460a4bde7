//! `overdrive trace record`.

pub(crate) mod device;
mod output;
pub(crate) mod tracefs;

use daemon::units;
use device::Device;
use output::{FILES_BYTES_MIN, Output};
use report::words::grouped;
use serde_json::json;
use stack::{Exit, Failure};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace::BlockEvent;
use tracefs::Instance;
use traces::{Matched, Matcher};

/// Pause between two reads of the kernel's buffer.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum bytes that are read between two looks at signals and clocks.
const ROUND_BYTES_MAX: usize = 4 << 20;
/// Age at which requests are written, although they do not fill a block.
const BLOCK_AGE_NS: u64 = 1_000_000_000;
/// Age at which a compressed part ends, although it is small.
const PART_AGE_NS: u64 = 10_000_000_000;
/// Maximum length of a line of the kernel.
const LINE_MAX: usize = 1 << 12;

/// Record the requests to a block device, until Ctrl-C.
///
/// The kernel's tracepoints of tracefs show each request: its time, the time when it was sent to
/// the device and answered, its sectors, operation, flags and process. There are no data in a
/// recording. It needs root. See docs/TRACES.md.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The disk or partition, such as /dev/nvme0n1.
    #[arg(value_name = "DEVICE", value_hint = clap::ValueHint::FilePath)]
    device: PathBuf,

    /// The new recording, which must not exist, nor be on the device. It is compressed if its name
    /// ends with .zst.
    #[arg(value_name = "OUTPUT", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,

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

fn time(text: &str) -> Result<Duration, String> {
    units::time_us(text).map(Duration::from_micros)
}

fn files_size(text: &str) -> Result<u64, String> {
    let bytes = units::size(text)?.0;
    if bytes < FILES_BYTES_MIN { Err("write at least 4M".into()) } else { Ok(bytes) }
}

/// Counts of a recording.
#[derive(Default)]
struct Recorded {
    requests: u64,
    matched: Matched,
    /// Events that the kernel's buffer had no room for.
    dropped: u64,
    /// Lines that are not events.
    unreadable: u64,
    duration_ns: u64,
    rotations: u64,
    /// Whether the device has gone.
    is_gone: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let device = Device::find(&options.device)?;
    let directory = match options.output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if device.is_below(directory) {
        let (output, device) = (options.output.display(), options.device.display());
        let message = format!(
            "{output}: is on {device}, so that its own writes would be recorded; \
                               name a file on another device"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let broken = |error| Failure::new(Exit::Io, format!("signals: {error}"));
    let signals = host::signals().map_err(broken)?;
    let instance = Instance::open(device.filter_number)?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(0);
    let output = Output::create(&options.output, options.max_bytes, begin_ns)?;
    if std::io::stderr().is_terminal() {
        daemon::complain!("recording {}; Ctrl-C ends it", options.device.display());
    }
    let recorded = Recorder::new(device, instance, output).run(&signals, options.duration)?;
    show(options, &recorded);
    if !recorded.is_gone {
        return Ok(ExitCode::SUCCESS);
    }
    let message = format!("{}: has gone; the recording ends there", options.device.display());
    Err(Failure::new(Exit::Negative, message))
}

struct Recorder {
    device: Device,
    instance: Instance,
    output: Output,
    matcher: Matcher,
    /// The beginning of a line.
    line: Vec<u8>,
    recorded: Recorded,
    /// Lost events that were written.
    dropped_written: u64,
}

impl Recorder {
    fn new(device: Device, instance: Instance, output: Output) -> Recorder {
        let matcher = Matcher::new(device.sectors.clone(), host::now_ns());
        let (line, recorded) = (Vec::new(), Recorded::default());
        Recorder { device, instance, output, matcher, line, recorded, dropped_written: 0 }
    }

    fn run(mut self, signals: &host::File, limit: Option<Duration>) -> Result<Recorded, Failure> {
        let begin_ns = host::now_ns();
        let limit_ns = limit.map_or(u64::MAX, |limit| limit.as_nanos() as u64);
        let (mut block_ns, mut part_ns) = (begin_ns, begin_ns);
        loop {
            let is_more = self.take()?;
            let now_ns = host::now_ns();
            self.recorded.duration_ns = now_ns - begin_ns;
            if now_ns - block_ns >= BLOCK_AGE_NS {
                block_ns = now_ns;
                self.write_block()?;
                self.recorded.is_gone = self.device.is_gone();
            }
            if now_ns - part_ns >= PART_AGE_NS {
                part_ns = now_ns;
                self.output.end_part()?;
            }
            let left_ns = limit_ns.saturating_sub(self.recorded.duration_ns);
            let pause = if is_more { Duration::ZERO } else { PAUSE };
            let is_stopped =
                host::is_stopped_within(signals, pause.min(Duration::from_nanos(left_ns)));
            if is_stopped || left_ns == 0 || self.recorded.is_gone {
                return self.finish();
            }
        }
    }

    /// Reads events. Returns whether there are more.
    fn take(&mut self) -> Result<bool, Failure> {
        let mut taken = 0;
        while taken < ROUND_BYTES_MAX {
            let piece = self.instance.read().map_err(|error| unreadable(&error))?;
            if piece.is_empty() {
                return Ok(false);
            }
            taken += piece.len();
            self.line.extend_from_slice(piece);
            self.feed()?;
        }
        Ok(true)
    }

    /// Takes the complete lines.
    fn feed(&mut self) -> Result<(), Failure> {
        let mut lines = std::mem::take(&mut self.line);
        let end = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in lines[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match BlockEvent::of(line) {
                Some(event) => {
                    if let Some(entry) = self.matcher.feed(&event) {
                        self.put(entry)?;
                    }
                }
                // The kernel reports lost events; its statistics count them.
                None if line.starts_with(b"CPU:") => {}
                None => self.recorded.unreadable += 1,
            }
        }
        lines.drain(..end);
        if lines.len() > LINE_MAX {
            self.recorded.unreadable += 1;
            lines.clear();
        }
        self.line = lines;
        Ok(())
    }

    fn put(&mut self, entry: trace::recording::Entry) -> Result<(), Failure> {
        let names = self.matcher.processes();
        let process = entry.process.and_then(|number| names.get(number as usize));
        // The statistics are read once per second, with the blocks that age writes.
        self.output.put(entry, &self.device.name, process.map(String::as_str), || 0)
    }

    fn write_block(&mut self) -> Result<(), Failure> {
        let dropped = self.dropped()?;
        self.output.write_block(dropped)
    }

    /// Returns the number of events lost since the last call.
    fn dropped(&mut self) -> Result<u64, Failure> {
        self.recorded.dropped = self.instance.lost().map_err(|error| unreadable(&error))?;
        let written = std::mem::replace(&mut self.dropped_written, self.recorded.dropped);
        Ok(self.recorded.dropped.saturating_sub(written))
    }

    fn finish(mut self) -> Result<Recorded, Failure> {
        self.instance.stop().map_err(|error| unreadable(&error))?;
        while self.take()? {}
        for entry in self.matcher.finish() {
            self.put(entry)?;
        }
        let dropped = self.dropped()?;
        self.recorded.matched = self.matcher.matched();
        self.recorded.requests = self.output.requests;
        self.recorded.rotations = self.output.rotations;
        self.output.finish(dropped)?;
        Ok(self.recorded)
    }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("tracefs: {error}; the recording ends there"))
}

fn show(options: &Options, recorded: &Recorded) {
    let Recorded { requests, matched, dropped, unreadable, duration_ns, rotations, is_gone } =
        *recorded;
    let Matched { unanswered, unknown_answers, merged, others } = matched;
    if options.json {
        let object = json!({
            "schema": "overdrive.trace-record/1",
            "source": options.device.display().to_string(),
            "output": options.output.display().to_string(),
            "complete": !is_gone,
            "duration_ns": duration_ns,
            "requests": requests,
            "unanswered": unanswered,
            "unknown_answers": unknown_answers,
            "merged": merged,
            "others": others,
            "dropped": dropped,
            "unreadable": unreadable,
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
        (dropped, "events were lost: the kernel's buffer was full"),
        (unreadable, "lines of the kernel could not be read"),
        (rotations, "times OUTPUT became OUTPUT.1; the older requests are gone"),
    ];
    for (count, note) in notes.into_iter().filter(|(count, _)| *count > 0) {
        daemon::say!("{} {note}", grouped(count));
    }
}
