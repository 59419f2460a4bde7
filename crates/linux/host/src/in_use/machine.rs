//! The kernel's reports about devices, as far as a search for users needs them.

use super::finding::Usage;
use super::loops::{self, Loop, Under};
use super::owner::{Owner, owner_of};
use crate::backings::devices_on;
use crate::disks::Roots;
use crate::identity::Identity;
use crate::mounts::{Mount, mounts, points_of, unescape};
use crate::other_names::{OtherName, other_names};
use crate::sysfs::{self, directory, number};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of the unit of sizes in /sys.
const SECTOR: u64 = 512;

/// Devices and their users. A trait, so that tests can describe devices that the machine lacks.
pub(super) trait Machine {
    /// Returns all loop devices.
    fn loops(&self) -> &[Loop];
    /// Returns the file or device below a loop device, which is below the device to be opened.
    fn backing_identity(&self, found: &Loop) -> Under;
    /// Returns the members of a mapped device or an array.
    fn members(&self, device: u64) -> Vec<u64>;
    /// Returns the disk of a partition, the partition's first byte on it, and its length in bytes.
    fn disk_of(&self, device: u64) -> Option<(u64, u64, u64)>;
    /// Returns the partitions of a disk.
    fn partitions(&self, device: u64) -> Vec<u64>;
    /// Returns the other names of the drive that is this whole device.
    fn other_names(&self, device: u64) -> Vec<OtherName>;
    /// Returns the name of a device in /dev.
    fn node(&self, device: u64) -> PathBuf;
    /// Returns the kernel's own use of a device.
    fn usage(&self, device: u64) -> Option<Usage>;
    /// Whether a device is open exclusively.
    fn is_claimed(&self, device: u64) -> bool;
    /// Whether a file is swap space.
    fn is_swap(&self, file: Identity) -> bool;
    /// Returns the owner of a lock on a file that excludes reading or, with `writes`, writing.
    fn owner(&self, file: Identity, path: &Path, writes: bool) -> Owner;
    /// Returns the devices of Overdrive on top of a file or device; without `writes`, only those
    /// that may change it.
    fn devices_on(&self, backing: Identity, writes: bool) -> Vec<String>;
}

/// This machine in its current state.
pub(super) struct Live {
    mounts: Vec<Mount>,
    loops: Vec<Loop>,
}

impl Live {
    /// Reads all loop devices. `answering` is a file system that answers: the caller has just
    /// accessed a file there.
    pub(super) fn new(answering: Option<u64>) -> Live {
        let mounts = mounts();
        let loops = loops::all(&mounts, answering);
        Live { mounts, loops }
    }
}

/// Whether a line of /proc/swaps is for this file or device.
fn is_swap(file: Identity) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps.lines().skip(1).any(|line| {
        let path = line.split_ascii_whitespace().next().unwrap_or_default();
        let path = OsString::from_vec(unescape(path.as_bytes()));
        rustix::fs::stat(path).is_ok_and(|found| Identity::of(&found) == file)
    })
}

/// Returns the names of the devices on top of this one (device mapper, RAID, ...).
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

impl Machine for Live {
    fn loops(&self) -> &[Loop] {
        &self.loops
    }

    fn backing_identity(&self, found: &Loop) -> Under {
        found.examine_now()
    }

    fn members(&self, device: u64) -> Vec<u64> {
        sysfs::members(device)
    }

    fn disk_of(&self, device: u64) -> Option<(u64, u64, u64)> {
        let disk = sysfs::disk_of(device)?;
        let [first, count] = ["start", "size"].map(|name| sysfs::count(device, name));
        Some((disk, first?.saturating_mul(SECTOR), count?.saturating_mul(SECTOR)))
    }

    fn partitions(&self, device: u64) -> Vec<u64> {
        sysfs::partitions(device)
    }

    fn other_names(&self, device: u64) -> Vec<OtherName> {
        other_names(&Roots::default(), device)
    }

    fn node(&self, device: u64) -> PathBuf {
        sysfs::node(device).unwrap_or_else(|| PathBuf::from(number(device)))
    }

    fn usage(&self, device: u64) -> Option<Usage> {
        let node = fs::canonicalize(self.node(device)).ok();
        let places = points_of(&self.mounts, device, node.as_deref());
        if let Some(place) = places.into_iter().next() {
            return Some(Usage::Mounted(place));
        }
        if let Some(names) = holders(device) {
            return Some(Usage::Held(names));
        }
        is_swap(Identity::Device { number: device }).then_some(Usage::Swap)
    }

    fn is_claimed(&self, device: u64) -> bool {
        let node = self.node(device);
        let is_it = fs::metadata(&node).is_ok_and(|found| found.rdev() == device);
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
        is_it && rustix::fs::open(&node, flags, Mode::empty()).err() == Some(Errno::BUSY)
    }

    fn is_swap(&self, file: Identity) -> bool {
        is_swap(file)
    }

    fn owner(&self, file: Identity, path: &Path, writes: bool) -> Owner {
        owner_of(file, path, writes, &self.mounts)
    }

    fn devices_on(&self, backing: Identity, writes: bool) -> Vec<String> {
        devices_on(backing, writes)
    }
}
