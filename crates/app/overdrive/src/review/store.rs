//! The finished results of a review, in a file: an interrupted review continues from them.

use super::jobs::Found;
use rustix::fs::FlockOperation;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The name of the file's format.
const SCHEMA: &str = "overdrive.review.parts/1";

/// The finished results of a review: lines of JSON, the first of which is the review's key.
pub(super) struct Store {
    /// The file; None: neither XDG_DATA_HOME nor HOME is set.
    file: Option<(PathBuf, File)>,
    found: Vec<Found>,
}

/// Returns the directory of the files.
fn directory() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data =
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("overdrive").join("reviews"))
}

/// Returns the FNV-1a hash of a text.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Store {
    /// Opens the results of the review with this key; `restart` drops them.
    ///
    /// # Errors
    /// Another process runs the same review, or the file cannot be written.
    pub(super) fn open(key: &Value, restart: bool) -> Result<Store, Failure> {
        match directory() {
            Some(directory) => Store::open_in(&directory, key, restart),
            None => Ok(Store { file: None, found: Vec::new() }),
        }
    }

    fn open_in(directory: &Path, key: &Value, restart: bool) -> Result<Store, Failure> {
        let key = json!({ "schema": SCHEMA, "key": key }).to_string();
        let path = directory.join(format!("{:016x}.jsonl", hash(&key)));
        let broken = |error: &dyn std::fmt::Display| {
            let message = format!("{}: results cannot be stored: {error}", path.display());
            Failure::new(Exit::Io, message)
        };
        std::fs::create_dir_all(directory).map_err(|error| broken(&error))?;
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
        let mut file = options.open(&path).map_err(|error| broken(&error))?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let message = "another process runs this review; wait for its end".to_owned();
            return Err(Failure::new(Exit::Busy, message));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| broken(&error))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let (found, whole) = if restart { (Vec::new(), 0) } else { read(&key, &text) };
        file.set_len(whole as u64).map_err(|error| broken(&error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| broken(&error))?;
        let mut store = Store { file: Some((path.clone(), file)), found };
        if whole == 0 {
            store.write(&key)?;
        }
        Ok(store)
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        file.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
            let message = format!("{}: results cannot be stored: {error}", path.display());
            Failure::new(Exit::Io, message)
        })
    }

    /// Adds the result of a job.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) fn add(&mut self, found: Found) -> Result<(), Failure> {
        self.write(&found.json().to_string())?;
        self.found.push(found);
        Ok(())
    }

    /// Returns the finished results.
    pub(super) fn found(&self) -> &[Found] {
        &self.found
    }

    /// Whether a job has a result.
    pub(super) fn has(&self, job: &str) -> bool {
        self.found.iter().any(|found| found.job == job)
    }

    /// Sorts the results into the order of the jobs.
    pub(super) fn sort(&mut self, order: impl Fn(&str) -> usize) {
        self.found.sort_by_key(|found| order(&found.job));
    }

    /// Removes the file of a complete review.
    pub(super) fn remove(self) {
        if let Some((path, _file)) = self.file {
            // The next run of the same review would begin with it, which does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the results in a file of this key, and the length of its whole lines. A line that is
/// incomplete, because the machine stopped, and everything after it is dropped.
fn read(key: &str, text: &str) -> (Vec<Found>, usize) {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| line.strip_suffix('\n') == Some(key));
    let Some(first) = first else { return (Vec::new(), 0) };
    let (mut found, mut whole) = (Vec::new(), first.len());
    for line in lines {
        let value = line.strip_suffix('\n').and_then(|line| serde_json::from_str(line).ok());
        let Some(one) = value.as_ref().and_then(Found::read) else { break };
        found.push(one);
        whole += line.len();
    }
    (found, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_continues_from_whole_lines_of_its_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let key = json!({ "target": "model:x" });
        let found = |job: &str| Found {
            job: job.to_owned(),
            columns: vec![("bare".into(), vec![json!({ "test": "a", "value": 1.5 })])],
            method: vec!["m".into()],
            elapsed_ns: 7,
        };
        let open = |key: &Value, restart| Store::open_in(directory.path(), key, restart);
        let mut store = open(&key, false).expect("a new one");
        store.add(found("one")).expect("written");
        store.add(found("two")).expect("written");
        let busy = open(&key, false).err().expect("it is locked");
        assert_eq!(busy.exit, Exit::Busy);
        let (path, _) = store.file.take().expect("a file");
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, &text[..text.len() - 5]).expect("torn");
        let mut store = open(&key, false).expect("the first line is whole");
        assert_eq!(store.found(), [found("one")]);
        assert!(store.has("one") && !store.has("two"));
        store.add(found("two")).expect("written again");
        drop(store);
        assert_eq!(open(&key, false).expect("both").found().len(), 2);
        assert!(open(&json!({ "target": "model:y" }), false).expect("other").found().is_empty());
        let store = open(&key, true).expect("dropped");
        assert!(store.found().is_empty());
        store.remove();
        assert!(!path.exists());
    }
}
