//! A trace that arrives in pieces: bytes in, accesses out.

use crate::access::Access;
use crate::devices::Devices;
use crate::fields::{between_blanks, between_commas};
use crate::format::Format;
use crate::formats::blkparse::{Blkparse, Event};
use crate::formats::oracle_general::{self, Object};
use crate::formats::recorded::Recorded;
use crate::formats::{
    Found, ReadIs, alibaba, arc, csv, disksim, mqsim, msr, spc, ssdsim, tencent, vscsi,
};
use crate::malformed::Malformed;
use crate::processes::Processes;
use crate::window::Window;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The mark that some programs put before text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Maximum length of a line, in bytes.
pub const LINE_MAX: usize = 4096;

/// Reads a trace of a known format, piece by piece. It holds at most a line or a record, the names
/// of the devices, and for blkparse's text a window of requests.
#[derive(Debug)]
pub struct Reader {
    form: Form,
    devices: Devices,
    processes: Processes,
    /// For formats whose lines are not in the order of their times.
    window: Option<Window>,
}

/// Notes on a trace, returned at its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Notes {
    /// Requests that the kernel merged into others (blkparse's events M and F).
    pub merged: u64,
    /// Requests that were too late to be sorted by their times.
    pub late: u64,
    /// Events that were lost during the recording.
    pub dropped: u64,
    /// The recording was cut off: its complete blocks were read.
    pub is_cut: bool,
    /// Events of blkparse that are neither requests that count nor merges.
    pub other_events: u64,
    /// Lines that hold no request: headings, comments, statistics.
    pub skipped_lines: u64,
    /// Texts of blkparse that follow another in the file; each is read after the one before.
    pub joined: u64,
    /// Bytes of zeros after the end of compressed data.
    pub padding_bytes: u64,
}

#[derive(Debug)]
enum Form {
    Lines(Lines),
    Records(Records),
    Recording(Recorded),
}

#[derive(Debug)]
struct Lines {
    kind: Line,
    /// The received part of an incomplete line.
    partial: Vec<u8>,
    /// Lines before this one.
    number: u64,
    /// Lines without a request.
    skipped: u64,
    /// Whether a heading is still allowed: once, before the first access.
    may_head: bool,
}

#[derive(Debug)]
enum Line {
    Columns(ReadIs),
    Milliseconds(ReadIs),
    Mqsim,
    Msr,
    Alibaba,
    Tencent,
    Spc,
    Blkparse(Blkparse),
    Arc(arc::Block),
    Csv,
}

#[derive(Debug)]
struct Records {
    kind: Record,
    /// The received part of an incomplete record.
    partial: Vec<u8>,
    /// The offset of that record.
    offset: u64,
}

#[derive(Debug)]
enum Record {
    /// The first record determines the version.
    Vscsi(Option<vscsi::Version>),
    OracleGeneral(Object),
}

impl Reader {
    /// Returns a reader of this format.
    pub fn new(format: Format) -> Reader {
        let lines = |kind| {
            let partial = Vec::new();
            Form::Lines(Lines { kind, partial, number: 0, skipped: 0, may_head: true })
        };
        let records = |kind| Form::Records(Records { kind, partial: Vec::new(), offset: 0 });
        let form = match format {
            Format::Recording => Form::Recording(Recorded::default()),
            Format::Vscsi => records(Record::Vscsi(None)),
            Format::OracleGeneral => records(Record::OracleGeneral(Object::Sector)),
            Format::OracleGeneralObjects => records(Record::OracleGeneral(Object::Name)),
            Format::Ssdsim => lines(Line::Columns(ReadIs::One)),
            Format::SsdsimZeroReads => lines(Line::Columns(ReadIs::Zero)),
            Format::Mqsim => lines(Line::Mqsim),
            Format::Disksim => lines(Line::Milliseconds(ReadIs::One)),
            Format::DisksimZeroReads => lines(Line::Milliseconds(ReadIs::Zero)),
            Format::Msr => lines(Line::Msr),
            Format::Alibaba => lines(Line::Alibaba),
            Format::Tencent => lines(Line::Tencent),
            Format::Spc => lines(Line::Spc),
            Format::Blkparse => lines(Line::Blkparse(Blkparse::new(Event::Queued))),
            Format::BlkparseSent => lines(Line::Blkparse(Blkparse::new(Event::Sent))),
            Format::Arc => lines(Line::Arc(arc::Block::Page)),
            Format::ArcSectors => lines(Line::Arc(arc::Block::Sector)),
            Format::Csv => lines(Line::Csv),
        };
        // A recording is in the order of the answers.
        let is_unordered =
            matches!(format, Format::Blkparse | Format::BlkparseSent | Format::Recording);
        let window = is_unordered.then(Window::default);
        Reader { form, devices: Devices::default(), processes: Processes::default(), window }
    }

    /// Returns the devices so far.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the processes seen.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Returns the time when a recording began, in nanoseconds since 1970 (UTC). None: unknown.
    pub fn begin_ns(&self) -> Option<u64> {
        match &self.form {
            Form::Recording(recorded) => Some(recorded.begin_ns).filter(|begin| *begin > 0),
            Form::Lines(_) | Form::Records(_) => None,
        }
    }

    /// Parses the next bytes of the file, and appends the accesses that are complete.
    ///
    /// # Errors
    /// The line or byte that is wrong, and the expected content. Accesses appended before stay; the
    /// reader must not be used after that.
    pub fn feed(&mut self, bytes: &[u8], into: &mut Vec<Access>) -> Result<(), Malformed> {
        let Reader { form, devices, processes, window } = self;
        match form {
            Form::Lines(lines) => {
                lines.feed(bytes, &mut Tables { devices, processes, window }, into)
            }
            Form::Records(records) => records.feed(bytes, devices, into),
            Form::Recording(recorded) => {
                let mut accesses = Vec::new();
                let fed = recorded.feed(bytes, devices, processes, &mut accesses);
                for access in accesses {
                    match window {
                        Some(window) => window.put(access, into),
                        None => into.push(access),
                    }
                }
                fed
            }
        }
    }

    /// Ends the trace, and appends the remaining accesses.
    ///
    /// # Errors
    /// It ends inside a line or a record that cannot be read.
    pub fn finish(&mut self, into: &mut Vec<Access>) -> Result<Notes, Malformed> {
        let mut notes = Notes::default();
        let Reader { form, devices, processes, window } = self;
        match form {
            Form::Lines(lines) => {
                lines.finish(&mut Tables { devices, processes, window }, into)?;
                notes.skipped_lines = lines.skipped;
                if let Line::Blkparse(state) = &lines.kind {
                    notes.merged = state.merged;
                    notes.other_events = state.others;
                    notes.skipped_lines = state.statistics;
                    notes.joined = state.joined;
                }
            }
            Form::Records(records) => records.finish()?,
            Form::Recording(recorded) => {
                (notes.is_cut, notes.dropped) = (recorded.finish()?, recorded.dropped);
            }
        }
        if let Some(window) = window {
            window.finish(into);
            notes.late = window.late;
        }
        Ok(notes)
    }
}

/// The names and the window of a reader of lines.
struct Tables<'a> {
    devices: &'a mut Devices,
    processes: &'a mut Processes,
    window: &'a mut Option<Window>,
}

impl Lines {
    fn feed(
        &mut self,
        mut bytes: &[u8],
        tables: &mut Tables<'_>,
        into: &mut Vec<Access>,
    ) -> Result<(), Malformed> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.is_empty() {
                self.line(line, tables, into)?;
            } else {
                self.keep(line)?;
                let whole = core::mem::take(&mut self.partial);
                self.line(&whole, tables, into)?;
                self.partial = whole;
                self.partial.clear();
            }
            bytes = rest;
        }
        self.keep(bytes)
    }

    /// Stores a part of a line.
    fn keep(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.partial.len() + part.len() > LINE_MAX {
            return Err(self.too_long());
        }
        self.partial.extend_from_slice(part);
        Ok(())
    }

    fn too_long(&self) -> Malformed {
        Malformed::new(format!(
            "line {}: the line is longer than {LINE_MAX} bytes",
            self.number + 1
        ))
    }

    fn finish(&mut self, tables: &mut Tables<'_>, into: &mut Vec<Access>) -> Result<(), Malformed> {
        let last = core::mem::take(&mut self.partial);
        if last.is_empty() { Ok(()) } else { self.line(&last, tables, into) }
    }

    #[inline]
    fn line(
        &mut self,
        line: &[u8],
        tables: &mut Tables<'_>,
        into: &mut Vec<Access>,
    ) -> Result<(), Malformed> {
        if line.len() > LINE_MAX {
            return Err(self.too_long());
        }
        let marked = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.number == 0);
        let line = marked.unwrap_or(line).trim_ascii();
        if !line.is_empty() {
            match self.kind.line(line, tables, into) {
                Ok(Some(access)) => {
                    self.may_head = false;
                    match tables.window {
                        Some(window) => window.put(access, into),
                        None => into.push(access),
                    }
                }
                Ok(None) => self.skipped += 1,
                Err(_) if self.may_head && self.kind.is_heading(line) => {
                    self.may_head = false;
                    self.skipped += 1;
                }
                Err(what) => return Err(wrong_line(self.number + 1, what, line)),
            }
        }
        self.number += 1;
        Ok(())
    }
}

/// Returns the error for a line, with its first characters, escaped.
fn wrong_line(number: u64, what: &str, line: &[u8]) -> Malformed {
    let shown: String = line.escape_ascii().take(80).map(char::from).collect();
    Malformed::new(format!("line {number}: {what}: {shown}"))
}

impl Line {
    #[inline]
    fn line(&mut self, line: &[u8], tables: &mut Tables<'_>, into: &mut Vec<Access>) -> Found {
        let Tables { devices, processes, window } = tables;
        match self {
            Line::Columns(read_is) => ssdsim::line(line, *read_is, devices),
            Line::Milliseconds(read_is) => disksim::line(line, *read_is, devices),
            Line::Mqsim => mqsim::line(line, devices),
            Line::Msr => msr::line(line, devices),
            Line::Alibaba => alibaba::line(line, devices),
            Line::Tencent => tencent::line(line, devices),
            Line::Spc => spc::line(line, devices),
            Line::Blkparse(state) => {
                let (found, begins) = state.line(line, devices, processes);
                if let Some(window) = window.as_mut().filter(|_| begins) {
                    window.begin_again(into);
                }
                found
            }
            Line::Arc(block) => arc::line(line, *block, devices),
            Line::Csv => csv::line(line, devices, processes),
        }
    }

    /// Whether a line without an access names the columns: each field has letters and does not
    /// start with a digit.
    fn is_heading(&self, line: &[u8]) -> bool {
        let has_heading =
            matches!(self, Line::Msr | Line::Alibaba | Line::Tencent | Line::Spc | Line::Csv);
        let is_name = |field: &[u8]| {
            field.iter().any(u8::is_ascii_alphabetic)
                && !field.first().is_some_and(u8::is_ascii_digit)
        };
        let has_commas = line.contains(&b',');
        has_heading
            && if has_commas {
                between_commas(line).all(is_name)
            } else {
                between_blanks(line).all(is_name)
            }
    }
}

impl Records {
    fn feed(
        &mut self,
        mut bytes: &[u8],
        devices: &mut Devices,
        into: &mut Vec<Access>,
    ) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let size = self.size()?;
            if self.partial.is_empty() && bytes.len() >= size && self.is_known() {
                let (record, rest) = bytes.split_at(size);
                into.extend(self.record(record, devices)?);
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(size - self.partial.len()));
            self.partial.extend_from_slice(part);
            bytes = rest;
            if self.partial.len() == size && self.is_known() {
                let record = core::mem::take(&mut self.partial);
                into.extend(self.record(&record, devices)?);
            }
        }
        Ok(())
    }

    fn is_known(&self) -> bool {
        !matches!(self.kind, Record::Vscsi(None))
    }

    /// Returns the bytes that are needed to continue. Before the version is known, the number that
    /// contains it.
    fn size(&mut self) -> Result<usize, Malformed> {
        if let (Record::Vscsi(None), Some(head)) = (&self.kind, self.partial.first_chunk()) {
            let version = vscsi::Version::of(head).ok_or_else(|| {
                Malformed::new("byte 0: this is not a vscsi record of version 1 or 2".into())
            })?;
            self.kind = Record::Vscsi(Some(version));
        }
        Ok(match self.kind {
            Record::Vscsi(None) => vscsi::HEAD_BYTES,
            Record::Vscsi(Some(version)) => version.bytes(),
            Record::OracleGeneral(_) => oracle_general::BYTES,
        })
    }

    fn record(
        &mut self,
        record: &[u8],
        devices: &mut Devices,
    ) -> Result<Option<Access>, Malformed> {
        let found = match self.kind {
            Record::Vscsi(Some(version)) => version.record(record, devices),
            Record::OracleGeneral(object) => oracle_general::record(record, object, devices),
            Record::Vscsi(None) => unreachable!("the version is known before a record is taken"),
        };
        let found =
            found.map_err(|what| Malformed::new(format!("byte {}: {what}", self.offset)))?;
        self.offset += record.len() as u64;
        Ok(found)
    }

    fn finish(&mut self) -> Result<(), Malformed> {
        // The last byte may have completed the version.
        self.size()?;
        match self.partial.len() {
            0 => Ok(()),
            left => Err(Malformed::new(format!(
                "byte {}: the file is truncated: it ends {left} bytes into a record",
                self.offset
            ))),
        }
    }
}
