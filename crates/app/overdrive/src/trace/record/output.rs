//! The files of a recording.

use stack::{Exit, Failure};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::recording::Entry;
use traces::{Packed, RecordingWriter};

/// Upper bound for the size of one block.
const BLOCK_BYTES_MAX: u64 = 1 << 19;
/// Upper bound for data that the compressor holds.
const PART_BYTES: u64 = 1 << 20;
/// Minimum of `--max-bytes`.
pub(super) const FILES_BYTES_MIN: u64 = 4 << 20;

/// A recording that is being written. With a maximum size there are up to two files: the older half
/// is `OUTPUT.1`.
pub(super) struct Output {
    path: PathBuf,
    files_bytes_max: Option<u64>,
    sink: Sink,
    writer: RecordingWriter,
    /// Number of halves that were replaced by newer ones or became the older half.
    pub(super) rotations: u64,
    /// Requests that were written.
    pub(super) requests: u64,
    /// Whether a write has failed. Nothing is written after it, so that the file can be read up to
    /// its last complete block.
    has_failed: bool,
}

enum Sink {
    Plain(File),
    /// The compressor, and another handle on its file.
    Packed(Packed<File>, File),
}

impl Output {
    /// Creates the file. `begin_ns`: since 1970.
    ///
    /// # Errors
    /// It exists, or cannot be created.
    pub(super) fn create(
        path: &Path,
        files_bytes_max: Option<u64>,
        begin_ns: u64,
    ) -> Result<Output, Failure> {
        if files_bytes_max.is_some() && older(path).symlink_metadata().is_ok() {
            return Err(exists(&older(path)));
        }
        let sink = Sink::create(path).map_err(|error| failure(path, &error))?;
        let writer = RecordingWriter::new(begin_ns);
        let path = path.to_owned();
        Ok(Output {
            path,
            files_bytes_max,
            sink,
            writer,
            rotations: 0,
            requests: 0,
            has_failed: false,
        })
    }

    /// Adds a request; writes a block if that is full, as one before which nothing was lost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn put(
        &mut self,
        entry: Entry,
        device: &str,
        process: Option<&str>,
    ) -> Result<(), Failure> {
        self.requests += 1;
        self.writer.put(entry, device, process);
        if self.writer.is_full() { self.write_block(0) } else { Ok(()) }
    }

    /// Writes the requests of the last moments.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write_block(&mut self, dropped: u64) -> Result<(), Failure> {
        if self.writer.is_empty() && dropped == 0 {
            return Ok(());
        }
        let bytes = self.writer.bytes(dropped);
        self.try_write(|output| {
            output.sink.write_all(&bytes)?;
            output.rotate()
        })
    }

    /// Ends a compressed part, so that it can be read even if this program is killed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn end_part(&mut self) -> Result<(), Failure> {
        self.try_write(|output| output.sink.end_part())
    }

    /// Writes, unless an earlier write has failed.
    fn try_write(
        &mut self,
        write: impl FnOnce(&mut Output) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.has_failed {
            return Ok(());
        }
        write(self).map_err(|error| {
            self.has_failed = true;
            failure(&self.path, &error)
        })
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        // The header, even if there were no requests.
        let bytes = self.writer.bytes(0);
        self.try_write(|output| output.sink.write_all(&bytes))?;
        if self.has_failed {
            return Ok(());
        }
        self.sink.finish().map_err(|error| failure(&self.path, &error))
    }

    /// Begins the next file if another block might exceed half of the maximum.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(files_bytes_max) = self.files_bytes_max else { return Ok(()) };
        if self.sink.bytes_max()? + BLOCK_BYTES_MAX <= files_bytes_max / 2 {
            return Ok(());
        }
        fs::rename(&self.path, older(&self.path))?;
        let full = std::mem::replace(&mut self.sink, Sink::create(&self.path)?);
        full.finish()?;
        self.writer = self.writer.next_file();
        self.rotations += 1;
        Ok(())
    }
}

impl Sink {
    fn create(path: &Path) -> io::Result<Sink> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        match path.extension().is_some_and(|extension| extension == "zst") {
            true => Ok(Sink::Packed(Packed::new(file.try_clone()?), file)),
            false => Ok(Sink::Plain(file)),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Packed(packed, _) => packed.write_all(bytes),
        }
    }

    /// Returns an upper bound for the size of the file.
    fn bytes_max(&self) -> io::Result<u64> {
        match self {
            Sink::Plain(file) => Ok(file.metadata()?.len()),
            Sink::Packed(_, file) => Ok(file.metadata()?.len() + PART_BYTES),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "ends a part of the compressor")]
    fn end_part(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(_) => Ok(()),
            Sink::Packed(packed, _) => packed.flush(),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.sync_all(),
            Sink::Packed(packed, _) => packed.finish()?.sync_all(),
        }
    }
}

/// Returns the path of the older half.
fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

fn exists(path: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("{}: exists; name a new file", path.display()))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::AlreadyExists => return exists(path),
        ErrorKind::PermissionDenied => Exit::Permission,
        ErrorKind::NotFound => Exit::Usage,
        _ => Exit::Io,
    };
    let path = path.display();
    Failure::new(exit, format!("{path}: {error}; the recording ends there"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use trace::{Event, Operation, Trace};

    fn entry(number: u64) -> Entry {
        let operation = Operation::Read;
        // Not compressible: the file of a compressed recording grows.
        let first = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 14;
        let (took_ns, failed) = (Some(first % 1_000_000), None);
        let (time_ns, device, sectors) = (number * 1000, 0, 8);
        Event { time_ns, took_ns, operation, device, first, sectors, failed }.into()
    }

    fn record(path: &Path, files_bytes_max: Option<u64>, count: u64) -> u64 {
        let mut output = Output::create(path, files_bytes_max, 7).expect("created");
        (0..count).for_each(|number| output.put(entry(number), "sda", None).expect("put"));
        let rotations = output.rotations;
        output.write_block(3).expect("written");
        output.finish().expect("finished");
        rotations
    }

    #[test]
    fn the_newest_requests_remain_within_the_maximum() {
        let home = tempfile::tempdir().expect("a directory");
        for (name, is_packed) in [("a", false), ("b.zst", true)] {
            let path = home.path().join(name);
            let count = 150_000;
            assert!(record(&path, Some(FILES_BYTES_MIN), count) > 1, "{name}");
            let sizes = [path.clone(), older(&path)].map(|path| {
                let found = path.metadata().expect("there");
                assert_eq!(found.permissions().mode() & 0o777, 0o600);
                found.len()
            });
            assert!(sizes[0] + sizes[1] <= FILES_BYTES_MIN, "{name}: {sizes:?}");
            if !is_packed {
                let parse = |path: &Path| Trace::parse(&fs::read(path).expect("read"));
                let trace = parse(&older(&path)).expect("a recording");
                assert!(!trace.is_cut());
                let last = trace.events().last().expect("one").time_ns;
                let trace = parse(&path).expect("a recording");
                assert_eq!(trace.dropped(), 3);
                let events = trace.events();
                assert_eq!(events.first().expect("one").time_ns, last + 1000);
                assert_eq!(events.last().expect("one").time_ns, (count - 1) * 1000);
            }
        }
    }

    #[test]
    fn existing_files_stay() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("a");
        fs::write(older(&path), "mine").expect("written");
        let refused = Output::create(&path, Some(FILES_BYTES_MIN), 0).err().expect("refused");
        assert!(refused.to_string().contains("a.1: exists"), "{refused}");
        assert_eq!(record(&path, None, 10), 0);
        assert!(Output::create(&path, None, 0).is_err());
    }
}
