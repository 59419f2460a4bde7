//! Block devices as shown by /sys and /proc; needs no privileges.

use crate::mounts::{Mount, mounts_in};
use crate::sysfs::number_in;
use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::{Path, PathBuf};

/// Roots of the kernel's file systems.
pub struct Roots {
    /// Usually /sys.
    pub sys: PathBuf,
    /// Usually /proc.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// A whole block device.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Device {
    /// Name in /dev.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Model name; for a loop device its file, for a mapped device its name.
    pub model: String,
    /// Whether it is a hard disk.
    pub rotational: bool,
    /// Size of a logical block in bytes.
    pub logical_bytes: u64,
    /// Size of a physical block in bytes.
    pub physical_bytes: u64,
    /// Maximum size of one discard; 0: not supported.
    pub discard_bytes: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Users of the device or a part of it: mount points, swap, devices above.
    pub uses: Vec<String>,
}

/// The kind of interface by which a drive is erased and describes itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// NVMe.
    Nvme,
    /// ATA, by any cable.
    Ata,
    /// SCSI and SAS.
    Scsi,
    /// USB: a bridge that may not pass commands on, or in another sense.
    Usb,
    /// Others: loop devices, virtual disks.
    Other,
}

/// The identity of a whole device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveIdentity {
    /// Its interface.
    pub interface: Interface,
    /// The model's name; empty: not reported.
    pub model: String,
    /// The serial number; empty: not reported.
    pub serial: String,
    /// Maximum size of one discard; 0: not supported.
    pub discard_bytes: u64,
}

/// Returns the identity of the whole device with this name in /dev, from /sys.
pub fn drive_identity(roots: &Roots, name: &str) -> DriveIdentity {
    let path = roots.sys.join("block").join(name);
    let vendor = word(&path, "device/vendor");
    let interface = match () {
        () if name.starts_with("nvme") => Interface::Nvme,
        () if is_usb(&path) => Interface::Usb,
        () if vendor == "ATA" => Interface::Ata,
        () if name.starts_with("sd") => Interface::Scsi,
        () => Interface::Other,
    };
    let serials = ["device/serial", "serial"].map(|file| word(&path, file));
    let serial = serials.into_iter().find(|word| !word.is_empty());
    DriveIdentity {
        interface,
        model: word(&path, "device/model"),
        serial: serial.or_else(|| unit_serial(&path)).unwrap_or_default(),
        discard_bytes: number(&path, "queue/discard_max_bytes"),
    }
}

/// Whether a device is connected by USB: its directory is in that of a USB bus.
fn is_usb(path: &Path) -> bool {
    let found = path.canonicalize().unwrap_or_default();
    let is_bus =
        |name: &str| name.strip_prefix("usb").is_some_and(|bus| bus.parse::<u32>().is_ok());
    found.iter().any(|part| part.to_str().is_some_and(is_bus))
}

/// Returns the serial number of a SCSI device, from its page 0x80.
fn unit_serial(path: &Path) -> Option<String> {
    let page = std::fs::read(path.join("device/vpd_pg80")).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?).trim_matches([' ', '\0']).to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the machine's block devices, by name; none without /sys/block.
///
/// # Errors
/// /sys/block exists and cannot be read.
pub fn devices(roots: &Roots) -> io::Result<Vec<Device>> {
    let block = roots.sys.join("block");
    let entries = match read_dir(&block) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mounts = mounts_in(&roots.proc.join("self"));
    let swaps = read_to_string(roots.proc.join("swaps")).unwrap_or_default();
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = name_of(&path);
        found.push(device(&path, name, &mounts, &swaps));
    }
    found.sort_by_cached_key(|device| order(&device.name));
    Ok(found)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns a sort key, by which loop2 comes before loop10.
fn order(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    (stem.to_owned(), name[stem.len()..].parse().unwrap_or(0), name.to_owned())
}

fn word(directory: &Path, file: &str) -> String {
    read_to_string(directory.join(file)).unwrap_or_default().trim().to_owned()
}

fn number(directory: &Path, file: &str) -> u64 {
    word(directory, file).parse().unwrap_or(0)
}

fn device(path: &Path, name: String, mounts: &[Mount], swaps: &str) -> Device {
    let names = ["device/model", "loop/backing_file", "dm/name"];
    let model = names.map(|file| word(path, file)).into_iter().find(|word| !word.is_empty());
    Device {
        size_bytes: number(path, "size").saturating_mul(512),
        model: model.unwrap_or_default(),
        rotational: number(path, "queue/rotational") == 1,
        logical_bytes: number(path, "queue/logical_block_size"),
        physical_bytes: number(path, "queue/physical_block_size"),
        discard_bytes: number(path, "queue/discard_max_bytes"),
        read_only: number(path, "ro") == 1,
        uses: uses(path, &name, mounts, swaps),
        name,
    }
}

/// Returns the users of the device and of its partitions.
fn uses(path: &Path, name: &str, mounts: &[Mount], swaps: &str) -> Vec<String> {
    let mut parts = vec![(path.to_owned(), name.to_owned())];
    for entry in read_dir(path).into_iter().flatten().flatten() {
        if entry.path().join("partition").exists() {
            parts.push((entry.path(), name_of(&entry.path())));
        }
    }
    let mut found = BTreeSet::new();
    for (path, name) in parts {
        let number = number_in(&word(&path, "dev"));
        found.extend(mount_points(mounts, number, &name));
        let device = format!("/dev/{name}");
        if swaps.lines().any(|line| line.split_whitespace().next() == Some(&device)) {
            found.insert("[swap]".to_owned());
        }
        let holders = read_dir(path.join("holders")).into_iter().flatten().flatten();
        found.extend(holders.map(|holder| name_of(&holder.path())));
    }
    found.into_iter().collect()
}

/// Returns the mount points of a device: by its number, or by its name if the file system has its
/// own number.
fn mount_points(mounts: &[Mount], number: Option<u64>, name: &str) -> Vec<String> {
    let is_this = |mount: &&Mount| {
        Some(mount.device) == number || mount.source.strip_prefix("/dev").is_ok_and(|it| it == name)
    };
    let found = mounts.iter().filter(is_this);
    found.map(|mount| mount.point.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    fn put(root: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join(file);
            create_dir_all(path.parent().expect("a directory")).expect("created");
            write(path, text).expect("written");
        }
    }

    #[test]
    fn a_drive_is_known_by_its_interface_model_and_serial_number() {
        let place = tempfile::tempdir().expect("a directory");
        put(
            place.path(),
            &[
                ("sys/block/sda/device/vendor", "ATA     \n"),
                ("sys/block/sda/device/model", "SAMSUNG MZHPU256\n"),
                ("sys/block/sda/device/vpd_pg80", "\0\u{1}\0\u{4} S1 \0"),
                ("sys/block/sda/queue/discard_max_bytes", "4096\n"),
                ("sys/block/sdb/device/vendor", "SEAGATE\n"),
                ("sys/block/sdb/device/vpd_pg80", "\0"),
                ("sys/block/nvme0n1/device/serial", "S2   \n"),
                ("sys/block/vda/serial", "S3\n"),
                ("sys/devices/pci0/usb2/2-1/block/sdc/device/vendor", "ATA\n"),
            ],
        );
        let target = place.path().join("sys/devices/pci0/usb2/2-1/block/sdc");
        std::os::unix::fs::symlink(target, place.path().join("sys/block/sdc")).expect("made");
        let roots = Roots { sys: place.path().join("sys"), proc: place.path().join("proc") };
        let of = |name| {
            let found = drive_identity(&roots, name);
            (found.interface, found.serial, found.discard_bytes)
        };
        assert_eq!(of("sda"), (Interface::Ata, "S1".to_owned(), 4096));
        assert_eq!(of("sdb"), (Interface::Scsi, String::new(), 0));
        assert_eq!(of("nvme0n1"), (Interface::Nvme, "S2".to_owned(), 0));
        assert_eq!(of("sdc"), (Interface::Usb, String::new(), 0));
        assert_eq!(of("vda"), (Interface::Other, "S3".to_owned(), 0));
        assert_eq!(of("loop0"), (Interface::Other, String::new(), 0));
    }

    fn machine() -> (tempfile::TempDir, Roots) {
        let place = tempfile::tempdir().expect("a directory");
        put(
            place.path(),
            &[
                ("sys/block/sda/size", "1953525168\n"),
                ("sys/block/sda/device/model", "Samsung SSD 840 \n"),
                ("sys/block/sda/queue/rotational", "0\n"),
                ("sys/block/sda/queue/logical_block_size", "512\n"),
                ("sys/block/sda/queue/physical_block_size", "4096\n"),
                ("sys/block/sda/queue/discard_max_bytes", "2147450880\n"),
                ("sys/block/sda/dev", "8:0\n"),
                ("sys/block/sda/sda1/partition", "1\n"),
                ("sys/block/sda/sda1/dev", "8:1\n"),
                ("sys/block/sda/sda2/partition", "2\n"),
                ("sys/block/sda/sda2/dev", "8:2\n"),
                ("sys/block/sda/sda2/holders/dm-0/x", ""),
                ("sys/block/loop10/size", "0\n"),
                ("sys/block/loop2/size", "8\n"),
                ("sys/block/loop2/loop/backing_file", "/srv/a.img\n"),
                ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda1 partition 1 0 -2\n"),
                (
                    "proc/self/mountinfo",
                    "22 1 8:2 / /my\\040files rw - ext4 /dev/other rw\n\
                     23 1 0:40 / /data rw shared:1 - btrfs /dev/sda1 rw\n\
                     24 1 8:20 / /not rw - ext4 /dev/sda11 rw\n",
                ),
            ],
        );
        let roots = Roots { sys: place.path().join("sys"), proc: place.path().join("proc") };
        (place, roots)
    }

    #[test]
    fn devices_are_read_with_what_uses_them_and_their_parts() {
        let (_place, roots) = machine();
        let found = devices(&roots).expect("readable");
        let names: Vec<&str> = found.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["loop2", "loop10", "sda"]);
        let sda = &found[2];
        assert_eq!((sda.model.as_str(), sda.rotational), ("Samsung SSD 840", false));
        assert_eq!((sda.size_bytes, sda.physical_bytes), (1_000_204_886_016, 4096));
        assert_eq!(sda.uses, ["/data", "/my files", "[swap]", "dm-0"]);
        assert_eq!((found[0].model.as_str(), found[0].size_bytes), ("/srv/a.img", 4096));
    }

    #[test]
    fn a_container_without_devices_has_none() {
        let place = tempfile::tempdir().expect("a directory");
        let roots = Roots { sys: place.path().join("sys"), proc: place.path().join("proc") };
        assert_eq!(devices(&roots).expect("no error"), []);
    }
}
