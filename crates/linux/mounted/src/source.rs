//! Files and devices as sources of bytes.

use files::{ReadAt, ReadFailed};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An open image or block device.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    bytes: u64,
}

impl FileSource {
    /// Opens an image or a block device.
    ///
    /// # Errors
    /// The system's errors.
    pub fn open(path: &Path) -> io::Result<FileSource> {
        FileSource::new(File::open(path)?)
    }

    /// Uses an open image or block device, with its size at this time.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new(mut file: File) -> io::Result<FileSource> {
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(FileSource { file, bytes })
    }
}

impl ReadAt for FileSource {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        self.file.read_exact_at(into, offset).map_err(|_| ReadFailed)
    }
}
