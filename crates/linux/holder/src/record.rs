//! The record of a backing that is served, for the process that serves it next.
//!
//! ```text
//!   RUNTIME/served/KEY    {"memory":"1-2345","bytes":67108864,"birth":"..."}
//! ```
//!
//! A record is written before the backing is served, and removed when serving ends in order. So a
//! record that is found shows that the earlier process was killed, was replaced by an upgrade, or
//! has left a device that waits. It answers three questions:
//!
//! - Was the backing accepted? Then its contents are not examined again: a client may have written
//!   anything to it since.
//! - Which memory may hold data that is not on the backing? If a process finds a live device but
//!   not this memory, answered writes are lost. The holder of the memory removes this note when it
//!   ends because nothing is dirty.
//! - Which size did the backing have?

use rustix::fs::{AtFlags, FileType, StatxFlags};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of records within the runtime directory.
const DIRECTORY: &str = "served";

/// The record of a backing that is served, or was served when its process was killed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The memory that may hold data that is not on the backing ([`memory_identity`]). None: there
    /// is no such data.
    #[serde(default)]
    pub memory: Option<String>,
    /// Size of the backing, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// A mark that a later backing with the same key does not have ([`birth`]).
    #[serde(default)]
    pub birth: String,
}

/// The records in a runtime directory.
#[derive(Clone, Debug)]
pub struct Records {
    directory: PathBuf,
}

impl Records {
    /// Returns the records of this runtime directory, which may not exist yet.
    pub fn of(runtime: &Path) -> Records {
        Records { directory: runtime.join(DIRECTORY) }
    }

    /// Reads the record of the backing with this key. None: there is no record, or it cannot be
    /// read.
    pub fn read(&self, key: &str) -> Option<Record> {
        let text = fs::read(self.directory.join(key)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes the record of a backing atomically.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, key: &str, record: &Record) -> io::Result<()> {
        crate::key::check(key)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        // A hidden name is never read as a record: no key begins with a dot.
        let fresh = self.directory.join(format!(".{key}.{}", std::process::id()));
        let written = fs::write(&fresh, serde_json::to_vec(record)?);
        let placed = written.and_then(|()| fs::rename(&fresh, self.directory.join(key)));
        if placed.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        placed
    }

    /// Notes that all data of this memory is on the backing, if the record names this memory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn clear_memory(&self, key: &str, memory: &str) -> io::Result<()> {
        match self.read(key) {
            Some(record) if record.memory.as_deref() == Some(memory) => {
                self.write(key, &Record { memory: None, ..record })
            }
            _ => Ok(()),
        }
    }

    /// Removes a record, if there is one.
    pub fn remove(&self, key: &str) {
        // If a record stays, a later process of this backing takes it as accepted.
        let _ = fs::remove_file(self.directory.join(key));
    }
}

/// Returns the identity of a memory: no other memory of this machine has it before the next boot.
///
/// # Errors
/// Those of the system.
pub fn memory_identity(memory: impl AsFd) -> io::Result<String> {
    let found = rustix::fs::fstat(memory)?;
    Ok(format!("{}-{}", found.st_dev, found.st_ino))
}

/// Returns a mark that a later file or device with the same key does not have: the time at which a
/// file was created, or the sequence number of a disk. Empty: the system does not report it.
pub fn birth(backing: impl AsFd) -> String {
    let Ok(found) = rustix::fs::fstat(&backing) else { return String::new() };
    if FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice {
        return disk_sequence(found.st_rdev).unwrap_or_default();
    }
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(found) = rustix::fs::statx(&backing, "", flags, StatxFlags::BTIME) else {
        return String::new();
    };
    match StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME) {
        true => format!("{}.{:09}", found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        false => String::new(),
    }
}

/// Returns the sequence number of a disk, or of the disk of a partition.
fn disk_sequence(device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disks = [Some(directory.as_path()), directory.parent()].into_iter().flatten();
    disks.filter_map(|disk| fs::read_to_string(disk.join("diskseq")).ok()).next().map(|text| {
        let number = text.trim();
        format!("disk {number}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "file-1-2";

    #[test]
    fn a_record_is_read_as_it_was_written_until_it_is_removed() {
        let runtime = tempfile::tempdir().expect("room");
        let records = Records::of(runtime.path());
        assert_eq!(records.read(KEY), None);
        records.remove(KEY);
        let memory = Some("1-2".to_owned());
        let record = Record { memory, bytes: 4096, birth: "7.000000001".to_owned() };
        records.write(KEY, &record).expect("room");
        assert_eq!(records.read(KEY), Some(record.clone()));
        assert!(records.write("../elsewhere", &record).is_err());
        records.clear_memory(KEY, "1-3").expect("room");
        assert_eq!(records.read(KEY), Some(record.clone()), "it is of another memory");
        records.clear_memory(KEY, "1-2").expect("room");
        assert_eq!(records.read(KEY), Some(Record { memory: None, ..record }));
        let files = fs::read_dir(runtime.path().join(DIRECTORY)).expect("it is there").count();
        assert_eq!(files, 1, "nothing is left beside it");
        records.remove(KEY);
        assert_eq!(records.read(KEY), None);
        records.clear_memory(KEY, "1-2").expect("there is nothing to clear");
    }

    #[test]
    fn memories_and_files_are_distinguished_from_later_ones() -> io::Result<()> {
        let memory = |name| rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC);
        let (one, two) = (memory("one")?, memory("two")?);
        assert_eq!(memory_identity(&one)?, memory_identity(one.try_clone()?)?);
        assert_ne!(memory_identity(&one)?, memory_identity(&two)?);
        let place = tempfile::tempdir()?;
        let path = place.path().join("image");
        let file = fs::File::create(&path)?;
        let born = birth(&file);
        file.set_len(4096)?;
        assert_eq!(born, birth(fs::File::open(&path)?), "what is written does not change it");
        Ok(())
    }
}
