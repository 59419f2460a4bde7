//! The files under a directory, in directory order.

use super::look::{Look, failed};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use suites::Halt;

/// The files found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// Each file with its size in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// Total of their bytes.
    pub bytes: u64,
    /// Number of entries left out: links, devices, pipes, other file systems, folders that may not
    /// be read.
    pub left_out: u64,
}

/// Finds the regular files under a directory, the files of a folder before those of its subfolders.
/// Does not follow links or enter other file systems.
///
/// # Errors
/// The directory itself cannot be read, or the watch interrupts.
pub fn found(directory: &Path, look: &mut Look<'_>) -> Result<Found, Halt> {
    let device = fs::metadata(directory).map_err(failed("examine the directory"))?.dev();
    fs::read_dir(directory).map_err(failed("read the directory"))?;
    let (mut found, mut folders) = (Found::default(), vec![directory.to_owned()]);
    while let Some(folder) = folders.pop() {
        look.goes_on("looking for files", 0, 1)?;
        let Ok(entries) = fs::read_dir(&folder) else {
            found.left_out += 1;
            continue;
        };
        let mut inner = Vec::new();
        for entry in entries {
            look.goes_on("looking for files", 0, 1)?;
            let known = entry.and_then(|entry| Ok((entry.metadata()?, entry.path())));
            match known {
                Ok((data, path)) if data.is_dir() && data.dev() == device => inner.push(path),
                Ok((data, path)) if data.is_file() && data.len() > 0 => {
                    found.bytes += data.len();
                    found.files.push((path, data.len()));
                }
                Ok((data, _)) if data.is_file() => {}
                _ => found.left_out += 1,
            }
        }
        folders.extend(inner.into_iter().rev());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_and_links_and_empty_files_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b")).expect("made");
        for (name, bytes) in [("one", 10), ("a/two", 5000), ("a/b/three", 1), ("empty", 0)] {
            fs::write(path(name), vec![7; bytes]).expect("written");
        }
        std::os::unix::fs::symlink(path("one"), path("link")).expect("made");
        let found = found(directory.path(), &mut Look::new(&mut ())).expect("read");
        assert_eq!((found.files.len(), found.bytes, found.left_out), (3, 5011, 1));
        let names: Vec<_> = found.files.iter().map(|(found, _)| found.clone()).collect();
        assert_eq!(names, [path("one"), path("a/two"), path("a/b/three")]);
        let none = super::found(&path("none"), &mut Look::new(&mut ()));
        assert!(matches!(none, Err(Halt::Failed(_))));
    }
}
