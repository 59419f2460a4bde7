//! Machines with devices that the test machine may lack.

use super::*;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Devices by small numbers; names are `dN`.
#[derive(Default)]
struct Described {
    loops: Vec<Loop>,
    members: Vec<(u64, Vec<u64>)>,
    /// Partition, disk, first byte, length.
    partitions: Vec<(u64, u64, u64, u64)>,
    mounted: Vec<u64>,
    claimed: Vec<u64>,
    locked: Vec<u64>,
    backings: Vec<Identity>,
}

impl Machine for Described {
    fn loops(&self) -> &[Loop] {
        &self.loops
    }

    fn backing_identity(&self, found: &Loop) -> Under {
        found.under.clone()
    }

    fn members(&self, device: u64) -> Vec<u64> {
        let own = self.members.iter().find(|(upper, _)| *upper == device);
        own.map_or(Vec::new(), |(_, members)| members.clone())
    }

    fn disk_of(&self, device: u64) -> Option<(u64, u64, u64)> {
        let own = self.partitions.iter().find(|(partition, ..)| *partition == device)?;
        Some((own.1, own.2, own.3))
    }

    fn partitions(&self, device: u64) -> Vec<u64> {
        let own = self.partitions.iter().filter(|(_, disk, ..)| *disk == device);
        own.map(|(partition, ..)| *partition).collect()
    }

    fn node(&self, device: u64) -> PathBuf {
        PathBuf::from(format!("/dev/d{device}"))
    }

    fn usage(&self, device: u64) -> Option<Usage> {
        self.mounted.contains(&device).then(|| Usage::Mounted("/mnt".to_owned()))
    }

    fn is_claimed(&self, device: u64) -> bool {
        self.claimed.contains(&device)
    }

    fn is_swap(&self, _: Identity) -> bool {
        false
    }

    fn owner(&self, file: Identity, _: &Path, _: bool) -> Owner {
        match file {
            Identity::File { number, .. } if self.locked.contains(&number) => {
                Owner::Locked(Vec::new())
            }
            _ => Owner::None,
        }
    }

    fn devices_on(&self, backing: Identity, _: bool) -> Vec<String> {
        self.backings.iter().filter(|it| **it == backing).map(|_| "db".to_owned()).collect()
    }
}

fn file(number: u64) -> Identity {
    Identity::File { system: 1, number }
}

fn disk(number: u64) -> Identity {
    Identity::Device { number }
}

fn loop_over(device: u64, under: Under, range: Range<u64>) -> Loop {
    let path = match &under {
        Under::Known(Identity::File { number, .. }) => format!("/images/{number}"),
        Under::Known(Identity::Device { number }) => format!("/dev/d{number}"),
        Under::Served(path) | Under::Unknown(path) => path.display().to_string(),
    };
    Loop { device, name: format!("loop{device}"), under, path: path.into(), range }
}

fn words(machine: &Described, target: Identity) -> Vec<String> {
    users_of(machine, target, true).iter().map(Finding::to_string).collect()
}

#[test]
fn a_loop_device_over_a_locked_file_is_in_use_however_deep() {
    let machine = Described {
        loops: vec![
            loop_over(10, Under::Known(file(7)), WHOLE),
            loop_over(11, Under::Known(disk(20)), WHOLE),
        ],
        // LVM on the first loop device, a partition on LVM, and the second loop device on the
        // partition.
        members: vec![(19, vec![10])],
        partitions: vec![(20, 19, MIB, MIB)],
        locked: vec![7],
        ..Described::default()
    };
    let expected = "lies on /images/7, which is locked by another program (qemu, another \
                    Overdrive, or an od-holder that retains unwritten data)";
    for device in [10, 19, 20, 11] {
        let found = words(&machine, disk(device));
        assert!(found.contains(&expected.to_owned()), "{device}: {found:?}");
    }
}

#[test]
fn two_loop_devices_over_one_file_are_two_faces_where_they_overlap() {
    let machine = Described {
        loops: vec![
            loop_over(10, Under::Known(file(7)), 0..MIB),
            loop_over(11, Under::Known(file(7)), MIB..2 * MIB),
            loop_over(12, Under::Known(file(7)), MIB..u64::MAX),
        ],
        ..Described::default()
    };
    assert_eq!(words(&machine, disk(10)), [""; 0]);
    assert_eq!(words(&machine, disk(11)), ["lies on /images/7, which is attached to /dev/loop12"]);
    let found = words(&machine, file(7));
    let attached = |number| format!("is attached to /dev/loop{number}");
    assert_eq!(found, [10, 11, 12].map(attached));
}

#[test]
fn a_loop_device_over_a_disk_inherits_its_users_and_the_disk_its_loop_device() {
    let machine = Described {
        loops: vec![
            loop_over(10, Under::Known(disk(1)), WHOLE),
            loop_over(11, Under::Known(disk(3)), WHOLE),
        ],
        partitions: vec![(2, 1, MIB, MIB)],
        mounted: vec![2],
        claimed: vec![3],
        ..Described::default()
    };
    assert_eq!(words(&machine, disk(10)), ["lies on /dev/d1, which is mounted at /mnt"]);
    assert_eq!(
        words(&machine, disk(11)),
        ["lies on /dev/d3, which is open exclusively in another program"]
    );
    assert_eq!(
        words(&machine, disk(1)),
        ["is attached to /dev/loop10", "has the partition d2, which is mounted at /mnt"]
    );
    // The kernel claims the disk of a partition, but not the file of a loop device.
    let found = words(&machine, disk(2));
    assert_eq!(found, ["is mounted at /mnt", "lies on /dev/d1, which is attached to /dev/loop10"]);
}

#[test]
fn volumes_that_share_a_member_and_those_on_an_attached_volume_are_free() {
    let served = Under::Served(PathBuf::from("/run/overdrive/devices/db/db"));
    let machine = Described {
        loops: vec![loop_over(10, served.clone(), WHOLE)],
        // Two logical volumes on one physical one, which is a volume of Overdrive.
        members: vec![(20, vec![10]), (21, vec![10])],
        mounted: vec![21],
        claimed: vec![10],
        ..Described::default()
    };
    assert_eq!(words(&machine, disk(20)), [""; 0]);
    assert_eq!(words(&machine, disk(10)), [""; 0], "its exclusive opening decides");
    // A second loop device over the volume's file is the same disk a second time.
    let twice = vec![loop_over(10, served.clone(), WHOLE), loop_over(11, served, WHOLE)];
    let machine = Described { loops: twice, ..machine };
    let expected = ["lies on /run/overdrive/devices/db/db, which is attached to /dev/loop11"];
    assert_eq!(words(&machine, disk(20)), expected);
}

#[test]
fn a_file_that_cannot_be_examined_is_in_use() {
    let unknown = Under::Unknown(PathBuf::from("/elsewhere/x"));
    let loops = vec![loop_over(10, unknown, WHOLE)];
    let machine = Described { loops, ..Described::default() };
    let expected = ["lies on /elsewhere/x, which cannot be examined"];
    assert_eq!(words(&machine, disk(10)), expected);
}

#[test]
fn backings_of_devices_that_wait_are_in_use_below_and_above() {
    let machine = Described {
        loops: vec![loop_over(10, Under::Known(file(7)), WHOLE)],
        partitions: vec![(2, 1, MIB, MIB), (4, 3, MIB, MIB)],
        backings: vec![file(7), disk(2), disk(3)],
        ..Described::default()
    };
    let backing = "is the backing of /dev/overdrive/db";
    assert_eq!(words(&machine, disk(10)), [format!("lies on /images/7, which {backing}")]);
    assert_eq!(words(&machine, disk(1)), [format!("has the partition d2, which {backing}")]);
    assert_eq!(words(&machine, disk(4)), [format!("lies on /dev/d3, which {backing}")]);
    // Not the backing itself: its own device may take it over.
    assert_eq!(words(&machine, disk(2)), [""; 0]);
}

#[test]
fn devices_in_a_circle_end() {
    let members = vec![(1, vec![2]), (2, vec![1])];
    let machine = Described { members, ..Described::default() };
    assert_eq!(words(&machine, disk(1)), [""; 0]);
}
