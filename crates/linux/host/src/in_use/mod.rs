//! Users of a file or device, below it and above it: by device numbers and file identity, as the
//! kernel reports them in /sys, /proc and LOOP_GET_STATUS64. Names are used in messages only.
//!
//! ```text
//!   above   mounts, holders (device mapper, RAID), swap, loop devices; the same for its partitions
//!             |
//!   the file or device
//!             |
//!   below   a partition's disk, members of a mapped device or array: other loop devices over them
//!           a loop device's file or device: its locks, its exclusive opener, and all of the above
//!   beside  other names of a drive (paths without multipath): their exclusive opener, and all that
//!           is above their partitions, where these share bytes with the examined device
//! ```
//!
//! For a device itself the exclusive open decides, for a file its lock; both cover only one layer.
//! The kernel opens members of mapped devices and arrays exclusively, so several of these may share
//! a member (LVM). A loop device does not claim its file, so everything below a loop device is
//! examined here.
//!
//! A device of Overdrive counts as a user of its backing even while no daemon serves it. For the
//! examined file or device itself, [`crate::Claim::check`] checks this instead, because the next
//! daemon of the device may take it over.
//!
//! The search downwards ends at files of FUSE file systems, so an attached volume of Overdrive
//! counts as a disk like any other.

mod finding;
mod loops;
mod machine;
mod openers;
mod owner;

use crate::identity::Identity;
use crate::other_names::OtherName;
use loops::{Loop, Under};
use machine::{Live, Machine};
use owner::Owner;
use std::ops::Range;
use std::path::PathBuf;

pub use finding::{Finding, Relation, Usage};
pub use openers::{device_number, device_users, device_users_except, mount_points};

/// Maximum number of devices that are followed.
const STEPS_MAX: usize = 256;

/// All bytes of a file or device.
const WHOLE: Range<u64> = 0..u64::MAX;

/// A file or device below another.
struct Step {
    under: Under,
    path: PathBuf,
    /// The bytes of this layer that the upper one covers.
    range: Range<u64>,
    /// The loop device in between. None: a layer that the kernel claims.
    through: Option<u64>,
}

fn overlap(one: &Range<u64>, two: &Range<u64>) -> bool {
    one.start < two.end && two.start < one.end
}

/// Returns the bytes of a lower layer that contain these bytes of the upper one.
fn shifted(upper: &Range<u64>, lower: &Range<u64>) -> Range<u64> {
    let at = |byte: u64| lower.start.saturating_add(byte).min(lower.end);
    at(upper.start)..at(upper.end)
}

/// Returns everything below a device.
fn steps_below(machine: &impl Machine, device: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut seen, mut left) = (Vec::new(), vec![(device, WHOLE)]);
    while let Some((device, range)) = left.pop() {
        if seen.contains(&device) || seen.len() == STEPS_MAX {
            continue;
        }
        seen.push(device);
        let mut lower: Vec<(Under, PathBuf, Range<u64>, Option<u64>)> = Vec::new();
        let known = |number| Under::Known(Identity::Device { number });
        if let Some((disk, first, bytes)) = machine.disk_of(device) {
            let range = shifted(&range, &(first..first.saturating_add(bytes)));
            lower.push((known(disk), machine.node(disk), range, None));
        }
        for member in machine.members(device) {
            lower.push((known(member), machine.node(member), WHOLE, None));
        }
        if let Some(found) = machine.loops().iter().find(|found| found.device == device) {
            let range = shifted(&range, &found.range);
            lower.push((machine.backing_identity(found), found.path.clone(), range, Some(device)));
        }
        for (under, path, range, through) in lower {
            if let Under::Known(Identity::Device { number }) = under {
                left.push((number, range.clone()));
            }
            steps.push(Step { under, path, range, through });
        }
    }
    steps
}

/// Returns the loop devices, except for one, over these bytes.
fn loops_over<'a>(
    machine: &'a impl Machine,
    under: &'a Under,
    range: &'a Range<u64>,
    except: Option<u64>,
) -> impl Iterator<Item = &'a Loop> {
    machine.loops().iter().filter(move |found| {
        found.under == *under && Some(found.device) != except && overlap(&found.range, range)
    })
}

/// Returns the uses of a device and its partitions by layers above.
fn findings_above(machine: &impl Machine, device: u64, writes: bool) -> Vec<Finding> {
    let usages = |device: u64| {
        let under = Under::Known(Identity::Device { number: device });
        let loops = loops_over(machine, &under, &WHOLE, None);
        let loops: Vec<_> = loops.map(|found| Usage::Loop(found.name.clone())).collect();
        machine.usage(device).into_iter().chain(loops)
    };
    let own = usages(device).map(|usage| Finding::of(Relation::Itself, usage));
    let partitions = machine.partitions(device).into_iter().flat_map(|partition| {
        let node = machine.node(partition);
        let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let backing = machine.devices_on(Identity::Device { number: partition }, writes);
        usages(partition)
            .chain(backing.into_iter().map(Usage::Backing))
            .map(move |usage| Finding::of(Relation::Partition(name.clone()), usage))
    });
    own.chain(partitions).collect()
}

/// Returns the uses of the layers below a device, except by the device itself.
fn findings_below(machine: &impl Machine, device: u64, writes: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Step { under, path, range, through } in steps_below(machine, device) {
        let mut find =
            |usage: Usage| findings.push(Finding::of(Relation::Below(path.clone()), usage));
        for found in loops_over(machine, &under, &range, through) {
            find(Usage::Loop(found.name.clone()));
        }
        if let Under::Known(backing) = under {
            let devices = machine.devices_on(backing, writes).into_iter();
            devices.map(Usage::Backing).for_each(&mut find);
        }
        if through.is_none() {
            continue;
        }
        match under {
            Under::Known(Identity::Device { number }) => {
                let over = findings_above(machine, number, writes).into_iter();
                // Loop devices over it were found above; one of them is the examined layer.
                let over = over.filter(|it| !matches!(it.usage, Usage::Loop(_)));
                let usages: Vec<_> = over.map(|finding| finding.usage).collect();
                let claimed = usages.is_empty() && machine.is_claimed(number);
                usages.into_iter().chain(claimed.then_some(Usage::Claimed)).for_each(find);
            }
            Under::Known(file) => {
                if machine.is_swap(file) {
                    find(Usage::Swap);
                }
                match machine.owner(file, &path, writes) {
                    Owner::None => {}
                    Owner::Locked(processes) => find(Usage::Locked(processes)),
                    Owner::Unknown => find(Usage::Unknown),
                }
            }
            Under::Served(_) => {}
            Under::Unknown(_) => find(Usage::Unknown),
        }
    }
    findings
}

/// Returns the uses of another name of a drive, each with the device there that is in use: of the
/// whole drive, and of partitions that have some of these bytes.
fn uses_of_name(
    machine: &impl Machine,
    disk: u64,
    range: &Range<u64>,
    writes: bool,
) -> Vec<(u64, Usage)> {
    let has_some = |partition: &u64| {
        let found = machine.disk_of(*partition);
        found.is_none_or(|(_, first, bytes)| overlap(&(first..first.saturating_add(bytes)), range))
    };
    let partitions: Vec<u64> = machine.partitions(disk).into_iter().filter(has_some).collect();
    let mut uses = Vec::new();
    for device in std::iter::once(disk).chain(partitions.iter().copied()) {
        let known = Identity::Device { number: device };
        // Positions on the disk and on a partition differ.
        let bytes = if device == disk { range } else { &WHOLE };
        let under = Under::Known(known);
        let loops = loops_over(machine, &under, bytes, None);
        let loops = loops.map(|found| Usage::Loop(found.name.clone()));
        let backings = machine.devices_on(known, writes).into_iter().map(Usage::Backing);
        let all = machine.usage(device).into_iter().chain(loops).chain(backings);
        uses.extend(all.map(|usage| (device, usage)));
    }
    if uses.is_empty() {
        // The exclusive opening of a disk fails for the sake of each of its partitions, that of a
        // partition for the sake of the whole disk.
        let is_whole = *range == WHOLE || partitions.is_empty();
        let claimable = if is_whole { vec![disk] } else { partitions };
        let claimed = claimable.into_iter().filter(|device| machine.is_claimed(*device));
        uses.extend(claimed.map(|device| (device, Usage::Claimed)));
    }
    uses
}

/// Returns the uses of a device, and of the drives below it, by the drives' other names.
fn findings_beside(machine: &impl Machine, device: u64, writes: bool) -> Vec<Finding> {
    let below = steps_below(machine, device).into_iter().filter_map(|step| match step.under {
        Under::Known(Identity::Device { number }) => Some((number, step.range)),
        _ => None,
    });
    let parts: Vec<(u64, Range<u64>)> = std::iter::once((device, WHOLE)).chain(below).collect();
    let mut findings = Vec::new();
    for (part, range) in &parts {
        for OtherName { device: other, id } in machine.other_names(*part) {
            // Multipath is above several names of a drive.
            if parts.iter().any(|(known, _)| *known == other) {
                continue;
            }
            let uses = uses_of_name(machine, other, range, writes);
            findings.extend(uses.into_iter().map(|(device, usage)| {
                let path = machine.node(device);
                Finding::of(Relation::SameDrive { path, id: id.clone() }, usage)
            }));
        }
    }
    findings
}

fn users_of(machine: &impl Machine, target: Identity, writes: bool) -> Vec<Finding> {
    match target {
        Identity::Device { number } => {
            let mut findings = findings_above(machine, number, writes);
            findings.extend(findings_below(machine, number, writes));
            findings.extend(findings_beside(machine, number, writes));
            findings
        }
        Identity::File { .. } => {
            let swap = machine.is_swap(target).then_some(Usage::Swap);
            let under = Under::Known(target);
            let loops = loops_over(machine, &under, &WHOLE, None);
            let usages = swap.into_iter().chain(loops.map(|it| Usage::Loop(it.name.clone())));
            usages.map(|usage| Finding::of(Relation::Itself, usage)).collect()
        }
    }
}

/// Finds the users of a file or device, above and below it, in this mount namespace. The caller
/// must just have accessed it. `writes`: it will be written, so that readers conflict too.
pub(crate) fn find(target: Identity, writes: bool) -> Vec<Finding> {
    let answering = match target {
        Identity::File { system, .. } => Some(system),
        Identity::Device { .. } => None,
    };
    users_of(&Live::new(answering), target, writes)
}

/// Finds the users of a device, and of the drives below it, by other names of these drives.
pub(crate) fn find_beside(device: u64, writes: bool) -> Vec<Finding> {
    findings_beside(&Live::new(None), device, writes)
}

/// Finds users above a device or one of its partitions.
pub(crate) fn find_above(device: u64) -> Vec<Finding> {
    findings_above(&Live::new(None), device, true)
}

#[cfg(test)]
mod tests;
