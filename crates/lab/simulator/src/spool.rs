//! Numbers in a temporary file, in order.

use crate::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

const WORD: usize = size_of::<u64>();

/// Numbers being written. The file has no name; it disappears with the process.
pub(crate) struct Spool {
    file: BufWriter<File>,
    pub(crate) count: u64,
}

/// Numbers being read.
pub(crate) struct Spooled {
    file: BufReader<File>,
    pub(crate) count: u64,
}

fn failed(error: &std::io::Error) -> Error {
    let place = std::env::temp_dir();
    let place = place.display();
    let mend = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; set TMPDIR to a directory with more space"
        }
        _ => "; set TMPDIR to another directory",
    };
    Error::Io(format!("{place}: no temporary file can be written: {error}{mend}"))
}

impl Spool {
    /// Creates an empty one with a buffer of this size.
    pub(crate) fn new(buffer_bytes: usize) -> Result<Spool, Error> {
        let file = tempfile::tempfile().map_err(|error| failed(&error))?;
        Ok(Spool { file: BufWriter::with_capacity(buffer_bytes, file), count: 0 })
    }

    pub(crate) fn put(&mut self, number: u64) -> Result<(), Error> {
        self.count += 1;
        self.file.write_all(&number.to_le_bytes()).map_err(|error| failed(&error))
    }

    /// Switches to reading.
    pub(crate) fn read(self) -> Result<Spooled, Error> {
        let count = self.count;
        let mut file = self.file.into_inner().map_err(|error| failed(error.error()))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| failed(&error))?;
        Ok(Spooled { file: BufReader::with_capacity(1 << 18, file), count })
    }
}

impl Spooled {
    /// Appends the next numbers, at most `most`; none: the end is reached.
    pub(crate) fn take(&mut self, most: usize, into: &mut Vec<u64>) -> Result<(), Error> {
        let mut bytes = [0; WORD];
        for _ in 0..(most as u64).min(self.count) {
            self.file.read_exact(&mut bytes).map_err(|error| failed(&error))?;
            into.push(u64::from_le_bytes(bytes));
            self.count -= 1;
        }
        Ok(())
    }

    /// Starts again from the beginning.
    pub(crate) fn rewind(self, count: u64) -> Result<Spooled, Error> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(0)).map_err(|error| failed(&error))?;
        Ok(Spooled { file, count })
    }
}
