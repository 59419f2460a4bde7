//! Devices and files below a path, down to the disks: the file system's device, its disk or
//! members, the file of a loop device, and so on.

use crate::identity::Identity;
use crate::mounts::{mount_around, mounts};
use crate::sysfs::{self, directory};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of devices and files that are followed.
const STEPS_MAX: usize = 256;

/// Returns the keys ([`crate::FileVolume::key`]) of everything below the file system of
/// `directory`, as far as the kernel shows it: devices, and files of loop devices. Layers behind a
/// network or a FUSE file system cannot be found. For these, and for a file system in memory, the
/// key is that of the file system alone (`system-NUMBER`).
pub fn keys_below(directory: &Path) -> Vec<String> {
    let system = fs::metadata(directory).ok().map(|found| found.dev());
    keys_of_all(system.into_iter().chain(device_of(directory)))
}

/// Same as [`keys_below`], for a file or a device with this key; includes the device itself.
/// `paths` are its possible names, absolute and without links. For file systems with their own
/// device numbers (btrfs), they are looked up in the list of mounts. None of them is accessed,
/// because that may hang.
pub fn keys_below_backing<'a>(key: &str, paths: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let Some(identity) = Identity::from_key(key) else { return Vec::new() };
    let own = match identity {
        Identity::File { system, .. } => system,
        Identity::Device { number } => number,
    };
    let is_hidden = rustix::fs::major(own) == 0;
    let by_path = paths.filter(|_| is_hidden).filter_map(source_device);
    keys_of_all(std::iter::once(own).chain(by_path))
}

/// Returns the keys of these devices, or file systems, and of everything below them.
fn keys_of_all(tops: impl Iterator<Item = u64>) -> Vec<String> {
    let mut keys = Vec::new();
    let mut left: Vec<u64> = Vec::new();
    for top in tops {
        match rustix::fs::major(top) {
            // A number of the file system itself, without a device.
            0 => keys.push(format!("system-{top}")),
            _ => left.push(top),
        }
    }
    while let Some(device) = left.pop() {
        let key = Identity::Device { number: device }.key();
        if keys.contains(&key) || keys.len() == STEPS_MAX {
            continue;
        }
        keys.push(key);
        left.extend(sysfs::members(device).into_iter().chain(sysfs::disk_of(device)));
        let Some(file) = file_behind(device) else { continue };
        if let Ok(found) = rustix::fs::stat(&file) {
            keys.push(Identity::of(&found).key());
            match device_of(&file) {
                Some(device) => left.push(device),
                None => keys.push(format!("system-{}", found.st_dev)),
            }
        }
    }
    keys
}

/// Returns the device of a path's file system. For file systems with their own device numbers
/// (btrfs) the list of mounts names it.
fn device_of(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    if rustix::fs::major(found.dev()) != 0 {
        return Some(found.dev());
    }
    source_device(&fs::canonicalize(path).ok()?)
}

/// Returns the device from which the file system around an absolute path without links is mounted.
fn source_device(path: &Path) -> Option<u64> {
    let mounts = mounts();
    let source = &mount_around(&mounts, path)?.source;
    let found = fs::metadata(source.is_absolute().then_some(source)?).ok()?;
    (found.rdev() != 0).then(|| found.rdev())
}

/// Returns the file of a loop device.
fn file_behind(device: u64) -> Option<PathBuf> {
    let text = fs::read_to_string(directory(device).join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_path_has_no_keys_below_it() {
        assert_eq!(keys_below(Path::new("/no/such/place")), [""; 0]);
        assert_eq!(keys_below_backing("what is this", std::iter::empty()), [""; 0]);
    }

    #[test]
    fn a_file_has_the_keys_below_its_directory() {
        let file = std::env::current_exe().expect("a test is a program");
        let found = rustix::fs::stat(&file).expect("it is there");
        let key = Identity::of(&found).key();
        let directory = keys_below(file.parent().expect("it lies somewhere"));
        let backing = keys_below_backing(&key, std::iter::once(file.as_path()));
        assert!(!directory.is_empty(), "a test lies in a file system");
        assert_eq!(directory, backing);
        // A file system in memory is a different one.
        let other = keys_below(Path::new("/proc"));
        assert!(!other.is_empty() && other.iter().all(|key| !directory.contains(key)), "{other:?}");
    }
}
