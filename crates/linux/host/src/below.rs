//! What a path lies on, down to the disks: the file system's device, what that is a part of or is made
//! of, the file behind a loop device, and so on.

use crate::identity::Identity;
use crate::mounts::unescape;
use crate::sysfs::{self, directory};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most devices and files that are followed.
const STEPS_MAX: usize = 256;

/// The keys ([`crate::FileVolume::key`]) of everything below the file system that `directory`
/// belongs to, as far as the kernel shows: devices, and files behind loop devices. Anything
/// behind a network or a FUSE file system cannot be found; there, and in memory, the key is
/// that of the file system alone (`system-NUMBER`).
pub fn keys_below(directory: &Path) -> Vec<String> {
    let system = fs::metadata(directory).ok().map(|found| found.dev());
    below(system.into_iter().chain(device_of(directory)))
}

/// The same of what a file or a device of this key lies on, the device itself included. `paths` are
/// names that it may have, absolute and without links: file systems with numbers of their own
/// (btrfs) show their device by a path alone. No path is looked at, only the list of mounts: what
/// lies there may hang.
pub fn keys_below_backing<'a>(key: &str, paths: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let Some(identity) = Identity::from_key(key) else { return Vec::new() };
    let own = match identity {
        Identity::File { system, .. } => system,
        Identity::Device { number } => number,
    };
    let is_hidden = rustix::fs::major(own) == 0;
    let by_path = paths.filter(|_| is_hidden).filter_map(source_device);
    below(std::iter::once(own).chain(by_path))
}

/// The keys of these devices, or file systems, and of everything below them.
fn below(tops: impl Iterator<Item = u64>) -> Vec<String> {
    let mut keys = Vec::new();
    let mut left: Vec<u64> = Vec::new();
    for top in tops {
        match rustix::fs::major(top) {
            // A number of the file system's own, of no device.
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

/// The device of the file system that a path belongs to. File systems with numbers of their own (btrfs)
/// name theirs in the list of mounts.
fn device_of(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    if rustix::fs::major(found.dev()) != 0 {
        return Some(found.dev());
    }
    source_device(&fs::canonicalize(path).ok()?)
}

/// The device that a file system is mounted from, by the list of mounts and an absolute path
/// without links in it.
fn source_device(path: &Path) -> Option<u64> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let source = fs::metadata(source_of(&mounts, path)?).ok()?;
    (source.rdev() != 0).then(|| source.rdev())
}

/// The source of the mount that a path without links lies in: of the longest place, the last one.
fn source_of(mounts: &str, path: &Path) -> Option<PathBuf> {
    let places = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let place = PathBuf::from(unescape(mount.split(' ').nth(4)?));
        let source = PathBuf::from(unescape(system.split(' ').nth(1)?));
        path.starts_with(&place).then(|| (place.components().count(), source))
    });
    let (_, source) = places.max_by_key(|(depth, _)| *depth)?;
    source.is_absolute().then_some(source)
}

/// The file behind a loop device.
fn file_behind(device: u64) -> Option<PathBuf> {
    let text = fs::read_to_string(directory(device).join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_of_a_path_names_its_source() {
        let mounts = "\
22 1 0:20 / / rw - btrfs /dev/sda1 rw
36 22 0:31 / /mnt\\0402 rw,noatime master:1 - btrfs /dev/sdb rw
37 22 0:44 / /data rw shared:2 - tmpfs none rw
malformed";
        let source = |path: &str| source_of(mounts, Path::new(path));
        assert_eq!(source("/home/x"), Some(PathBuf::from("/dev/sda1")));
        assert_eq!(source("/mnt 2/x"), Some(PathBuf::from("/dev/sdb")));
        assert_eq!(source("/data/x"), None, "memory lies on no device");
        assert_eq!(source("/database"), Some(PathBuf::from("/dev/sda1")));
    }

    #[test]
    fn a_place_that_is_not_there_lies_on_nothing() {
        assert_eq!(keys_below(Path::new("/no/such/place")), [""; 0]);
        assert_eq!(keys_below_backing("what is this", std::iter::empty()), [""; 0]);
    }

    #[test]
    fn a_file_lies_on_what_its_directory_lies_on() {
        let file = std::env::current_exe().expect("a test is a program");
        let found = rustix::fs::stat(&file).expect("it is there");
        let key = Identity::of(&found).key();
        let directory = keys_below(file.parent().expect("it lies somewhere"));
        let backing = keys_below_backing(&key, std::iter::once(file.as_path()));
        assert!(!directory.is_empty(), "a test lies in a file system");
        assert_eq!(directory, backing);
        // A file system in memory is another one.
        let other = keys_below(Path::new("/proc"));
        assert!(!other.is_empty() && other.iter().all(|key| !directory.contains(key)), "{other:?}");
    }
}
