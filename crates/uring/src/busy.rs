//! What uses a device or a file: what the kernel tells in /proc and /sys, for a refusal with a name.
//!
//! What decides is the exclusive open (devices) and the lock (files); this only says why, and finds
//! what those two cannot: a file behind a loop device, an active swap file.

use crate::loop_device::LoopDevice;
use crate::sysfs::{directory, number, number_in};
use std::fs;
use std::os::unix::fs::MetadataExt;
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

/// All places where the device is mounted, by its number or, for file systems with numbers of their own
/// (btrfs), by the source they name.
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

fn swapped(device: Option<u64>, file: Option<(u64, u64)>) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps.lines().skip(1).any(|line| {
        let path = unescape(line.split_ascii_whitespace().next().unwrap_or_default());
        fs::metadata(path).is_ok_and(|found| {
            file == Some((found.dev(), found.ino())) || device == Some(found.rdev())
        })
    })
}

/// The devices that stand on this one (device mapper, RAID, ...), by name.
fn holders(device: u64) -> Option<String> {
    let entries = fs::read_dir(directory(device).join("holders")).ok()?;
    let names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .map(|name| {
            let mapped = fs::read_to_string(format!("/sys/block/{name}/dm/name"));
            match mapped {
                Ok(mapped) => format!("{name} ({})", mapped.trim()),
                Err(_) => name,
            }
        })
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn one_device_user(device: u64, path: Option<&Path>) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(place) = mounted(&mounts, &number(device), path).first() {
        return Some(format!("is mounted at {place}"));
    }
    if let Some(names) = holders(device) {
        return Some(format!("is used by {names}"));
    }
    swapped(Some(device), None).then(|| "is used as swap".to_owned())
}

/// What uses a block device or one of its partitions, as words that follow its name.
pub(crate) fn device_user(device: u64, path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok();
    if let Some(user) = one_device_user(device, path.as_deref()) {
        return Some(user);
    }
    let entries = fs::read_dir(directory(device)).ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        let part = entry.path();
        fs::metadata(part.join("partition")).ok()?;
        let text = fs::read_to_string(part.join("dev")).ok()?;
        let partition = number_in(&text)?;
        let name = entry.file_name().into_string().ok()?;
        let node = Path::new("/dev").join(&name);
        let user = one_device_user(partition, Some(&node))?;
        Some(format!("has the partition {name}, which {user}"))
    })
}

/// Whether a path lies in a FUSE file system that is not the one of this number. To look there asks its server, which may
/// be a daemon that was killed, whose place we are about to take: it would be waited for without end.
fn is_on_other_server(mounts: &str, path: &Path, device: u64) -> bool {
    let around = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let place = unescape(mount.split(' ').nth(4)?);
        path.starts_with(&place).then_some((place.len(), mount, system))
    });
    let Some((_, mount, system)) = around.max_by_key(|(length, ..)| *length) else { return false };
    let number = mount.split(' ').nth(2).and_then(number_in);
    system.starts_with("fuse") && number != Some(device)
}

/// What uses a regular file as a whole, as words that follow its name.
pub(crate) fn file_user(file: (u64, u64)) -> Option<String> {
    if swapped(None, Some(file)) {
        return Some("is used as swap".to_owned());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let entries = fs::read_dir("/sys/block").ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let backing = backing.trim_end_matches('\n');
        if is_on_other_server(&mounts, Path::new(backing), file.0) {
            return None;
        }
        let name = entry.file_name().into_string().ok()?;
        (attached_file(&name, backing)? == file).then(|| format!("is attached to /dev/{name}"))
    })
}

/// The file behind the loop device of this name, by device and inode. `backing` is the file's path as the kernel
/// tells it. That name may be gone while another leads to the same file: then the kernel is asked for its inode.
fn attached_file(name: &str, backing: &str) -> Option<(u64, u64)> {
    match fs::metadata(backing) {
        Ok(found) => Some((found.dev(), found.ino())),
        Err(_) if backing.ends_with(" (deleted)") => LoopDevice::named(name)?.file().ok(),
        Err(_) => None,
    }
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
        let is_other = |path: &str, device| is_on_other_server(mounts, Path::new(path), device);
        assert!(is_other("/run/files/disk", rustix::fs::makedev(8, 1)));
        assert!(!is_other("/run/files/disk", ours), "an image there is looked for there");
        assert!(!is_other("/run/disk.img", ours) && !is_other("/run/filesystem", ours));
    }

    #[test]
    fn escapes_of_proc_are_undone_and_others_left() {
        assert_eq!(unescape("a\\040b\\134c\\9\\04"), "a b\\c\\9\\04");
    }
}
