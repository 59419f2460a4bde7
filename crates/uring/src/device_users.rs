//! What uses a block device of this machine, in whatever mount namespace, by name.
//!
//! What decides is the exclusive open; this says why it was refused, and finds what that does not see: programs that have
//! the device open, and swap.

use crate::busy;
use crate::sysfs::{directory, number, number_in};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device or a partition of it.
struct Part {
    device: u64,
    node: PathBuf,
}

/// The device itself, and its partitions.
fn parts_of(device: u64, node: &Path) -> Vec<Part> {
    let mut parts = vec![Part { device, node: node.to_owned() }];
    let entries = fs::read_dir(directory(device)).ok().into_iter().flatten().flatten();
    parts.extend(entries.filter_map(|entry| {
        fs::metadata(entry.path().join("partition")).ok()?;
        let device = number_in(&fs::read_to_string(entry.path().join("dev")).ok()?)?;
        Some(Part { device, node: Path::new("/dev").join(entry.file_name()) })
    }));
    parts
}

/// The whole device, if this is a partition.
fn whole_of(device: u64) -> Option<Part> {
    let own = fs::canonicalize(directory(device)).ok()?;
    fs::metadata(own.join("partition")).ok()?;
    let whole = own.parent()?;
    let device = number_in(&fs::read_to_string(whole.join("dev")).ok()?)?;
    Some(Part { device, node: Path::new("/dev").join(whole.file_name()?) })
}

/// Where parts are mounted by the list of a process.
fn places_in(mounts: &str, parts: &[Part]) -> Vec<String> {
    let places = |part: &Part| busy::mounted(mounts, &number(part.device), Some(&part.node));
    parts.iter().flat_map(places).collect()
}

/// The number of a device by its node. None: there is no such device.
pub fn device_number(node: &Path) -> Option<u64> {
    let found = fs::metadata(node).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// Where a device and its partitions are mounted, in the mount namespace of this process. `node` is its name in /dev.
pub fn mount_points(device: u64, node: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    places_in(&mounts, &parts_of(device, node))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn name_of(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("process {process} ({})", name.trim())
}

/// Mounts in namespaces other than ours, each told once.
fn mounted_elsewhere(parts: &[Part]) -> Vec<String> {
    let mut seen = BTreeSet::from_iter(fs::read_link("/proc/self/ns/mnt").ok());
    let mut users = Vec::new();
    for process in processes() {
        let Ok(space) = fs::read_link(format!("/proc/{process}/ns/mnt")) else { continue };
        if !seen.insert(space) {
            continue;
        }
        let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        if let Some(place) = places_in(&mounts, parts).first() {
            let process = name_of(process);
            users.push(format!("is mounted at {place} in the mount namespace of {process}"));
        }
    }
    users
}

/// Programs that have one of these open, by whatever name below /dev, or by the name given. Links to elsewhere are
/// not followed: what they lead to might not answer.
fn open_in(parts: &[Part]) -> Vec<u32> {
    let is_part = |link: PathBuf| {
        let Ok(name) = fs::read_link(&link) else { return false };
        let device = name.starts_with("/dev/").then(|| device_number(&link)).flatten();
        parts.iter().any(|part| part.node == name || Some(part.device) == device)
    };
    let has = |process: &u32| {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).ok().into_iter().flatten();
        entries.flatten().any(|entry| is_part(entry.path()))
    };
    let own = std::process::id();
    processes().filter(|process| *process != own).filter(has).collect()
}

/// What uses a block device, one of its partitions, or the whole of which it is one, as words that follow its name: "is mounted at /srv". Empty: nothing
/// that this process may see. `node` is its name in /dev.
pub fn device_users(device: u64, node: &Path) -> Vec<String> {
    let parts = parts_of(device, node);
    let mut users: Vec<String> = busy::device_user(device, node).into_iter().collect();
    users.extend(mounted_elsewhere(&parts));
    // A mount's own hold is no open file, so nothing is told twice.
    let told = |process: u32| format!("is open in {}", name_of(process));
    users.extend(open_in(&parts).into_iter().map(told));
    if let Some(whole) = whole_of(device) {
        let told =
            |process| format!("is part of {}, open in {}", whole.node.display(), name_of(process));
        users.extend(open_in(std::slice::from_ref(&whole)).into_iter().map(told));
    }
    users
}
