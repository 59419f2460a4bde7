//! A whole device that is not in use and that nothing depends on: the only kind that may be erased.
//!
//! Refused are: files; partitions; devices that are mounted, in any name space, also by one of
//! their partitions; members of arrays, volume groups and pools, also inactive ones, and devices
//! with partitions that are; swap space; devices below a mapping; devices that another program has
//! open, or that are the backing of a volume, also while no daemon serves it. This includes uses of
//! the drive by other names, which it has if there are several paths to it. The device stays open
//! exclusively under all names as long as the claim lives, so that no program can begin to use it.

use crate::claim::{Claimed, Intent, claim};
use crate::claimed::ClaimedDevice;
use crate::clock::Patience;
use crate::disks::Roots;
use crate::file::{FileVolume, OpenOptions};
use crate::in_use::{Finding, Relation, Usage, device_number, device_users};
use crate::open_error::{OpenError, OpenErrorKind as Kind};
use crate::other_names::{OtherName, other_names};
use crate::partition_scan::scan_partitions;
use crate::refusal::{failed, in_use, system_error};
use crate::signatures::{Found, Kind as Contents};
use crate::sysfs;
use rustix::fs::{FileType, FlockOperation, flock};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Alignment of memory for direct reads.
const ALIGNMENT: usize = 4096;

/// Time for udev, and for programs that only inspect a partition, to end that, in milliseconds.
const INSPECTION_MS: u64 = 5_000;

/// A whole device that is not in use, open exclusively.
#[derive(Clone, Debug)]
pub struct Erasable {
    volume: Arc<FileVolume>,
    device: u64,
    contents: Vec<String>,
    /// The other names of the drive, open exclusively as well.
    _others: Arc<[ClaimedDevice]>,
}

impl Erasable {
    /// Claims a device to erase it.
    ///
    /// # Errors
    /// [`OpenError`]: a sentence with the reason. Nothing has changed.
    pub fn claim(path: &Path) -> Result<Erasable, OpenError> {
        let name = path.display();
        let found = rustix::fs::stat(path).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => {
                let message = format!("{name}: no such device; see 'overdrive drive list'");
                failed(Kind::NotFound, message)
            }
            error => system_error(path, "examine it", error),
        })?;
        if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice {
            let message = format!("{name}: is no block device; name one of 'overdrive drive list'");
            return Err(failed(Kind::Unsupported, message));
        }
        if let Some(disk) = sysfs::disk_of(found.st_rdev) {
            let disk = sysfs::node(disk).unwrap_or_default();
            let message = format!("{name}: is a partition; name its disk, {}", disk.display());
            return Err(failed(Kind::Unsupported, message));
        }
        let mut contents = Vec::new();
        // Before the disk is claimed, which would keep its partitions from being opened.
        for partition in sysfs::partitions(found.st_rdev) {
            let node = sysfs::node(partition).unwrap_or_default();
            contents.extend(contents_of_partition(path, partition, &node)?);
        }
        let intent = Intent::Overwrite { is_agreed: true };
        let Claimed { volume, .. } = claim(path, OpenOptions::default(), intent, 0)?;
        check_same(path, found.st_rdev, volume.file())?;
        for found in volume.signatures(|_| true)? {
            contents.push(examined(path, &found)?);
        }
        let others = claim_other_names(path, found.st_rdev)?;
        Ok(Erasable { volume, device: found.st_rdev, contents, _others: others.into() })
    }

    /// Keeps udev, and other programs that honour its lock, from reading the device until the claim
    /// ends: the partition table is about to change. Programs that start sfdisk must disable its
    /// own lock.
    ///
    /// # Errors
    /// `Busy`: another program has the lock. Otherwise the system's errors.
    pub fn lock_out_udev(&self) -> Result<(), OpenError> {
        let patience = Patience::new(INSPECTION_MS);
        loop {
            match flock(self.file(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) if patience.pause() => {}
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(in_use(self.volume.path(), "is locked by another program (flock)"));
                }
                Err(error) => return Err(system_error(self.volume.path(), "lock it", error)),
            }
        }
    }

    /// Has the kernel read the partition table again, which another program has changed, and waits
    /// for programs that inspect a partition.
    ///
    /// # Errors
    /// Those of the system; `ResourceBusy`: a program still has a partition open.
    pub fn scan_partitions(&self) -> std::io::Result<()> {
        rustix::fs::fsync(self.file())?;
        let patience = Patience::new(INSPECTION_MS);
        loop {
            match scan_partitions(self.file()) {
                Err(Errno::BUSY) if patience.pause() => {}
                scanned => return Ok(scanned?),
            }
        }
    }

    /// Returns the open device.
    pub fn file(&self) -> &OwnedFd {
        self.volume.file()
    }

    /// Returns its node in /dev, as the kernel names it. A link by which it was named may lead to
    /// another device by now. None: there is no such node, or it is another device's.
    pub fn node(&self) -> Option<PathBuf> {
        sysfs::node(self.device).filter(|node| device_number(node) == Some(self.device))
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.volume.limits().bytes()
    }

    /// Reads bytes without the page cache. The position and the length are multiples of 4096,
    /// except at the end of the device.
    ///
    /// # Errors
    /// Those of the system, also if the device ends before.
    pub fn read(&self, first_byte: u64, bytes: usize) -> std::io::Result<Vec<u8>> {
        let mut room = vec![0u8; bytes + ALIGNMENT];
        let skip = room.as_ptr().align_offset(ALIGNMENT);
        let place = &mut room[skip..skip + bytes];
        match rustix::io::pread(self.file(), &mut *place, first_byte)? {
            got if got == bytes => Ok(place.to_vec()),
            _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Returns the contents that were found and would be lost, in words that follow "has".
    pub fn contents(&self) -> &[String] {
        &self.contents
    }
}

/// Opens the other names of a drive exclusively.
///
/// # Errors
/// Busy: another program has claimed one of them.
fn claim_other_names(path: &Path, device: u64) -> Result<Vec<ClaimedDevice>, OpenError> {
    let mut claimed = Vec::new();
    for OtherName { device, id } in other_names(&Roots::default(), device) {
        let node = sysfs::node(device).filter(|node| device_number(node) == Some(device));
        let Some(node) = node else { continue };
        match ClaimedDevice::claim(&node) {
            Ok(device) => claimed.push(device),
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                let relation = Relation::SameDrive { path: node, id };
                let user = Finding { relation, usage: Usage::Claimed };
                return Err(in_use(path, &user.to_string()));
            }
            // A path that is interrupted cannot be opened by other programs either.
            Err(_) => {}
        }
    }
    Ok(claimed)
}

/// Refuses a path that leads to another device than at the examination: it may be a link, which was
/// changed in between. Its partitions were not examined, and the user would confirm another drive.
fn check_same(path: &Path, examined: u64, opened: impl AsFd) -> Result<(), OpenError> {
    let found =
        rustix::fs::fstat(opened).map_err(|error| system_error(path, "examine it", error))?;
    if found.st_rdev == examined {
        return Ok(());
    }
    let message = format!("{0}: led to another device a moment ago; try it again", path.display());
    Err(failed(Kind::Busy, message))
}

/// Returns the contents of a partition in words, or refuses them.
fn contents_of_partition(disk: &Path, device: u64, node: &Path) -> Result<Vec<String>, OpenError> {
    if let Some(user) = device_users(device, node).first() {
        return Err(in_use(disk, &format!("has the partition {}, which {user}", node.display())));
    }
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let volume = match FileVolume::open(node, options) {
        // Partitions of a few sectors, as extended ones have, hold nothing.
        Err(error) if error.kind == Kind::Unsupported => return Ok(Vec::new()),
        opened => opened?,
    };
    let found = volume.signatures(|_| true)?;
    found.iter().map(|found| examined(node, found)).collect()
}

/// Returns contents in words, or refuses those that another device or the system depends on.
fn examined(path: &Path, found: &Found) -> Result<String, OpenError> {
    let (name, words) = (path.display(), found.signature.words);
    match found.signature.kind {
        Contents::Member | Contents::Swap | Contents::Cluster => Err(failed(
            Kind::Unsupported,
            format!(
                "{name}: has {words} (at byte {}), which another device or host may need; \
                     remove it there first, then its signature, with: wipefs --all {name}",
                found.offset
            ),
        )),
        // A container that is open has a mapping above it, which counts as a user.
        Contents::Table | Contents::FileSystem | Contents::Encrypted | Contents::Image(_) => {
            Ok(format!("{words} ({name})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_path_that_leads_to_another_device_than_before_is_refused() {
        let path = Path::new("/dev/null");
        let number = |path| rustix::fs::stat(path).expect("it is there").st_rdev;
        let opened = File::open(path).expect("it is there");
        assert_eq!(check_same(path, number("/dev/null"), &opened), Ok(()));
        let refused = check_same(path, number("/dev/zero"), &opened).expect_err("another one");
        assert_eq!(refused.kind, Kind::Busy);
        assert!(refused.message.contains("led to another device"), "{}", refused.message);
    }
}
