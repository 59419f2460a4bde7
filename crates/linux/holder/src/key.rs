//! Keys of backings: the same for every path that leads to a backing.

use rustix::fs::FileType;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Length of the longest key, in bytes. The socket's path must stay below 108.
const KEY_BYTES: usize = 64;

/// Returns the key of the backing at a path: `file-DEVICE-INODE` for a file, `device-MAJOR-MINOR`
/// for a device. The same as [`host::FileVolume::key`], but without opening the file, so that a
/// holder can be found although its locks prevent opening.
///
/// It is the same for every path and link to the backing, and readable, because it is the name of a
/// socket and of the descriptors in the service manager's store.
///
/// # Errors
/// Those of the system, and if the path is neither a file nor a block device.
pub fn key_at(path: &Path) -> io::Result<String> {
    let found = rustix::fs::stat(path)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(format!("file-{}-{}", found.st_dev, found.st_ino)),
        FileType::BlockDevice => {
            let (major, minor) =
                (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
            Ok(format!("device-{major}-{minor}"))
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the backing is neither a file nor a block device; only these can be retained",
        )),
    }
}

/// Prefix of the key of every mount.
const MOUNT: &str = "mount-";

/// Returns the key of the mount at this path: `mount-HASH`. Unlike that of a backing it is derived
/// from the path alone, because access to the mount could wait for a dead server. The path must be
/// absolute and without links.
pub fn mount_key(path: &Path) -> String {
    let hash = block::stable_hash(path.as_os_str().as_bytes().iter().copied());
    format!("{MOUNT}{hash:016x}")
}

/// Whether it is the key of a mount, not of a backing.
pub(crate) fn is_mount(key: &str) -> bool {
    key.starts_with(MOUNT)
}

/// Checks that a key can be the name of a file and of a descriptor.
pub(crate) fn check(key: &str) -> io::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let good = !key.is_empty()
        && key.len() <= KEY_BYTES
        && !key.starts_with('.')
        && key.bytes().all(plain);
    if good {
        return Ok(());
    }
    let message = format!(
        "{key:?} is not a key of a backing: 1 to {KEY_BYTES} letters, digits, '-', '_' and '.', \
         not beginning with '.'"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_key_by_whatever_name() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let (path, other) = (directory.path().join("image"), directory.path().join("other"));
        std::fs::write(&path, [0; 4096])?;
        std::fs::hard_link(&path, &other)?;
        let key = key_at(&path)?;
        assert!(key.starts_with("file-"), "{key}");
        assert_eq!(key, key_at(&other)?);
        let opened = host::FileVolume::open(&path, host::OpenOptions::default())?;
        assert_eq!(key, opened.key());
        check(&key)?;
        assert!(key_at(directory.path()).is_err(), "a directory");
        Ok(())
    }

    #[test]
    fn a_mount_has_a_key_of_its_path() {
        let key = mount_key(Path::new("/run/files"));
        assert!(is_mount(&key) && check(&key).is_ok(), "{key}");
        assert_ne!(key, mount_key(Path::new("/run/file")));
        assert!(!is_mount("file-2049-1234"));
    }

    #[test]
    fn a_key_cannot_lead_out_of_its_directory() {
        for bad in ["", ".", "..", "a/b", "a:b", "a\nb", "\u{e4}", &"x".repeat(65)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(check("file-2049-1234").is_ok());
    }
}
