//! Doubts about a flush of a backing that outlive the memory of its cache.
//!
//! ```text
//!   RUNTIME/doubts/KEY    the backing's birth (`record.rs`)
//! ```
//!
//! A process that is in doubt fails the first flush of every client (C1). Memory that is released
//! cannot carry the doubt to the next process of its backing, so the doubt is noted here first. The
//! next process notes it in retained memory, and then removes it here.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of doubts within the runtime directory.
const DIRECTORY: &str = "doubts";

/// The notes of doubts in a runtime directory.
#[derive(Clone, Debug)]
pub struct Doubts {
    directory: PathBuf,
}

impl Doubts {
    /// Returns the doubts of this runtime directory, which may not exist yet.
    pub fn of(runtime: &Path) -> Doubts {
        Doubts { directory: runtime.join(DIRECTORY) }
    }

    /// Notes a doubt about the backing with this key and birth.
    ///
    /// # Errors
    /// Those of the system.
    pub fn note(&self, key: &str, birth: &str) -> io::Result<()> {
        crate::key::check(key)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        fs::write(self.directory.join(key), birth)
    }

    /// Whether a doubt about this backing is noted.
    pub fn has(&self, key: &str, birth: &str) -> bool {
        fs::read_to_string(self.directory.join(key)).is_ok_and(|text| text == birth)
    }

    /// Removes the doubt, if there is one.
    pub fn clear(&self, key: &str) {
        // If this fails, the next process fails flushes without need.
        let _ = fs::remove_file(self.directory.join(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_of_one_backing_until_it_is_removed() {
        let runtime = tempfile::tempdir().expect("room");
        let doubts = Doubts::of(runtime.path());
        assert!(!doubts.has("file-1-2", "7.1"));
        doubts.note("file-1-2", "7.1").expect("room");
        assert!(doubts.has("file-1-2", "7.1") && !doubts.has("file-1-3", "7.1"));
        assert!(!doubts.has("file-1-2", "7.2"), "a later file with the same number");
        assert!(doubts.note("../elsewhere", "7.1").is_err());
        doubts.clear("file-1-2");
        assert!(!doubts.has("file-1-2", "7.1"));
    }
}
