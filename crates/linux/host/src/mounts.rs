//! The list of mounts in /proc: what is mounted where.

use crate::sysfs::number_in;
use std::fs;
use std::path::Path;

/// Undoes the octal escapes of /proc (`\040` for a blank).
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// All places where the device is mounted, by its number or, for file systems with numbers of their
/// own (btrfs), by the source they name.
pub(crate) fn mounted(mounts: &str, wanted: &str, path: Option<&Path>) -> Vec<String> {
    let places = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let device = fields.next()?;
        let place = fields.nth(1)?;
        let source = unescape(system.split(' ').nth(1)?);
        let same_path = || {
            source.starts_with("/dev/")
                && path.is_some_and(|path| fs::canonicalize(&source).is_ok_and(|s| s == path))
        };
        (device == wanted || same_path()).then(|| unescape(place))
    });
    places.collect()
}

/// Whether a path lies in a FUSE file system other than that of this number. A request to such a
/// file system waits for its server, which may be a killed daemon whose device is about to be taken
/// over.
pub(crate) fn is_on_other_server(mounts: &str, path: &Path, device: Option<u64>) -> bool {
    let around = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let place = unescape(mount.split(' ').nth(4)?);
        path.starts_with(&place).then_some((place.len(), mount, system))
    });
    let Some((_, mount, system)) = around.max_by_key(|(length, ..)| *length) else { return false };
    let number = mount.split(' ').nth(2).and_then(number_in);
    system.starts_with("fuse") && (number.is_none() || number != device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number_and_by_source() {
        let mounts = "\
36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 35 0:44 / /data rw shared:2 - btrfs /dev/null rw
malformed";
        assert_eq!(mounted(mounts, "98:0", None), ["/mnt 2"]);
        let null = Path::new("/dev/null");
        assert_eq!(mounted(mounts, "1:3", Some(null)), ["/data"]);
        assert_eq!(mounted(mounts, "98:1", None), [""; 0]);
    }

    #[test]
    fn no_other_server_is_asked_about_a_file() {
        let mounts = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
36 22 0:31 / /run/files rw - fuse.overdrive overdrive rw
malformed";
        let ours = rustix::fs::makedev(0, 31);
        let is_other =
            |path: &str, device| is_on_other_server(mounts, Path::new(path), Some(device));
        assert!(is_other("/run/files/disk", rustix::fs::makedev(8, 1)));
        assert!(!is_other("/run/files/disk", ours), "an image there is looked for there");
        assert!(!is_other("/run/disk.img", ours) && !is_other("/run/filesystem", ours));
    }

    #[test]
    fn escapes_of_proc_are_undone_and_others_left() {
        assert_eq!(unescape("a\\040b\\134c\\9\\04"), "a b\\c\\9\\04");
    }
}
