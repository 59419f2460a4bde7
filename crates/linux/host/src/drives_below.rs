//! The drives below a backing that may report their health, and whether a query would disturb them.

use crate::identity::Identity;
use crate::lower_devices::keys_below_backing;
use crate::sysfs;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the devices of the drives below a file or a device: NVMe, SATA, SAS and USB drives.
/// Virtual disks have no health.
pub fn drives_below(backing: &Path) -> Vec<PathBuf> {
    let Ok(found) = rustix::fs::stat(backing) else { return Vec::new() };
    let real = fs::canonicalize(backing);
    let keys = keys_below_backing(&Identity::of(&found).key(), real.iter().map(PathBuf::as_path));
    let numbers = keys.iter().filter_map(|key| match Identity::from_key(key)? {
        Identity::Device { number } => Some(number),
        Identity::File { .. } => None,
    });
    let disks = numbers.filter(|number| sysfs::disk_of(*number).is_none());
    let mut nodes: Vec<PathBuf> =
        disks.filter_map(sysfs::node).filter(|node| may_report(node)).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

/// Whether a device has the name of a drive that may report its health.
fn may_report(node: &Path) -> bool {
    let name = node.file_name().unwrap_or_default().to_string_lossy();
    ["sd", "nvme", "hd"].iter().any(|prefix| name.starts_with(prefix))
}

fn number_of(node: &Path) -> Option<u64> {
    fs::metadata(node).ok().map(|found| found.rdev())
}

/// Whether the kernel has suspended a drive: a command would resume it.
pub fn is_drive_suspended(node: &Path) -> bool {
    let status =
        number_of(node).and_then(|number| sysfs::attribute(number, "device/power/runtime_status"));
    status.is_some_and(|status| status == "suspended" || status == "suspending")
}

/// The requests of a drive: those that have ended, and those in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveTraffic {
    ended: u64,
    in_flight: u64,
}

impl DriveTraffic {
    /// Returns the requests of the drive at this device. None: the kernel does not count them.
    pub fn of(node: &Path) -> Option<DriveTraffic> {
        DriveTraffic::parse(&sysfs::attribute(number_of(node)?, "stat")?)
    }

    /// Parses the kernel's file `stat` (Documentation/block/stat.rst): the numbers of reads,
    /// writes, discards and flushes that have ended, and that of requests in flight.
    fn parse(text: &str) -> Option<DriveTraffic> {
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let ended = [0, 4, 11, 15].iter().filter_map(|index| numbers.get(*index));
        Some(DriveTraffic { ended: ended.sum(), in_flight: *numbers.get(8)? })
    }

    /// Whether no request is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_the_kernels_file() {
        let new = " 5 1 40 9 7 2 56 8 3 10 20 11 0 0 0 13 4\n";
        let found = DriveTraffic::parse(new).expect("numbers");
        assert_eq!(found, DriveTraffic { ended: 5 + 7 + 11 + 13, in_flight: 3 });
        assert!(!found.is_idle());
        // Before Linux 4.18.
        let old = DriveTraffic::parse("5 1 40 9 7 2 56 8 0 10 20").expect("numbers");
        assert_eq!((old.ended, old.is_idle()), (12, true));
        assert_eq!(DriveTraffic::parse("5 1 40"), None);
    }

    #[test]
    fn virtual_and_missing_disks_have_no_health() {
        for name in ["/dev/sda", "/dev/nvme0n1"] {
            assert!(may_report(Path::new(name)), "{name}");
        }
        for name in ["/dev/vda", "/dev/loop0", "/dev/dm-0", "/dev/md127", "/dev/zram0"] {
            assert!(!may_report(Path::new(name)), "{name}");
        }
        assert!(drives_below(Path::new("/no/such/image")).is_empty());
        assert!(!is_drive_suspended(Path::new("/dev/null")));
        assert_eq!(DriveTraffic::of(Path::new("/dev/null")), None);
    }
}
