//! Programs that have a block device open, and mounts in other namespaces.
//!
//! The exclusive open decides. This module finds the reason for its failure, and users that it does
//! not detect: programs that have the device open without claiming it.

use super::find_above;
use super::finding::{Finding, Relation, Usage};
use crate::disks::Roots;
use crate::mounts::{Mount, mounts, mounts_in, points_of};
use crate::other_names::{OtherName, other_names};
use crate::sysfs;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device or a partition of it.
struct Part {
    device: u64,
    node: PathBuf,
}

impl Part {
    fn of(device: u64) -> Option<Part> {
        Some(Part { device, node: sysfs::node(device)? })
    }
}

/// Returns the device itself and its partitions.
fn parts_of(device: u64, node: &Path) -> Vec<Part> {
    let mut parts = vec![Part { device, node: node.to_owned() }];
    parts.extend(sysfs::partitions(device).into_iter().filter_map(Part::of));
    parts
}

/// Returns the mount points of the parts in a process's list of mounts.
fn places_in(mounts: &[Mount], parts: &[Part]) -> Vec<String> {
    let places = |part: &Part| points_of(mounts, part.device, Some(&part.node));
    parts.iter().flat_map(places).collect()
}

/// Returns the number of a device by its node. None: there is no such device.
pub fn device_number(node: &Path) -> Option<u64> {
    let found = fs::metadata(node).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// Returns the mount points of a device and its partitions, in the mount namespace of this process.
/// `node` is its name in /dev.
pub fn mount_points(device: u64, node: &Path) -> Vec<String> {
    places_in(&mounts(), &parts_of(device, node))
}

pub(super) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub(super) fn name_of(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("process {process} ({})", name.trim())
}

/// Returns mounts in other namespaces, one per part.
fn mounted_elsewhere(parts: &[Part]) -> Vec<Usage> {
    let mut seen = BTreeSet::from_iter(fs::read_link("/proc/self/ns/mnt").ok());
    let mut users = Vec::new();
    for process in processes() {
        let Ok(space) = fs::read_link(format!("/proc/{process}/ns/mnt")) else { continue };
        if !seen.insert(space) {
            continue;
        }
        let mounts = mounts_in(Path::new(&format!("/proc/{process}")));
        if let Some(place) = places_in(&mounts, parts).first() {
            let process = name_of(process);
            users.push(Usage::Mounted(format!("{place} in the mount namespace of {process}")));
        }
    }
    users
}

/// Returns the programs, except one, that have one of these open, by any name below /dev, or by the
/// given name.
/// Does not follow links to other paths, which might not answer.
fn open_in(parts: &[Part], except: u32) -> Vec<u32> {
    let is_part = |link: PathBuf| {
        let Ok(name) = fs::read_link(&link) else { return false };
        let device = name.starts_with("/dev/").then(|| device_number(&link)).flatten();
        parts.iter().any(|part| part.node == name || Some(part.device) == device)
    };
    let has = |process: &u32| {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).ok().into_iter().flatten();
        entries.flatten().any(|entry| is_part(entry.path()))
    };
    processes().filter(|process| *process != except).filter(has).collect()
}

/// Finds the users of a block device, of its partitions, and of its disk if it is a partition; for
/// a drive with other names, also the programs that have these open. Empty: this process can see no
/// users. `node` is its name in /dev.
pub fn device_users(device: u64, node: &Path) -> Vec<Finding> {
    device_users_except(device, node, std::process::id())
}

/// Finds the programs, except one, that have a whole device open by another name of its drive.
fn openers_beside(device: u64, except: u32) -> Vec<Finding> {
    let mut users = Vec::new();
    for OtherName { device: other, id } in other_names(&Roots::default(), device) {
        let Some(Part { node, .. }) = Part::of(other) else { continue };
        let parts = parts_of(other, &node);
        let relation = Relation::SameDrive { path: node, id };
        let elsewhere = mounted_elsewhere(&parts).into_iter();
        let open = open_in(&parts, except).into_iter();
        let usages = elsewhere.chain(open.map(|process| Usage::Open(name_of(process))));
        users.extend(usages.map(|usage| Finding::of(relation.clone(), usage)));
    }
    users
}

/// Finds users as [`device_users`] does, but leaves this process out instead of the calling one.
pub fn device_users_except(device: u64, node: &Path, except: u32) -> Vec<Finding> {
    let parts = parts_of(device, node);
    let mut users = find_above(device);
    let own = |usage| Finding::of(Relation::Itself, usage);
    users.extend(mounted_elsewhere(&parts).into_iter().map(own));
    // A mount does not appear as an open file, so nothing is reported twice.
    let open = |process: u32| Usage::Open(name_of(process));
    users.extend(open_in(&parts, except).into_iter().map(|process| own(open(process))));
    if let Some(disk) = sysfs::disk_of(device).and_then(Part::of) {
        let processes = open_in(std::slice::from_ref(&disk), except);
        let part = |process| Finding::of(Relation::Disk(disk.node.clone()), open(process));
        users.extend(processes.into_iter().map(part));
    }
    users.extend(openers_beside(device, except));
    users
}
