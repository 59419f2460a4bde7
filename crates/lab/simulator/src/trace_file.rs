//! A trace in a file: opened, decompressed, its format detected, its requests read piece by piece.

use crate::compressed::Compression;
use crate::error::Error;
use crate::foreign;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trace::recording::MAGIC;
use trace::{Access, Devices, Format, Notes, Processes, Reader, SAMPLE_BYTES, Undetected};

/// Bytes that are decompressed at a time.
const PIECE_BYTES: usize = 1 << 17;
/// Maximum number of decompressed bytes without a request: 64 MiB. Kilobytes of compressed data
/// can be gigabytes of empty lines or blocks.
const QUIET_BYTES_MAX: u64 = 64 << 20;

/// A trace in a file.
pub struct TraceFile {
    /// The prefix of messages: the file's name.
    place: String,
    compression: Compression,
    unpacked: Box<dyn Read + Send>,
    seen: Arc<Seen>,
    /// Its format.
    pub format: Format,
    reader: Reader,
    piece: Vec<u8>,
    /// Bytes that were read to detect the format, and are not parsed yet.
    sample: Vec<u8>,
    /// Zeros after the compressed data.
    padding: Arc<AtomicU64>,
    /// The compressed data ends early, which is no error for a recording.
    is_truncated: bool,
    /// Bytes that were parsed since the last request.
    quiet_bytes: u64,
    /// Notes on the trace; set at the end of the file.
    pub notes: Option<Notes>,
}

/// State of the underlying file.
#[derive(Default)]
struct Seen {
    bytes: AtomicU64,
    size: u64,
    /// The end of the file was read.
    has_ended: AtomicBool,
    /// A read has failed: a following error is not the content's.
    has_failed: AtomicBool,
}

struct Watched {
    file: File,
    seen: Arc<Seen>,
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(into);
        match &read {
            Ok(0) => self.seen.has_ended.store(true, Ordering::Relaxed),
            Ok(count) => {
                self.seen.bytes.fetch_add(*count as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.seen.has_failed.store(true, Ordering::Relaxed),
        }
        read
    }
}

impl TraceFile {
    /// Opens a file of this format. None: detected from its content and name.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is of no known format.
    pub fn open(path: &Path, format: Option<Format>) -> Result<TraceFile, Error> {
        let place = path.display().to_string();
        let failed = |error| unreadable(&place, &error);
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        if data.is_dir() {
            return Err(Error::Usage(format!("{place}: is a directory; name a trace file")));
        }
        let seen = Arc::new(Seen { size: data.len(), ..Seen::default() });
        let watched = Watched { file, seen: seen.clone() };
        let mut packed = BufReader::with_capacity(PIECE_BYTES, watched);
        let start = packed.fill_buf().map_err(failed)?;
        let compression = Compression::of(start);
        // Binary records may begin with any bytes.
        let is_records = format.is_some_and(Format::is_binary);
        let refusal = foreign::refusal(start, path, Compression::None);
        if let Some(refusal) = refusal.filter(|_| !is_records) {
            return Err(Error::Malformed(format!("{place}: {refusal}")));
        }
        let padding = Arc::new(AtomicU64::new(0));
        let unpacked = compression.unpacked(packed, padding.clone());
        let piece = vec![0; PIECE_BYTES];
        let mut file = TraceFile {
            place,
            compression,
            unpacked,
            seen,
            format: Format::Csv,
            reader: Reader::new(Format::Csv),
            piece,
            sample: Vec::new(),
            padding,
            is_truncated: false,
            quiet_bytes: 0,
            notes: None,
        };
        file.format = match format {
            Some(format) => format,
            None => file.detect(path)?,
        };
        file.reader = Reader::new(file.format);
        Ok(file)
    }

    fn detect(&mut self, path: &Path) -> Result<Format, Error> {
        let mut is_whole = false;
        while self.sample.len() < SAMPLE_BYTES && !is_whole {
            let count = self.read_piece()?;
            self.sample.extend_from_slice(&self.piece[..count]);
            is_whole = count == 0;
        }
        if let Some(refusal) = foreign::refusal(&self.sample, path, self.compression) {
            return Err(Error::Malformed(format!("{}: {refusal}", self.place)));
        }
        let name = path.to_string_lossy();
        Format::detect(&name, &self.sample, is_whole).map_err(|undetected| {
            let message = format!("{}: {undetected}", self.place);
            match undetected {
                Undetected::Ambiguous(_) => Error::Usage(message),
                Undetected::Unknown(_) => Error::Malformed(message),
            }
        })
    }

    fn read_piece(&mut self) -> Result<usize, Error> {
        loop {
            match self.unpacked.read(&mut self.piece) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if self.seen.has_failed.load(Ordering::Relaxed) => {
                    return Err(unreadable(&self.place, &error));
                }
                Err(_) if self.may_be_cut() && self.seen.has_ended.load(Ordering::Relaxed) => {
                    self.is_truncated = true;
                    return Ok(0);
                }
                Err(error) => {
                    let (kind, at) =
                        (self.compression.name(), self.seen.bytes.load(Ordering::Relaxed));
                    let what = match error.kind() {
                        ErrorKind::UnexpectedEof => "the file is truncated".to_owned(),
                        _ => error.to_string(),
                    };
                    return Err(Error::Malformed(format!(
                        "{}: the {kind} data is damaged before byte {at}: {what}",
                        self.place
                    )));
                }
            }
        }
    }

    /// Whether this is a recording: it may be cut off, and is then read to its last complete block.
    fn may_be_cut(&self) -> bool {
        self.format == Format::Recording || self.sample.starts_with(&MAGIC)
    }

    /// Returns its path, for messages.
    pub fn path(&self) -> &str {
        &self.place
    }

    /// Returns the devices seen.
    pub fn devices(&self) -> &Devices {
        self.reader.devices()
    }

    /// Returns the processes seen.
    pub fn processes(&self) -> &Processes {
        self.reader.processes()
    }

    /// Returns the time when a recording began, in nanoseconds since 1970 (UTC). None: unknown.
    pub fn begin_ns(&self) -> Option<u64> {
        self.reader.begin_ns()
    }

    /// Returns the share of the file that was read.
    pub fn share(&self) -> f64 {
        (self.seen.bytes.load(Ordering::Relaxed) as f64 / self.seen.size.max(1) as f64).min(1.0)
    }

    /// Reads the next requests, possibly none yet. Returns whether there may be more.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged: the message has the line or the byte.
    pub fn next(&mut self, into: &mut Vec<Access>) -> Result<bool, Error> {
        into.clear();
        if self.notes.is_some() {
            return Ok(false);
        }
        let sample = std::mem::take(&mut self.sample);
        let mut bytes = sample.len();
        let fed = if sample.is_empty() {
            match self.read_piece()? {
                0 => self.reader.finish(into).map(|notes| {
                    let padding_bytes = self.padding.load(Ordering::Relaxed);
                    let is_cut = notes.is_cut || self.is_truncated;
                    self.notes = Some(Notes { padding_bytes, is_cut, ..notes });
                }),
                count => {
                    bytes = count;
                    self.reader.feed(&self.piece[..count], into)
                }
            }
        } else {
            self.reader.feed(&sample, into)
        };
        fed.map_err(|malformed| {
            let format = self.format.name();
            Error::Malformed(format!("{}: read as {format}: {malformed}", self.place))
        })?;
        self.check_quiet(bytes as u64, !into.is_empty())?;
        Ok(true)
    }

    /// Refuses content that has no requests for long.
    fn check_quiet(&mut self, bytes: u64, has_request: bool) -> Result<(), Error> {
        self.quiet_bytes = if has_request { 0 } else { self.quiet_bytes + bytes };
        if self.quiet_bytes <= QUIET_BYTES_MAX {
            return Ok(());
        }
        let (place, mebibytes) = (&self.place, QUIET_BYTES_MAX >> 20);
        let message =
            format!("{place}: has {mebibytes} MiB without a request; the file is damaged");
        Err(Error::Malformed(message))
    }
}

fn unreadable(place: &str, error: &std::io::Error) -> Error {
    let message = format!("{place}: {error}");
    match error.kind() {
        ErrorKind::NotFound => Error::NotFound(message),
        ErrorKind::PermissionDenied => Error::Permission(message),
        _ => Error::Io(message),
    }
}
