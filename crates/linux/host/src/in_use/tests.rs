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
    /// Pairs of names of one drive.
    pairs: Vec<(u64, u64)>,
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

    fn other_names(&self, device: u64) -> Vec<OtherName> {
        let other = |pair: &(u64, u64)| match *pair {
            (one, two) if one == device => Some(two),
            (one, two) if two == device => Some(one),
            _ => None,
        };
        let others = self.pairs.iter().filter_map(other);
        others.map(|device| OtherName { device, id: "naa.5".to_owned() }).collect()
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

/// A drive with two names, and two partitions under each.
fn two_names() -> Described {
    Described {
        pairs: vec![(1, 2)],
        partitions: vec![
            (11, 1, MIB, MIB),
            (12, 1, 2 * MIB, MIB),
            (21, 2, MIB, MIB),
            (22, 2, 2 * MIB, MIB),
        ],
        ..Described::default()
    }
}

fn beside(device: u64, usage: &str) -> String {
    format!("is on the same drive as /dev/d{device} (naa.5), which {usage}")
}

#[test]
fn a_drive_is_in_use_if_another_of_its_names_is() {
    let idle = two_names();
    let all = [1, 2, 11, 12, 21, 22];
    assert!(all.iter().all(|device| words(&idle, disk(*device)).is_empty()));
    let mounted = Described { mounted: vec![22], ..two_names() };
    let expected = [beside(22, "is mounted at /mnt")];
    assert_eq!(words(&mounted, disk(1)), expected);
    assert_eq!(words(&mounted, disk(12)), expected);
    assert_eq!(words(&mounted, disk(11)), [""; 0], "it shares no byte with that partition");
    // The kernel refuses to open partitions of a claimed disk exclusively, and the reverse.
    let claimed = Described { claimed: vec![2, 21, 22], ..two_names() };
    let in_other = "is open exclusively in another program";
    assert_eq!(words(&claimed, disk(1)), [beside(2, in_other)]);
    assert_eq!(words(&claimed, disk(11)), [beside(21, in_other)]);
    let claimed = Described { claimed: vec![2, 22], ..two_names() };
    assert_eq!(words(&claimed, disk(1)), [beside(2, in_other)]);
    assert_eq!(words(&claimed, disk(11)), [""; 0], "another partition is claimed");
    let waiting = Described { backings: vec![disk(2)], ..two_names() };
    let backing = "is the backing of /dev/overdrive/db";
    assert_eq!(words(&waiting, disk(1)), [beside(2, backing)]);
    let loops = vec![loop_over(10, Under::Known(disk(2)), 2 * MIB..3 * MIB)];
    let looped = Described { loops, ..two_names() };
    assert_eq!(words(&looped, disk(12)), [beside(2, "is attached to /dev/loop10")]);
    assert_eq!(words(&looped, disk(11)), [""; 0], "the loop device shows other bytes");
}

#[test]
fn layers_over_a_drive_are_in_use_if_another_of_its_names_is() {
    let mounted = Described {
        loops: vec![loop_over(10, Under::Known(disk(11)), WHOLE)],
        members: vec![(30, vec![12])],
        mounted: vec![22],
        ..two_names()
    };
    assert_eq!(words(&mounted, disk(30)), [beside(22, "is mounted at /mnt")]);
    assert_eq!(words(&mounted, disk(10)), [""; 0]);
}

#[test]
fn paths_below_multipath_are_no_users_but_another_path_is() {
    let paths = Described {
        members: vec![(30, vec![1, 2])],
        pairs: vec![(1, 2), (1, 3), (2, 3)],
        claimed: vec![1, 2],
        ..Described::default()
    };
    assert_eq!(words(&paths, disk(30)), [""; 0]);
    let other = Described { mounted: vec![3], ..paths };
    assert!(words(&other, disk(30)).contains(&beside(3, "is mounted at /mnt")));
}

#[test]
fn devices_in_a_circle_end() {
    let members = vec![(1, vec![2]), (2, vec![1])];
    let machine = Described { members, ..Described::default() };
    assert_eq!(words(&machine, disk(1)), [""; 0]);
}
