//! The files and devices below the devices of Overdrive, also while no daemon serves those.
//!
//! ```text
//!   /dev/overdrive/NAME  -> /dev/loopN    a device; udev or a daemon makes the link
//!   /dev/overdrive/.backings/NAME/KEY     a file or device that it stands on
//! ```
//!
//! A lock or an exclusive opening ends with its process; a device that waits for the next daemon
//! has users all the same, whose kernel state must not meet other contents. A record counts while
//! its device is there, as the kernel reports it; so it is written before the device has its name,
//! and a daemon that dies in between leaves no device without a record. Records lie beside the
//! names of devices: machine-wide, since daemons of different runtime directories do not see each
//! other, and in memory, as devices are.

use crate::identity::Identity;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory with a link to each device.
pub const DEVICES: &str = "/dev/overdrive";

/// Prefix of the names under which the kernel's drivers store Overdrive's servers.
pub const OURS: &str = "overdrive:";

/// The directory of records within that of the links.
const RECORDS: &str = ".backings";

/// True if this is the path of a file below a device of Overdrive, of any daemon:
/// RUNTIME/devices/NAME/NAME.
pub fn is_of_device(file: &Path) -> bool {
    let mut above = file.ancestors().skip(1).filter_map(Path::file_name);
    above.next() == file.file_name() && above.next().is_some_and(|name| name == "devices")
}

/// Returns the server or file of a device of Overdrive, by the device's name in /dev. None: it is
/// not a device of Overdrive any more.
pub fn device_owner(name: &str) -> Option<String> {
    let read = |file: &str| fs::read_to_string(format!("/sys/block/{name}/{file}")).ok();
    let file = read("loop/backing_file").map(|file| file.trim_end().to_owned());
    let file = file.filter(|file| is_of_device(Path::new(file)));
    let server = || read("backend").filter(|server| server.starts_with(OURS));
    // The kernel prints nothing here for ublk devices.
    let ublk = || (name.starts_with("ublkb") && read("dev").is_some()).then(|| "ublk".to_owned());
    file.or_else(|| server().map(|server| server.trim_end().to_owned())).or_else(ublk)
}

/// Whether the owner of a device, as [`device_owner`] returns it, serves the volume of this name.
fn is_owner_of(owner: &str, device: &str) -> bool {
    let path = Path::new(owner);
    match owner.strip_prefix(OURS) {
        Some(server) => server.contains(&format!("/devices/{device}//")),
        None => owner == "ublk" || path.file_name().is_some_and(|name| name == device),
    }
}

/// Whether a device of Overdrive exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Gone,
    /// It refuses changes: other readers of its backing are harmless.
    ReadOnly,
    Writable,
}

/// Looks up the device of Overdrive with this name.
fn presence(devices: &Path, device: &str) -> Presence {
    let node = fs::read_link(devices.join(device)).ok();
    let Some(name) = node.as_deref().and_then(Path::file_name).and_then(|name| name.to_str())
    else {
        return Presence::Gone;
    };
    let is_ours = device_owner(name).is_some_and(|owner| is_owner_of(&owner, device));
    let read_only = fs::read_to_string(format!("/sys/block/{name}/ro"));
    match (is_ours, read_only.is_ok_and(|text| text.trim() == "1")) {
        (false, _) => Presence::Gone,
        (true, true) => Presence::ReadOnly,
        (true, false) => Presence::Writable,
    }
}

/// The records, and the devices that exist.
struct Records<'a> {
    directory: PathBuf,
    presence: &'a dyn Fn(&str) -> Presence,
}

impl Records<'_> {
    /// Returns all devices with records, whether they exist or not.
    fn devices(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn devices_on(&self, key: &str, writes: bool) -> Vec<String> {
        let is_on = |device: &String| {
            self.directory.join(device).join(key).exists()
                && match (self.presence)(device) {
                    Presence::Gone => false,
                    Presence::ReadOnly => writes,
                    Presence::Writable => true,
                }
        };
        self.devices().into_iter().filter(is_on).collect()
    }

    /// True if a device is on top of a single file or device.
    fn is_over_one(&self, device: &str) -> bool {
        fs::read_dir(self.directory.join(device)).is_ok_and(|entries| entries.count() == 1)
    }

    fn is_gone(&self, device: &str) -> bool {
        (self.presence)(device) == Presence::Gone
    }

    fn sweep(&self) {
        self.devices().iter().filter(|device| self.is_gone(device)).for_each(|it| self.remove(it));
    }

    fn note(&self, keys: &[String], device: &str) -> io::Result<()> {
        let directory = self.directory.join(device);
        fs::create_dir_all(&directory)?;
        for key in keys {
            fs::write(directory.join(key), "")?;
        }
        // The identity of its backing may have changed, for example after the disk below was
        // restarted.
        for entry in fs::read_dir(&directory)?.flatten() {
            if !keys.iter().any(|key| entry.file_name() == **key) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the record of a device that has gone, unless it is of other backings: then a device
    /// of another daemon is to have the name.
    fn forget(&self, keys: &[String], device: &str) {
        let entries = fs::read_dir(self.directory.join(device)).into_iter().flatten().flatten();
        let is_own = entries.into_iter().all(|it| keys.iter().any(|key| it.file_name() == **key));
        if is_own && self.is_gone(device) {
            self.remove(device);
        }
    }

    fn remove(&self, device: &str) {
        // Records that stay do not count: their device has gone.
        let _ = fs::remove_dir_all(self.directory.join(device));
    }
}

fn with_records<T>(work: impl FnOnce(&Records<'_>) -> T) -> T {
    let devices = Path::new(DEVICES);
    let presence = |device: &str| presence(devices, device);
    work(&Records { directory: devices.join(RECORDS), presence: &presence })
}

/// Notes that a device of ours stands on these files and devices ([`crate::FileVolume::key`]): to
/// be called before the device has its name.
///
/// # Errors
/// As the system reports.
pub fn note_backings(keys: &[String], device: &str) -> io::Result<()> {
    with_records(|records| records.note(keys, device))
}

/// Removes what [`note_backings`] has noted of a device over these files and devices, if it has
/// gone.
pub fn forget_backings(keys: &[String], device: &str) {
    with_records(|records| records.forget(keys, device));
}

/// Removes the records of all devices that have gone. No device may be about to get its name.
pub fn sweep_backings() {
    with_records(|records| records.sweep());
}

/// Returns the devices of Overdrive on top of this file or device, whether daemons serve them or
/// not. Without `writes`, only those that may change it.
pub(crate) fn devices_on(backing: Identity, writes: bool) -> Vec<String> {
    with_records(|records| records.devices_on(&backing.key(), writes))
}

/// True if a device of Overdrive is on top of a single file or device, not of several like a pool.
pub(crate) fn is_over_one(device: &str) -> bool {
    with_records(|records| records.is_over_one(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_device_is_known_by_its_path() {
        assert!(is_of_device(Path::new("/run/overdrive/devices/db/db")));
        for other in ["/srv/db", "/run/devices/db/other", "/", "/db/db"] {
            assert!(!is_of_device(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn owners_are_distinguished_by_the_volume_s_name() {
        assert!(is_owner_of("/run/overdrive/devices/db/db", "db"));
        assert!(!is_owner_of("/run/overdrive/devices/db/db", "db2"));
        assert!(is_owner_of("overdrive:/run/overdrive/devices/db//0123", "db"));
        assert!(!is_owner_of("overdrive:/run/overdrive/devices/db//0123", "b"));
        assert!(is_owner_of("ublk", "db"));
    }

    #[test]
    fn a_record_counts_while_its_device_is_there() {
        let place = tempfile::tempdir().expect("room");
        let with = |presence: &dyn Fn(&str) -> Presence, work: &dyn Fn(&Records<'_>)| {
            work(&Records { directory: place.path().join("records"), presence });
        };
        let keys = ["file-1-2", "device-8-1"].map(str::to_owned);
        let none = [""; 0];
        with(&|_| Presence::Writable, &|records| {
            assert_eq!(records.devices_on("file-1-2", true), none);
            records.note(&keys, "db").expect("room");
            assert_eq!(records.devices_on("file-1-2", false), ["db"]);
            assert!(!records.is_over_one("db"));
            records.note(&keys[..1], "db").expect("room");
            assert_eq!(records.devices_on("device-8-1", true), none, "it is not below it any more");
            assert!(records.is_over_one("db"));
            records.forget(&keys, "db");
            records.sweep();
            assert_eq!(records.devices_on("file-1-2", true), ["db"], "its device is there");
            records.note(&keys, "db").expect("room");
        });
        with(&|_| Presence::ReadOnly, &|records| {
            assert_eq!(records.devices_on("file-1-2", true), ["db"]);
            assert_eq!(records.devices_on("file-1-2", false), none, "both only read");
        });
        let is_gone = |device: &str| match device {
            "db" => Presence::Gone,
            _ => Presence::Writable,
        };
        with(&is_gone, &|records| {
            assert_eq!(records.devices_on("file-1-2", true), none, "its device has gone");
            records.forget(&keys[..1], "db");
            assert_eq!(records.devices(), ["db"], "it is of other backings, too");
            records.note(&keys[1..], "other").expect("room");
            records.sweep();
            assert_eq!(records.devices(), ["other"]);
            assert_eq!(records.devices_on("device-8-1", true), ["other"]);
            records.note(&keys, "db").expect("room");
            records.forget(&keys, "db");
            assert_eq!(records.devices(), ["other"]);
        });
    }
}
