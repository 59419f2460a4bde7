//! Settings that are read from the files of a directory, and read again after these have changed.

use lane::Lock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings from a directory's files, shared by all lanes.
pub(crate) struct Renewed<C> {
    directory: PathBuf,
    /// The files whose changes are noticed.
    names: &'static [&'static str],
    current: Lock<Current<C>>,
}

struct Current<C> {
    settings: Arc<C>,
    /// The stamp of the files as of the last reading.
    stamp: Stamp,
}

/// Identity of the contents of files, as far as file systems show it: device, number, size, and the
/// time of the last change in seconds and nanoseconds.
type Stamp = Vec<Option<(u64, u64, u64, i64, i64)>>;

impl<C> Renewed<C> {
    /// Reads the settings.
    ///
    /// # Errors
    /// That of `read`.
    pub(crate) fn open(
        directory: &Path,
        names: &'static [&'static str],
        read: impl FnOnce(&Path) -> Result<C, String>,
    ) -> Result<Renewed<C>, String> {
        let stamp = stamp(directory, names);
        let settings = Arc::new(read(directory)?);
        let current = Lock::new(Current { settings, stamp });
        Ok(Renewed { directory: directory.to_owned(), names, current })
    }

    /// Reads the settings again if the files have changed since the last reading. Returns whether
    /// they have.
    ///
    /// # Errors
    /// That of `read`, once for each change. The former settings stay.
    pub(crate) fn renew(
        &self,
        read: impl FnOnce(&Path) -> Result<C, String>,
    ) -> Result<bool, String> {
        let stamp = stamp(&self.directory, self.names);
        if self.current.peek(|current| current.stamp == stamp) {
            return Ok(false);
        }
        let settings = read(&self.directory);
        self.current.peek(|current| {
            current.stamp = stamp;
            current.settings = Arc::new(settings?);
            Ok(true)
        })
    }

    /// Returns the settings.
    pub(crate) fn get(&self) -> Arc<C> {
        self.current.peek(|current| current.settings.clone())
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

fn stamp(directory: &Path, names: &[&str]) -> Stamp {
    let of_file = |name: &&str| {
        let found = fs::metadata(directory.join(name)).ok()?;
        Some((found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
    };
    names.iter().map(of_file).collect()
}
