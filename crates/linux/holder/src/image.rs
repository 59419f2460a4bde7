//! Properties of a retained backing that can be determined without a request to its file system,
//! which may depend on a server that does not answer. The holder must always answer.

use crate::wire::PATH_BYTES;
use rustix::fs::{AtFlags, StatxFlags};
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// File systems that answer from memory if no fresh attributes are requested (AT_STATX_DONT_SYNC).
/// Others (9p, the cluster file systems, SMB after a change) may ask their server anyway. Source:
/// `getattr` in fs/ of Linux 6.18.
const ANSWER_FROM_MEMORY: [&str; 18] = [
    "bcachefs", "btrfs", "ceph", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuse", "fuseblk", "nfs",
    "nfs4", "overlay", "ramfs", "tmpfs", "vfat", "virtiofs", "xfs",
];

/// Local file systems on which each write, and only that, changes a file's ctime with at least the
/// precision of the kernel's clock ticks.
const LOCAL: [&str; 8] = ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs"];

/// Whether it is an image file on a local file system.
pub(crate) fn is_local_file(backing: impl AsFd, key: &str) -> bool {
    let kind = || kind_of_mount(backing.as_fd().as_raw_fd());
    key.starts_with("file-") && kind().is_some_and(|kind| LOCAL.contains(&kind.as_str()))
}

/// Whether the image has no name any more, so that it could never be served again. False also if
/// finding out could require waiting, and for a device, whose node may be created again.
pub(crate) fn is_deleted(backing: impl AsFd, key: &str) -> bool {
    let number = backing.as_fd().as_raw_fd();
    let kind = kind_of_mount(number);
    let answers = kind.is_some_and(|kind| {
        // A FUSE file system may append a subtype after a dot.
        ANSWER_FROM_MEMORY.contains(&kind.split('.').next().unwrap_or(&kind))
    });
    if !key.starts_with("file-") || !answers {
        return false;
    }
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(&backing, "", flags, StatxFlags::NLINK);
    found.is_ok_and(|found| {
        StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::NLINK)
            && found.stx_nlink == 0
    })
}

/// Returns the present path of the backing, as the kernel stores it.
pub(crate) fn path(backing: impl AsFd) -> Option<String> {
    let number = backing.as_fd().as_raw_fd();
    let link = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    let path = link.into_os_string().into_string().ok()?;
    let is_there = Path::new(&path).is_absolute() && !path.ends_with(" (deleted)");
    (is_there && path.len() <= PATH_BYTES).then_some(path)
}

/// Returns the type of the file system that an open file is on, from the kernel's list of mounts.
fn kind_of_mount(number: i32) -> Option<String> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mount: u64 = mount.parse().ok()?;
    host::mounts().into_iter().find(|it| it.id == mount).map(|it| it.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_deleted_when_its_last_name_is() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let (path, other) = (directory.path().join("image"), directory.path().join("other"));
        let file = fs::File::create(&path)?;
        assert!(!is_deleted(&file, "file-1-2"));
        assert_eq!(super::path(&file).as_deref(), path.to_str());
        fs::rename(&path, &other)?;
        assert_eq!(super::path(&file).as_deref(), other.to_str());
        fs::hard_link(&other, &path)?;
        fs::remove_file(&other)?;
        assert!(!is_deleted(&file, "file-1-2"), "it has another name");
        fs::remove_file(&path)?;
        assert!(is_deleted(&file, "file-1-2"));
        assert!(!is_deleted(&file, "device-1-2"), "that of a device is made anew");
        assert_eq!(super::path(&file), None);
        Ok(())
    }
}
