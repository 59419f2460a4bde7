//! The other names of a drive. A drive that the machine reaches by several paths has a device for
//! each path, and the kernel's exclusive opening covers a single device.
//!
//! Devices are compared by the identifier that the kernel shows for SCSI, ATA and NVMe drives
//! (`wwid` in /sys). Not every drive has one of its own:
//!
//! - An identifier of zeros or of one repeated digit, or of a maker or model without a serial
//!   number, identifies nothing.
//! - A drive behind USB may have the identifier of its bridge, which is the same in all bridges of
//!   the model. Nothing behind USB has a second path, so these drives are not compared.
//! - `t10.` and `nvme.` are as unique as a serial number, and `naa.3` is a number that an operator
//!   has chosen. Devices with one of these are the same drive only if they have the same size.
//! - Some SSDs have the identifier of their model. So devices with different serial numbers are
//!   different drives.
//!
//! The sizes are not compared otherwise: after a drive has grown, the kernel may have read its new
//! size on one path only.
//!
//! Sources: Documentation/ABI/testing/sysfs-block-device, drivers/scsi/scsi_lib.c
//! (`scsi_vpd_lun_id`), drivers/nvme/host/sysfs.c (`wwid_show`).

use crate::disks::{DriveIdentity, Interface, Roots, drive_identity};
use crate::sysfs::number_in;
use std::fs;

/// Characters of a maker's name in an identifier of the kind `t10`.
const MAKER: usize = 8;
/// Characters of the model's name after it, if the maker's name is `ATA`.
const ATA_MODEL: usize = 40;

/// Another name of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OtherName {
    /// Its device number.
    pub(crate) device: u64,
    /// The identifier of the drive.
    pub(crate) id: String,
}

/// A whole device with an identifier.
struct Named {
    device: u64,
    id: String,
    /// The serial number; empty: not reported.
    serial: String,
    /// The size, as the kernel prints it.
    sectors: String,
}

/// Whether a text has no character but separators and one that is repeated.
fn is_repeated(text: &str) -> bool {
    let mut letters = text.chars().filter(char::is_ascii_alphanumeric);
    let first = letters.next();
    letters.all(|letter| Some(letter) == first)
}

/// Whether an identifier belongs to one drive, as far as its text shows. `model`: the model's name.
fn is_identity(id: &str, model: &str) -> bool {
    let (kind, number) = id.split_once('.').unwrap_or(("", id));
    // The number of the maker, and the number that the maker has given to the drive.
    let maker_and_drive = |first: usize| {
        let parts = (number.get(first..first + 6), number.get(first + 6..));
        matches!(parts, (Some(maker), Some(drive)) if maker != "000000" && !is_repeated(drive))
    };
    match kind {
        "naa" if number.starts_with(['5', '6']) => maker_and_drive(1),
        "naa" => number.get(1..).is_some_and(|number| !is_repeated(number)),
        "eui" if number.len() == 16 => maker_and_drive(0),
        "t10" => {
            let Some((maker, rest)) = number.split_at_checked(MAKER) else { return false };
            let serial = match maker.trim_end() {
                "ATA" => rest.get(ATA_MODEL..).unwrap_or_default(),
                _ => rest.trim_start().strip_prefix(model).unwrap_or(rest),
            };
            !is_repeated(serial)
        }
        // The maker, the serial number, the model, and the namespace, the middle two in hexadecimal
        // digits of their characters.
        "nvme" => number.split('-').nth(1).is_some_and(|serial| {
            let digits = |at: usize| serial.get(at..at + 2).filter(|it| *it != "20");
            let mut letters = (0..serial.len()).step_by(2).filter_map(digits);
            let first = letters.next();
            !letters.all(|letter| Some(letter) == first)
        }),
        _ => !is_repeated(number),
    }
}

/// Whether several drives may have the identifier, if one of them has.
fn is_weak(id: &str) -> bool {
    ["t10.", "nvme.", "naa.3"].iter().any(|kind| id.starts_with(kind))
}

/// Returns a trimmed file of a whole device in /sys; empty if it is missing.
fn word(roots: &Roots, name: &str, file: &str) -> String {
    let path = roots.sys.join("block").join(name).join(file);
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Returns the identifier of a whole device; empty: it has none. NVMe shows it for the namespace,
/// SCSI for the device below.
fn id_of(roots: &Roots, name: &str) -> String {
    let ids = ["wwid", "device/wwid"].map(|file| word(roots, name, file));
    ids.into_iter().find(|id| !id.is_empty()).unwrap_or_default()
}

impl Named {
    /// Reads a whole device. None: its identifier is none, or it has no node in /dev, as the paths
    /// below the kernel's own multipath of NVMe.
    fn read(roots: &Roots, name: &str) -> Option<Named> {
        let device = number_in(&word(roots, name, "dev"))?;
        let id = id_of(roots, name);
        let DriveIdentity { interface, model, serial, .. } = drive_identity(roots, name);
        let is_usable = interface != Interface::Usb && is_identity(&id, &model);
        is_usable.then(|| Named { device, id, serial, sectors: word(roots, name, "size") })
    }

    fn is_same_drive(&self, other: &Named) -> bool {
        let serials = [&self.serial, &other.serial];
        self.id == other.id
            && (self.serial == other.serial || serials.iter().any(|serial| serial.is_empty()))
            && (!is_weak(&self.id) || self.sectors == other.sectors)
    }
}

/// Returns the other names of the drive that is this whole device. Sends no command to a drive: the
/// kernel has read the identifiers when it found the drives.
pub(crate) fn other_names(roots: &Roots, device: u64) -> Vec<OtherName> {
    let entries = fs::read_dir(roots.sys.join("block")).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let is_it = |name: &&String| number_in(&word(roots, name, "dev")) == Some(device);
    let Some(own) = names.iter().find(is_it).and_then(|name| Named::read(roots, name)) else {
        return Vec::new();
    };
    let alike = names.iter().filter(|name| id_of(roots, name) == own.id);
    let others = alike.filter_map(|name| Named::read(roots, name));
    let others = others.filter(|other| other.device != device && own.is_same_drive(other));
    let mut found: Vec<OtherName> =
        others.map(|other| OtherName { device: other.device, id: other.id }).collect();
    found.sort_by_key(|other| other.device);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A directory like /sys, with devices of the number 8:N.
    struct Fake {
        place: TempDir,
        roots: Roots,
    }

    impl Fake {
        fn new() -> Fake {
            let place = tempfile::tempdir().expect("room");
            let roots = Roots { sys: place.path().join("sys"), proc: place.path().join("proc") };
            Fake { place, roots }
        }

        fn put(&self, name: &str, files: &[(&str, &str)]) {
            for (file, text) in files {
                let path = self.roots.sys.join("block").join(name).join(file);
                create_dir_all(path.parent().expect("a directory")).expect("room");
                write(path, format!("{text}\n")).expect("room");
            }
        }

        /// Makes a device with this number, identifier, and further files.
        fn with(&self, name: &str, minor: u32, id: (&str, &str), files: &[(&str, &str)]) {
            let number = format!("8:{minor}");
            self.put(name, &[("dev", number.as_str()), ("size", "2048"), id]);
            self.put(name, files);
        }

        /// Returns the minor numbers of the other names.
        fn others(&self, minor: u32) -> Vec<u32> {
            let found = other_names(&self.roots, rustix::fs::makedev(8, minor));
            found.iter().map(|other| rustix::fs::minor(other.device)).collect()
        }
    }

    const SCSI: &str = "device/wwid";
    const NVME: &str = "wwid";

    #[test]
    fn devices_of_one_identifier_are_one_drive() {
        for (file, id) in [
            (SCSI, "naa.5000c500a1b2c3d4"),
            (SCSI, "naa.600140512345678000000000000000ab"),
            (SCSI, "iqn.2003-01.org.example:disk,L,0x0000000000000000"),
            (SCSI, "t10.ATA     QEMU HARDDISK                           QM00001"),
            (SCSI, "t10.SIMULATED-DISK"),
            (NVME, "uuid.0d5c3b1e-92a4-4f0b-8f2f-3a1d6f7b9c10"),
            (NVME, "eui.0025385b71b10a3c"),
            (NVME, "eui.00000000000000010025385b71b10a3c"),
            (NVME, "nvme.1b36-53312d41-51454d55204e564d65204374726c-00000001"),
        ] {
            let fake = Fake::new();
            fake.with("one", 0, (file, id), &[]);
            fake.with("two", 16, (file, id), &[]);
            fake.with("three", 32, (file, "naa.5000c500a1b2c3d5"), &[]);
            fake.put("loop0", &[("dev", "7:0"), ("size", "2048")]);
            assert_eq!((fake.others(0), fake.others(16)), (vec![16], vec![0]), "{id}");
            assert_eq!((fake.others(32), fake.others(48)), (vec![], vec![]), "{id}");
            let found = other_names(&fake.roots, rustix::fs::makedev(8, 0));
            assert_eq!(found[0].id, id);
        }
    }

    #[test]
    fn an_identifier_that_others_may_have_is_none() {
        for id in [
            "naa.0000000000000000",
            "naa.5000000000000000",
            "naa.5000000123456789",
            "naa.5000c50000000000",
            "naa.ffffffffffffffff",
            "naa.3",
            "eui.0000000000000000",
            "eui.0000000000000001",
            "eui.00000000000000000000000000000000",
            "uuid.00000000-0000-0000-0000-000000000000",
            "t10.ATA",
            "t10.ATA     QEMU HARDDISK",
            "t10.ATA     QEMU HARDDISK                           000000000000",
            "t10.Generic Flash Disk",
            "nvme.1b36-2020202020-51454d55204e564d65204374726c-00000001",
            "nvme.1b36-3030303030-51454d55204e564d65204374726c-00000001",
            "nvme.1b36",
        ] {
            let fake = Fake::new();
            let model = [("device/model", "Flash Disk")];
            fake.with("one", 0, (SCSI, id), &model);
            fake.with("two", 16, (SCSI, id), &model);
            assert_eq!(fake.others(0), [0; 0], "{id}");
        }
    }

    #[test]
    fn serial_numbers_and_sizes_distinguish_drives_of_one_identifier() {
        let (strong, weak) = ("naa.5000c500a1b2c3d4", "t10.IET     00010001");
        for (id, serials, sizes, is_same) in [
            (strong, ["S1", "S1"], ["8", "8"], true),
            (strong, ["S1", ""], ["8", "8"], true),
            (strong, ["S1", "S2"], ["8", "8"], false),
            // One path does not show the new size yet.
            (strong, ["S1", "S1"], ["8", "16"], true),
            (weak, ["S1", "S1"], ["8", "8"], true),
            (weak, ["S1", "S1"], ["8", "16"], false),
        ] {
            let fake = Fake::new();
            for (name, minor, at) in [("one", 0, 0), ("two", 16, 1)] {
                let files = [("device/serial", serials[at]), ("size", sizes[at])];
                fake.with(name, minor, (SCSI, id), &files);
            }
            assert_eq!(fake.others(0) == [16], is_same, "{id} {serials:?} {sizes:?}");
        }
    }

    #[test]
    fn bridges_of_usb_and_hidden_paths_are_no_other_names() {
        let fake = Fake::new();
        let id = ("wwid", "eui.0025385b71b10a3c");
        fake.with("nvme0n1", 0, id, &[]);
        // A path below the kernel's own multipath has no number.
        fake.put("nvme0c1n1", &[id, ("size", "2048"), ("hidden", "1")]);
        assert_eq!(fake.others(0), [0; 0]);
        let bus = fake.place.path().join("sys/devices/pci0/usb2");
        for (name, minor) in [("sda", 16), ("sdb", 32)] {
            let own = bus.join(name);
            create_dir_all(&own).expect("room");
            symlink(&own, fake.roots.sys.join("block").join(name)).expect("room");
            fake.with(name, minor, (SCSI, "naa.5000c500a1b2c3d4"), &[]);
        }
        assert_eq!(fake.others(16), [0; 0]);
    }
}
