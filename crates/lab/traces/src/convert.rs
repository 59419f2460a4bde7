//! Conversion of a trace to another format.

use crate::info::each;
use crate::recording_writer::RecordingWriter;
use simulator::{Error, TraceFile, Watch};
use std::io::Write;
use std::path::Path;
use trace::recording::Entry;
use trace::text::{CSV_HEAD, FioLog, FioVersion, csv_line};
use trace::{Access, Event, Format, Operation};

/// The formats that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// This project's recordings.
    Recording,
    /// Lines of seven columns.
    Csv,
    /// A log for fio, version 2.
    FioTwo,
    /// A log for fio from 3.31 on, version 3.
    FioThree,
}

impl Output {
    /// All of them.
    pub const ALL: [Output; 4] = [Output::Recording, Output::Csv, Output::FioTwo, Output::FioThree];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Output::Recording => "recording",
            Output::Csv => "csv",
            Output::FioTwo => "fio-2",
            Output::FioThree => "fio-3",
        }
    }

    /// Returns the output of this name.
    pub fn by_name(name: &str) -> Option<Output> {
        Output::ALL.into_iter().find(|output| output.name().eq_ignore_ascii_case(name))
    }
}

/// Counts of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Converted {
    /// Requests that were written.
    pub requests: u64,
    /// Requests that the output cannot express.
    pub left_out: u64,
    /// Requests whose bytes were extended to whole sectors, in a recording.
    pub extended: u64,
    /// Requests whose time was before that of an earlier one.
    pub unsorted: u64,
    /// Requests that were lost when the trace was recorded.
    pub dropped: u64,
    /// Whether the whole trace was converted.
    pub is_complete: bool,
}

/// Converts a trace, in the order of its requests' times, and writes it to `into`. Times begin at
/// 0. `devices`: only requests of these; empty: all.
///
/// # Errors
/// The trace cannot be read, or the output cannot be written.
pub fn convert(
    path: &Path,
    format: Option<Format>,
    devices: &[String],
    output: Output,
    into: &mut dyn Write,
    watch: &mut dyn Watch,
) -> Result<Converted, Error> {
    let mut file = TraceFile::open(path, format)?;
    let mut writer = Writer::new(output, into);
    let mut begin_ns = None;
    let late = each(&mut file, devices, watch, &mut |file, access| {
        let first_ns = *begin_ns.get_or_insert(access.time_ns);
        writer.put(file, access, access.time_ns - first_ns)
    })?;
    let notes = file.notes.unwrap_or_default();
    let mut converted = writer.finish(notes.dropped)?;
    converted.unsorted = late + notes.late;
    converted.dropped = notes.dropped;
    converted.is_complete = file.notes.is_some() && !notes.is_cut;
    Ok(converted)
}

/// Bytes that are written at a time.
const PIECE_BYTES: usize = 1 << 16;
const SECTOR_BYTES: u64 = 512;

struct Writer<'a> {
    into: &'a mut dyn Write,
    form: Form,
    converted: Converted,
}

enum Form {
    Csv(String),
    Fio(FioLog, String),
    Recording(RecordingWriter),
}

impl<'a> Writer<'a> {
    fn new(output: Output, into: &'a mut dyn Write) -> Writer<'a> {
        let log = |version| {
            let mut text = String::new();
            Form::Fio(FioLog::begin(version, &mut text), text)
        };
        let form = match output {
            Output::Csv => Form::Csv(CSV_HEAD.to_owned()),
            Output::FioTwo => log(FioVersion::Two),
            Output::FioThree => log(FioVersion::Three),
            Output::Recording => Form::Recording(RecordingWriter::default()),
        };
        Writer { into, form, converted: Converted::default() }
    }

    fn put(&mut self, file: &TraceFile, access: &Access, time_ns: u64) -> Result<(), Error> {
        let device = &*file.devices().names()[access.device as usize];
        let process =
            access.details.process.map(|index| &*file.processes().names()[index as usize]);
        let is_written = match &mut self.form {
            Form::Csv(text) => csv_line(text, access, device, process, time_ns),
            Form::Fio(log, text) => log.request(text, access, device, time_ns),
            Form::Recording(recording) => match entry(access, time_ns) {
                Some((entry, is_extended)) => {
                    self.converted.extended += u64::from(is_extended);
                    recording.begin_ns = file.begin_ns().unwrap_or(0);
                    recording.put(entry, device, process);
                    true
                }
                None => false,
            },
        };
        match is_written {
            true => self.converted.requests += 1,
            false => self.converted.left_out += 1,
        }
        match &mut self.form {
            Form::Csv(text) | Form::Fio(_, text) if text.len() >= PIECE_BYTES => {
                write(self.into, text.as_bytes())?;
                text.clear();
            }
            Form::Recording(recording) if recording.is_full() => {
                write(self.into, &recording.bytes(0))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, dropped: u64) -> Result<Converted, Error> {
        let rest = match &mut self.form {
            Form::Csv(text) => std::mem::take(text).into_bytes(),
            Form::Fio(log, text) => {
                log.end(text);
                std::mem::take(text).into_bytes()
            }
            Form::Recording(recording) => recording.bytes(dropped),
        };
        write(self.into, &rest)?;
        #[expect(clippy::disallowed_methods, reason = "it may be a buffer in front of a pipe")]
        self.into.flush().map_err(|error| failed(&error))?;
        Ok(self.converted)
    }
}

/// Returns the access as an entry of a recording, and whether its bytes were extended to whole
/// sectors. None: its operation is unknown, or it covers nothing.
fn entry(access: &Access, time_ns: u64) -> Option<(Entry, bool)> {
    let operation = access.operation()?;
    let first = access.first_byte / SECTOR_BYTES;
    let end = (access.first_byte + access.bytes).div_ceil(SECTOR_BYTES);
    let is_flush = operation == Operation::Flush;
    let (first, sectors) = if is_flush { (0, 0) } else { (first, end - first) };
    let details = &access.details;
    let event = Event {
        time_ns,
        took_ns: details.took_ns,
        operation,
        device: access.device,
        first,
        sectors: u32::try_from(sectors).ok()?,
        failed: None,
    };
    let is_whole = (access.first_byte | access.bytes).is_multiple_of(SECTOR_BYTES);
    let entry =
        Entry { event, sent_ns: details.sent_ns, process: details.process, marks: details.marks };
    event.is_sound().then_some((entry, !is_whole && !is_flush))
}

fn write(into: &mut dyn Write, bytes: &[u8]) -> Result<(), Error> {
    into.write_all(bytes).map_err(|error| failed(&error))
}

fn failed(error: &std::io::Error) -> Error {
    Error::Io(format!("the output cannot be written: {error}"))
}
