//! Attributes of devices in /sys.

use std::fs;
use std::path::{Path, PathBuf};

/// Formats a device number as the kernel does.
pub(crate) fn number(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// Parses a device number from its file in /sys: `MAJOR:MINOR`.
pub(crate) fn number_in(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the directory of a device in /sys.
pub(crate) fn directory(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(number(device))
}

/// Returns the numbers in the `dev` files of these directories.
fn numbers_of(directories: impl IntoIterator<Item = PathBuf>) -> Vec<u64> {
    let number = |path: PathBuf| number_in(&fs::read_to_string(path.join("dev")).ok()?);
    directories.into_iter().filter_map(number).collect()
}

/// Returns the entries of a directory in /sys; none if it is missing.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the members of a mapped device or an array.
pub(crate) fn members(device: u64) -> Vec<u64> {
    numbers_of(entries(&directory(device).join("slaves")))
}

/// Returns the partitions of a disk.
pub(crate) fn partitions(device: u64) -> Vec<u64> {
    let own = directory(device);
    numbers_of(entries(&own).filter(|path| path.join("partition").exists()))
}

/// Returns the disk of a partition. None: it is not a partition.
pub(crate) fn disk_of(device: u64) -> Option<u64> {
    let own = fs::canonicalize(directory(device)).ok()?;
    fs::metadata(own.join("partition")).ok()?;
    numbers_of(own.parent().map(Path::to_owned)).pop()
}

/// Returns the name of a device in /dev; the node itself may have been removed.
pub(crate) fn node(device: u64) -> Option<PathBuf> {
    let text = fs::read_to_string(directory(device).join("uevent")).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(Path::new("/dev").join(name))
}

/// Returns a number from a file in the device's own directory.
pub(crate) fn count(device: u64, name: &str) -> Option<u64> {
    fs::read_to_string(directory(device).join(name)).ok()?.trim().parse().ok()
}

/// Returns a trimmed file of the device's directory in /sys; for a partition, also from its disk's
/// directory.
pub(crate) fn attribute(device: u64, name: &str) -> Option<String> {
    let own = directory(device);
    let text = fs::read_to_string(own.join(name))
        .or_else(|_| fs::read_to_string(own.join("..").join(name)))
        .ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_is_written() {
        let device = rustix::fs::makedev(259, 3);
        assert_eq!(number(device), "259:3");
        assert_eq!(number_in("259:3\n"), Some(device));
        assert_eq!(number_in("259"), None);
    }
}
