//! The guest's tree: that of the host, except for the kernel's own file systems and for directories
//! that are empty.

use super::wire::{Request, WRITTEN};
use anyhow::Context;
use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};
use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The mounts of every system: type, mount point and options, in the order of mounting.
const SYSTEM: [(&str, &str, &str); 8] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("hugetlbfs", "/dev/hugepages", ""),
    ("cgroup2", "/sys/fs/cgroup", ""),
    ("debugfs", "/sys/kernel/debug", ""),
];

/// Directories that are initially empty, as after a boot, and in memory.
const EMPTY: [(&str, &str); 3] =
    [("/run", "mode=755"), ("/tmp", "mode=1777"), ("/var/tmp", "mode=1777")];

/// Links that udev creates on other systems.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts the file systems of every system.
///
/// # Errors
/// A file system cannot be mounted.
pub(super) fn system() -> anyhow::Result<()> {
    for (kind, place, options) in SYSTEM {
        put(kind, kind, Path::new(place), options)?;
    }
    for (target, link) in LINKS {
        symlink(target, link).with_context(|| format!("cannot make the link {link}"))?;
    }
    Ok(())
}

/// Mounts the file systems of this request.
///
/// # Errors
/// A file system cannot be mounted.
pub(super) fn of(request: &Request) -> anyhow::Result<()> {
    let kept = request.kept.iter().filter(|place| is_hidden(place));
    let kept: Vec<(&PathBuf, OwnedFd)> =
        kept.map(|place| Ok((place, take(place)?))).collect::<anyhow::Result<_>>()?;
    for (place, options) in EMPTY {
        put("tmpfs", "tmpfs", Path::new(place), options)?;
    }
    for (place, tree) in kept {
        make(place)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        let moved = move_mount(&tree, "", CWD, place.as_path(), flags);
        moved.with_context(|| format!("{} cannot be kept", place.display()))?;
    }
    if let Some(place) = &request.write_to {
        // Written data is on the host immediately.
        put("9p", WRITTEN, place, "trans=virtio,version=9p2000.L,msize=512000,cache=none")?;
    }
    let release = request.module_place.file_name().context("a directory of modules has a name")?;
    let link = Path::new("/lib/modules").join(release);
    if !link.exists() {
        make(Path::new("/lib/modules"))?;
        symlink(&request.module_place, &link)
            .with_context(|| format!("cannot make the link {}", link.display()))?;
    }
    Ok(())
}

/// Whether one of the empty directories would hide this path.
fn is_hidden(place: &Path) -> bool {
    EMPTY.iter().any(|(hidden, _)| place.starts_with(hidden))
}

/// Detaches a copy of the file tree there, to mount it elsewhere.
fn take(place: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, place, flags).with_context(|| format!("cannot take {}", place.display()))
}

fn make(place: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))
}

fn put(kind: &str, source: &str, place: &Path, options: &str) -> anyhow::Result<()> {
    // Some of them are directories of a file system above, in which none can be created.
    if !place.is_dir() {
        make(place)?;
    }
    let options = CString::new(options)?;
    let mounted = mount(source, place, kind, MountFlags::empty(), options.as_c_str());
    mounted.with_context(|| format!("cannot mount {kind} at {}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_an_empty_directory_is_hidden() {
        for (place, hidden) in
            [("/tmp/a", true), ("/var/tmp", true), ("/tmpfs/a", false), ("/work", false)]
        {
            assert_eq!(is_hidden(Path::new(place)), hidden, "{place}");
        }
    }
}
