//! A page that is written at the end of long work.

use stack::{Exit, Failure};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A page to be written at the end. It is opened at the start, so that a path that cannot be
/// written is detected before the run. An existing file stays unchanged until the page is complete
/// and replaces it.
pub(crate) struct PageFile {
    /// The path as given.
    path: PathBuf,
    into: Into,
}

enum Into {
    /// A file next to the target, and the target's path.
    NewFile(NamedTempFile, PathBuf),
    /// The target itself: it is no regular file (such as /dev/stdout), or no file can be created
    /// next to it.
    Itself(File),
}

impl PageFile {
    /// Checks that this file can be written, and that it is not one of the inputs.
    ///
    /// # Errors
    /// It cannot be written, or it is an input.
    pub(crate) fn open(path: &Path, inputs: &[PathBuf]) -> Result<PageFile, Failure> {
        // A new file gets these permissions less the user's mask; an existing file keeps its own.
        PageFile::open_with(path, inputs, |existing| existing.unwrap_or(0o666))
    }

    /// Opens a page that only this user can read, also if it replaces a file that others can read.
    ///
    /// # Errors
    /// As [`PageFile::open`].
    pub(crate) fn open_private(path: &Path, inputs: &[PathBuf]) -> Result<PageFile, Failure> {
        PageFile::open_with(path, inputs, |existing| existing.map_or(0o600, |mode| mode & 0o600))
    }

    /// Opens a page with the mode that this function returns for that of an existing file.
    fn open_with(
        path: &Path,
        inputs: &[PathBuf],
        mode: fn(Option<u32>) -> u32,
    ) -> Result<PageFile, Failure> {
        let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        let is_input =
            identity(path).and_then(|own| inputs.iter().find(|input| identity(input) == Some(own)));
        if is_input.is_some() {
            let what = "this command uses it as input; name another file";
            return Err(Failure::new(Exit::Usage, format!("{}: {what}", path.display())));
        }
        let into = into(path, mode).map_err(|error| failure(path, &error))?;
        Ok(PageFile { path: path.to_owned(), into })
    }

    /// Writes the page to its path.
    ///
    /// # Errors
    /// The disk is full, or the directory was removed.
    pub(crate) fn write(self, page: &str) -> Result<(), Failure> {
        let written = match self.into {
            Into::Itself(mut file) => emptied(&file).and_then(|()| file.write_all(page.as_bytes())),
            Into::NewFile(mut file, place) => file
                .write_all(page.as_bytes())
                .and_then(|()| file.persist(place).map(drop).map_err(|error| error.error)),
        };
        written.map_err(|error| failure(&self.path, &error))
    }
}

fn into(path: &Path, mode: fn(Option<u32>) -> u32) -> std::io::Result<Into> {
    let (mut place, mut existing, mut itself) = (path.to_owned(), None, None);
    match path.metadata() {
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(path)?;
            let data = file.metadata()?;
            if data.file_type().is_block_device() {
                let message = "it is a block device, whose data would be lost";
                return Err(std::io::Error::new(ErrorKind::InvalidInput, message));
            }
            if !data.is_file() {
                return Ok(Into::Itself(file));
            }
            // A link stays a link: its target is replaced.
            place = path.canonicalize()?;
            existing = Some(data.permissions().mode() & 0o7777);
            itself = Some(file);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if place.file_name().is_none() {
        return Err(ErrorKind::IsADirectory.into());
    }
    let mode = mode(existing);
    let beside = place.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = tempfile::Builder::new()
        .prefix(".overdrive-")
        .suffix(".partial")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(beside.unwrap_or(Path::new(".")));
    match (file, itself) {
        (Ok(file), _) => Ok(Into::NewFile(file, place)),
        (Err(_), Some(itself)) => Ok(Into::Itself(itself)),
        // The error names the requested file, not a temporary one next to it.
        (Err(_), None) => {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode).open(place).map(Into::Itself)
        }
    }
}

fn emptied(file: &File) -> std::io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        Exit::Usage,
        format!("--report {}: {error}; name a file that can be written", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(home: &Path) -> Vec<String> {
        let entries = fs::read_dir(home).expect("a directory");
        entries
            .map(|entry| entry.expect("one").file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn what_is_there_stays_until_the_page_is_whole() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("page.html");
        drop(PageFile::open(&path, &[]).expect("it can be written"));
        assert_eq!(names(home.path()), [""; 0], "nothing is left of one that was not written");
        fs::write(&path, "before").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("owned");
        let link = home.path().join("link");
        std::os::unix::fs::symlink("page.html", &link).expect("linked");
        let file = PageFile::open(&link, &[]).expect("it can be written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "before");
        file.write("after").expect("room");
        assert_eq!(fs::read_to_string(&path).expect("there"), "after");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(names(home.path()).len(), 2);
    }

    #[test]
    fn a_private_page_can_be_read_by_its_owner_only() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("page.html");
        let mode = || fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        let write = || {
            PageFile::open_private(&path, &[])
                .expect("it can be written")
                .write("x")
                .expect("room");
        };
        write();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("owned");
        write();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn what_is_no_file_is_written_through_or_refused() {
        PageFile::open(Path::new("/dev/null"), &[]).expect("a device").write("x").expect("gone");
        for bad in ["/", "/no/such/page.html", "/dev", ".", ""] {
            let failure = PageFile::open(Path::new(bad), &[]).err().expect("no file").to_string();
            let begin = format!("--report {bad}: ");
            assert!(failure.starts_with(&begin) && !failure.contains("partial"), "{failure}");
        }
    }
}
