//! The processes that have a file locked or open, by the file's identity, as its name may be gone.

use super::openers::{name_of, processes};
use crate::identity::Identity;
use crate::locks::{Locked, conflicts};
use crate::mounts::{Mount, is_on_other_server};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Maximum number of processes in a sentence.
const NAMED_MAX: usize = 3;

/// Whether another program uses a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// No program has image locks.
    None,
    /// A program has image locks, in these processes if they are known.
    Locked(Vec<String>),
    /// The file cannot be examined.
    Unknown,
}

/// Opens a file by a name, if that is the file with this identity.
fn open(name: &Path, file: Identity) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let is_it = |found: &rustix::fs::Stat| Identity::of(found) == file;
    rustix::fs::stat(name).ok().filter(is_it)?;
    let opened = rustix::fs::open(name, flags, Mode::empty()).ok()?;
    rustix::fs::fstat(&opened).ok().filter(is_it)?;
    Some(opened)
}

/// Returns the inode number of a descriptor (Linux 5.14 and later).
fn inode_of(information: &Path) -> Option<u64> {
    let text = fs::read_to_string(information).ok()?;
    text.lines().find_map(|line| line.strip_prefix("ino:"))?.trim().parse().ok()
}

/// Links in /proc of the processes that have a file open.
struct Links {
    found: Vec<(u32, PathBuf)>,
    /// Whether the descriptors of some process are not readable.
    is_partial: bool,
}

/// Finds a file among the open descriptors. `path` is its name as the kernel prints it. Does not
/// follow links into FUSE file systems, whose servers may not answer.
fn links_to(file: Identity, path: &Path, mounts: &[Mount]) -> Links {
    let Identity::File { system, number } = file else {
        return Links { found: Vec::new(), is_partial: true };
    };
    let mut links = Links { found: Vec::new(), is_partial: false };
    for process in processes() {
        let own = Path::new("/proc").join(process.to_string());
        let entries = match fs::read_dir(own.join("fd")) {
            Ok(entries) => entries,
            Err(error) => {
                // A process that has ended has no open files.
                links.is_partial |= error.kind() == io::ErrorKind::PermissionDenied;
                continue;
            }
        };
        let found = entries.flatten().map(|entry| entry.path()).find(|link| {
            let Ok(name) = fs::read_link(link) else { return false };
            let information = own.join("fdinfo").join(link.file_name().unwrap_or_default());
            let may_be = match inode_of(&information) {
                Some(inode) => inode == number,
                None => name == path,
            };
            let is_it = |found: rustix::fs::Stat| Identity::of(&found) == file;
            may_be
                && name.is_absolute()
                && !is_on_other_server(mounts, &name, Some(system))
                && rustix::fs::stat(link).is_ok_and(is_it)
        });
        links.found.extend(found.map(|link| (process, link)));
    }
    links
}

/// Returns the program whose use of this file excludes reading or, with `writes`, writing.
pub(super) fn owner_of(file: Identity, path: &Path, writes: bool, mounts: &[Mount]) -> Owner {
    let locked = |opened: &OwnedFd| conflicts(opened, writes) == Locked::Busy;
    let named = open(path, file);
    if named.as_ref().is_some_and(|opened| !locked(opened)) {
        return Owner::None;
    }
    let links = links_to(file, path, mounts);
    let opened = named.or_else(|| links.found.iter().find_map(|(_, link)| open(link, file)));
    match opened {
        Some(opened) if locked(&opened) => {
            let names = links.found.iter().take(NAMED_MAX).map(|(process, _)| name_of(*process));
            Owner::Locked(names.collect())
        }
        Some(_) => Owner::None,
        None if links.is_partial || !links.found.is_empty() => Owner::Unknown,
        None => Owner::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::lock;

    #[test]
    fn an_owner_is_found_by_identity_when_the_name_is_gone() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("room");
        let path = place.path().canonicalize().expect("it is there").join("image");
        let file = fs::File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("room");
        let identity = Identity::of(&rustix::fs::fstat(&file).expect("open"));
        let owner = || owner_of(identity, &path, true, &[]);
        assert_eq!(owner(), Owner::None);
        assert_eq!(lock(&file, true), Locked::Yes);
        let ours = format!("process {}", std::process::id());
        let is_ours = |owner: Owner| match owner {
            Owner::Locked(names) => names.iter().any(|name| name.starts_with(&ours)),
            _ => false,
        };
        assert!(is_ours(owner()));
        fs::remove_file(&path).expect("it is there");
        assert!(is_ours(owner()), "without a name");
        fs::write(&path, "another file").expect("room");
        assert!(is_ours(owner()), "another file has the name");
        drop(file);
        // A program that another test starts holds copies of all descriptors until it executes.
        let is_free = (0..1000).any(|_| {
            std::thread::yield_now();
            owner() == Owner::None
        });
        assert!(is_free, "nothing has it open");
    }
}
