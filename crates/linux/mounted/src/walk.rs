//! Walks a mounted file system.

use files::classify::{Guess, HEAD_BYTES, Place, by_contents, classify};
use files::{Bounds, Builder, Class, Full, Kind, Map, Owner, SECTOR_BYTES, System};
use host::file_extents;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

const EXT4: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
/// Maximum number of inodes with several names that are remembered.
const LINKED_MAX: usize = 1 << 18;
/// Number of entries that are sorted by inode and opened together.
const BATCH: usize = 1 << 16;

/// Returns the map of the file system that is mounted at `root`, on a device of this number of
/// sectors of 512 bytes, at this time in seconds since 1970.
///
/// # Errors
/// As [`add_mounted`].
pub fn map_mounted(root: &Path, sectors: u64, bounds: &Bounds, seconds: u64) -> io::Result<Map> {
    let mut builder = Builder::new(sectors, bounds.memory_bytes);
    add_mounted(&mut builder, root, 0, sectors, Builder::ROOT, bounds)?;
    Ok(builder.finish(seconds))
}

/// Adds the files of the file system that is mounted at `root` to a map, below its directory
/// `directory`. The file system is on the `sectors` sectors of the volume from `first` on.
///
/// Files that this process may not open have no blocks. Positions of data that was not written to
/// the device yet are not known, so call `syncfs` first. The access times of files do not change;
/// those of directories may, if they are another user's.
///
/// # Errors
/// The system's errors for the root; `Unsupported`: the file system is neither ext4 nor XFS.
///
/// # Panics
/// If the map has no such directory.
pub fn add_mounted(
    builder: &mut Builder,
    root: &Path,
    first: u64,
    sectors: u64,
    directory: u32,
    bounds: &Bounds,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let kind = match rustix::fs::fstatfs(&root)?.f_type as u64 {
        EXT4 => Kind::Ext4,
        XFS => Kind::Xfs,
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    let device = rustix::fs::fstat(&root)?.st_dev;
    let mut walk = Walk {
        builder,
        root,
        device,
        range: (first, sectors),
        pending: vec![Pending {
            path: Vec::new(),
            number: directory,
            depth: 0,
            place: Place::ROOT,
        }],
        linked: BTreeSet::new(),
        left: bounds.clone(),
        unreadable: 0,
    };
    let result = walk.run();
    let unreadable = walk.unreadable;
    let is_incomplete = result.is_err();
    let is_damaged = false;
    let system = System { first, sectors, kind, directory, is_incomplete, is_damaged, unreadable };
    if is_incomplete || builder.system(system).is_err() {
        builder.set_incomplete();
    }
    Ok(())
}

/// A directory that was found and not read yet.
struct Pending {
    /// Its path from the root of the file system.
    path: Vec<u8>,
    number: u32,
    depth: u32,
    place: Place,
}

/// A name in a directory, with its inode.
type Entry = (u64, CString);

struct Walk<'b> {
    builder: &'b mut Builder,
    root: OwnedFd,
    device: u64,
    range: (u64, u64),
    pending: Vec<Pending>,
    linked: BTreeSet<u64>,
    left: Bounds,
    unreadable: u32,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), Full> {
        while let Some(directory) = self.pending.pop() {
            match self.open_directory(&directory.path) {
                Ok(opened) => self.directory(&directory, &opened)?,
                Err(_) => self.unreadable = self.unreadable.saturating_add(1),
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Full> {
        self.left.steps = self.left.steps.checked_sub(1).ok_or(Full)?;
        Ok(())
    }

    /// Opens a directory of this file system, by no symbolic link.
    fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let path: &OsStr = OsStr::from_bytes(if path.is_empty() { b"." } else { path });
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve);
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => Ok(open(flags)?),
            opened => Ok(opened?),
        }
    }

    fn directory(&mut self, directory: &Pending, opened: &OwnedFd) -> Result<(), Full> {
        let owner = Owner::Directory(directory.number);
        // XFS has no such call for directories.
        self.add_extents(opened, Class::Directories, owner)?;
        let Ok(mut list) = Dir::read_from(opened) else {
            self.unreadable = self.unreadable.saturating_add(1);
            return Ok(());
        };
        loop {
            let mut entries: Vec<Entry> = Vec::new();
            for entry in list.by_ref().take(BATCH).flatten() {
                let is_wanted = !matches!(entry.file_name().to_bytes(), b"." | b"..")
                    && matches!(
                        entry.file_type(),
                        FileType::RegularFile | FileType::Directory | FileType::Unknown
                    );
                self.step()?;
                if is_wanted {
                    entries.push((entry.ino(), entry.file_name().to_owned()));
                } else {
                    entries.push((0, CString::default()));
                }
            }
            if entries.is_empty() {
                return Ok(());
            }
            entries.sort_unstable();
            for (_, name) in entries.iter().filter(|(inode, _)| *inode > 0) {
                self.entry(directory, opened, name)?;
            }
        }
    }

    fn entry(&mut self, parent: &Pending, opened: &OwnedFd, name: &CString) -> Result<(), Full> {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW | rustix::fs::AtFlags::NO_AUTOMOUNT;
        // The name may be gone, or the root of another file system.
        let Ok(stat) = rustix::fs::statat(opened, name, flags) else { return Ok(()) };
        if stat.st_dev != self.device {
            return Ok(());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.add_directory(parent, name),
            FileType::RegularFile => self.file(parent, opened, name, &stat),
            _ => Ok(()),
        }
    }

    fn add_directory(&mut self, parent: &Pending, name: &CString) -> Result<(), Full> {
        if parent.depth >= self.left.depth {
            self.builder.set_incomplete();
            return Ok(());
        }
        let name = name.to_bytes();
        let number = self.builder.directory(parent.number, name)?;
        let path =
            if parent.path.is_empty() { name.to_vec() } else { [&parent.path, name].join(&b'/') };
        let place = parent.place.below(name);
        self.pending.push(Pending { path, number, depth: parent.depth + 1, place });
        Ok(())
    }

    fn file(
        &mut self,
        parent: &Pending,
        opened: &OwnedFd,
        name: &CString,
        stat: &Stat,
    ) -> Result<(), Full> {
        let has_names = stat.st_nlink > 1;
        if has_names && !self.linked.contains(&stat.st_ino) && self.linked.len() < LINKED_MAX {
            self.linked.insert(stat.st_ino);
        } else if has_names && self.linked.contains(&stat.st_ino) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |flags| rustix::fs::openat(opened, name, flags, Mode::empty());
        let (file, may_read) = match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => (open(flags), false),
            file => (file, true),
        };
        let name = name.to_bytes();
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let class = match classify(parent.place, name, stat.st_mode & 0o111 != 0, bytes) {
            Guess::Known(class) => class,
            Guess::Contents(class) => match &file {
                Ok(file) if may_read && self.may_peek() => contents(file).unwrap_or(class),
                _ => class,
            },
        };
        let number = self.builder.file(parent.number, name, class, bytes)?;
        match file {
            // Another file may have taken the name since.
            Ok(file) if rustix::fs::fstat(&file).is_ok_and(|now| now.st_ino == stat.st_ino) => {
                self.add_extents(&file, class, Owner::File(number))
            }
            _ => {
                self.unreadable = self.unreadable.saturating_add(1);
                Ok(())
            }
        }
    }

    fn may_peek(&mut self) -> bool {
        let left = self.left.peeks.checked_sub(1);
        self.left.peeks = left.unwrap_or(0);
        left.is_some()
    }

    fn add_extents(&mut self, file: impl AsFd, class: Class, owner: Owner) -> Result<(), Full> {
        let (first, sectors) = self.range;
        let mut result = Ok(());
        let listed = file_extents(file, |extent| {
            let from = (extent.start / SECTOR_BYTES).min(sectors);
            let end = extent.start.saturating_add(extent.length).div_ceil(SECTOR_BYTES);
            let length = end.min(sectors) - from;
            result = match self.left.steps.checked_sub(1) {
                None => Err(Full),
                Some(left) => {
                    self.left.steps = left;
                    self.builder.extent(first + from, length, class, owner)
                }
            };
            result.is_ok()
        });
        if listed.is_err() && class != Class::Directories {
            self.unreadable = self.unreadable.saturating_add(1);
        }
        result
    }
}

/// Returns the class of a file by its first bytes.
fn contents(file: &OwnedFd) -> Option<Class> {
    let mut head = [0; HEAD_BYTES];
    let file = File::from(file.try_clone().ok()?);
    let length = file.read_at(&mut head, 0).ok()?;
    by_contents(&head[..length])
}
