//! What the kernel tells of a device in /sys.

use std::fs;
use std::path::{Path, PathBuf};

/// A device number as the kernel writes it.
pub(crate) fn number(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// A device's number as its file in /sys says it: `MAJOR:MINOR`.
pub(crate) fn number_in(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The directory of a device in /sys.
pub(crate) fn directory(device: u64) -> PathBuf {
    Path::new("/sys/dev/block").join(number(device))
}

/// A file below the device's directory in /sys, trimmed; for a partition also its whole device's.
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
