//! The directory under test: its checks, its free space, its file system.

use block::Size;
use host::Mount;
use rustix::fs::statvfs;
use stack::{Exit, Failure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The share of the files' bytes that a file system may need for itself.
const OVERHEAD: f64 = 0.02;
/// The part of that which does not depend on their size: a journal, a folder.
const OVERHEAD_BYTES: u64 = 16 << 20;

/// A directory of a mounted file system.
pub(super) struct TestDirectory(PathBuf);

/// Returns the size in bytes of the file system of a directory.
///
/// # Errors
/// The directory does not exist.
pub fn size_of_file_system(directory: &Path) -> Result<u64, Failure> {
    Ok(TestDirectory::find(directory)?.bytes())
}

/// The free space of a file system.
pub(super) struct Room {
    pub(super) bytes: u64,
    /// None: the file system creates inodes on demand.
    files: Option<u64>,
}

impl TestDirectory {
    /// Checks that the path is a directory.
    ///
    /// # Errors
    /// The directory does not exist.
    pub(super) fn find(path: &Path) -> Result<TestDirectory, Failure> {
        let name = path.display();
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(TestDirectory(path.to_owned())),
            Ok(_) => {
                let message = format!("{name}: is not a directory");
                Err(Failure::new(Exit::Usage, message))
            }
            Err(error) => {
                let exit = match error.kind() {
                    std::io::ErrorKind::NotFound => Exit::Negative,
                    std::io::ErrorKind::PermissionDenied => Exit::Permission,
                    _ => Exit::Io,
                };
                Err(Failure::new(exit, format!("{name}: cannot be examined: {error}")))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the size of its file system.
    pub(super) fn bytes(&self) -> u64 {
        statvfs(&self.0).map_or(0, |found| found.f_blocks.saturating_mul(found.f_frsize))
    }

    /// Returns the free space.
    ///
    /// # Errors
    /// The file system does not report it.
    pub(super) fn room(&self) -> Result<Room, Failure> {
        let found = statvfs(&self.0).map_err(|errno| {
            Failure::new(
                Exit::Io,
                format!("{}: the free space cannot be determined: {errno}", self.0.display()),
            )
        })?;
        Ok(Room {
            bytes: found.f_bavail.saturating_mul(found.f_frsize),
            files: (found.f_files > 0).then_some(found.f_favail),
        })
    }

    /// Checks that there is space for this number of files with these total bytes. `what` names
    /// their purpose.
    ///
    /// # Errors
    /// There is too little: the space needed, and the space free.
    pub(super) fn check_room(&self, files: u64, bytes: u64, what: &str) -> Result<(), Failure> {
        let room = self.room()?;
        let own = (bytes as f64 * OVERHEAD) as u64 + OVERHEAD_BYTES;
        let needed = bytes + files * 4096 + own;
        let name = self.0.display();
        if room.bytes < needed {
            let (needed, free) = (whole_mib(needed), whole_mib(room.bytes));
            let message = format!(
                "{name}: {what} need {needed}, but only {free} are free; make room, or use --share \
                 for a part of it"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        if let Some(free) = room.files.filter(|free| *free < files + files / 50 + 16) {
            let message = format!(
                "{name}: {what} need {files} files, but the file system has inodes for {free}; use \
                 --share for a part of it"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(())
    }

    /// Returns facts about the file system: names and values.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let device = fs::metadata(&self.0).map_or(0, |found| found.dev());
        facts_of(&host::mounts(), device)
    }
}

/// Rounds down to whole MiB, for messages.
fn whole_mib(bytes: u64) -> Size {
    Size(bytes >> 20 << 20)
}

/// Describes the mount with this device number.
fn facts_of(mounts: &[Mount], device: u64) -> Vec<(&'static str, String)> {
    let Some(mount) = mounts.iter().find(|mount| mount.device == device) else { return Vec::new() };
    vec![
        ("file_system", mount.kind.clone()),
        ("file_system_on", mount.source.display().to_string()),
        ("file_system_options", mount.system_options.clone()),
        ("mount_options", mount.options.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_described() {
        let mount = Mount {
            id: 36,
            device: 98,
            root: "/mnt1".into(),
            point: "/mnt2".into(),
            options: "rw,noatime".into(),
            kind: "ext3".into(),
            source: "/dev/root".into(),
            system_options: "rw,errors=continue".into(),
        };
        let wanted = [
            ("file_system", "ext3"),
            ("file_system_on", "/dev/root"),
            ("file_system_options", "rw,errors=continue"),
            ("mount_options", "rw,noatime"),
        ];
        let wanted = wanted.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(facts_of(std::slice::from_ref(&mount), 98), wanted);
        assert_eq!(facts_of(&[mount], 97), []);
    }

    #[test]
    fn too_little_room_is_reported_in_numbers() {
        let directory = tempfile::tempdir().expect("a directory");
        let site = TestDirectory::find(directory.path()).expect("there");
        assert!(site.check_room(1, 1, "x").is_ok());
        let refused = site.check_room(1, 1 << 60, "the set X and its copy").expect_err("no room");
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.message.contains("the set X and its copy need 1"), "{refused}");
        assert!(refused.message.contains("--share"), "{refused}");
        let file = directory.path().join("file");
        fs::write(&file, "x").expect("written");
        assert_eq!(TestDirectory::find(&file).err().map(|it| it.exit), Some(Exit::Usage));
        assert_eq!(TestDirectory::find(&file.join("x")).err().map(|it| it.exit), Some(Exit::Io));
        assert_eq!(
            TestDirectory::find(Path::new("/no/such")).err().map(|it| it.exit),
            Some(Exit::Negative)
        );
    }
}
