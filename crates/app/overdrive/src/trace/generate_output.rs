//! The recording that `overdrive trace generate` writes.

use super::convert::{create, unwritable};
use stack::Failure;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use trace::recording::Entry;
use traces::{Packed, RecordingWriter};

/// A recording that is written, or nothing if there is no output.
pub(super) struct Output {
    path: PathBuf,
    writer: RecordingWriter,
    into: Into,
}

enum Into {
    Nothing,
    Stdout,
    Plain(BufWriter<File>),
    Packed(Packed<File>),
}

impl Output {
    /// Creates the file.
    ///
    /// # Errors
    /// It exists, or cannot be written.
    pub(super) fn create(path: Option<&Path>) -> Result<Output, Failure> {
        let into = match path {
            None => Into::Nothing,
            Some(path) if path.as_os_str() == "-" => Into::Stdout,
            Some(path) if path.extension().is_some_and(|extension| extension == "zst") => {
                Into::Packed(Packed::new(create(path)?))
            }
            Some(path) => Into::Plain(BufWriter::new(create(path)?)),
        };
        let path = path.unwrap_or(Path::new("")).to_owned();
        Ok(Output { path, writer: RecordingWriter::new(0), into })
    }

    /// Whether the standard output has the recording.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self.into, Into::Stdout)
    }

    /// Whether nothing is written.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.into, Into::Nothing)
    }

    /// Adds a request.
    pub(super) fn put(
        &mut self,
        entry: Entry,
        device: &str,
        process: Option<&str>,
    ) -> Result<(), Failure> {
        if self.is_nothing() {
            return Ok(());
        }
        self.writer.put(entry, device, process);
        if self.writer.is_full() { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> Result<(), Failure> {
        let bytes = self.writer.bytes(0);
        let written = match &mut self.into {
            Into::Nothing => Ok(()),
            Into::Stdout => std::io::stdout().lock().write_all(&bytes),
            Into::Plain(file) => file.write_all(&bytes),
            Into::Packed(file) => file.write_all(&bytes),
        };
        written.map_err(|error| unwritable(&self.path, &error))
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.write_block()?;
        let file = match self.into {
            Into::Nothing => return Ok(()),
            Into::Stdout => {
                #[allow(clippy::disallowed_methods, reason = "a terminal or a pipe")]
                let flushed = std::io::stdout().lock().flush();
                return flushed.map_err(|error| unwritable(&self.path, &error));
            }
            Into::Plain(file) => file.into_inner().map_err(std::io::IntoInnerError::into_error),
            Into::Packed(file) => file.finish(),
        };
        let synced = file.and_then(|file| file.sync_all());
        synced.map_err(|error| unwritable(&self.path, &error))
    }

    /// Removes the file, which is not complete.
    pub(super) fn remove(self) {
        if matches!(self.into, Into::Plain(_) | Into::Packed(_)) {
            _ = std::fs::remove_file(&self.path);
        }
    }
}
