//! Two faces of one disk: a served block device shows the same UUIDs, labels and LVM physical
//! volumes as the device below it. A file for each device lets udev's rules distinguish the two
//! (`packaging/udev`).
//!
//! ```text
//!   RUNTIME/faces/MAJOR:MINOR   OVERDRIVE_VOLUME=NAME       the device of this volume
//!                               OVERDRIVE_BACKING_OF=NAME   the backing of this volume
//! ```
//!
//! The files outlive a killed daemon, as the device and the memory in holders do.

use super::blocking::blocking;
use super::place;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use stack::Failure;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// This file exists while udev runs.
const UDEV: &str = "/run/udev/control";
/// Maximum number of checks whether udevadm has ended, ...
const SETTLE_TRIES: u32 = 500;
/// ... and the pause between two of them.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of attempts to trigger udev, while partitions appear and disappear.
const TRIGGERS_MAX: u32 = 5;

/// Content of the file of a volume's device.
const VOLUME: &str = "OVERDRIVE_VOLUME=";
const BACKING: &str = "OVERDRIVE_BACKING_OF=";

fn directory(runtime: &Path) -> PathBuf {
    runtime.join("faces")
}

/// Returns the device number in a backing's key, as in the names of the files. None: the backing is
/// no device.
fn number_of(key: &str) -> Option<String> {
    let (major, minor) = key.strip_prefix("device-")?.split_once('-')?;
    Some(format!("{major}:{minor}"))
}

/// Returns the number of the device to which a volume's link leads.
fn number_at(link: &Path) -> Option<String> {
    let number = fs::metadata(link).ok()?.rdev();
    Some(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Makes udev examine a volume's device and its backing, and waits for it, so that a mount by UUID
/// finds the volume afterwards. `keys` are those of the backing.
///
/// # Errors
/// No thread can be started.
pub(super) async fn mark_device(
    runtime: &Path,
    volume: &str,
    keys: &[String],
) -> Result<(), Failure> {
    let (runtime, volume, keys) = (runtime.to_owned(), volume.to_owned(), keys.to_owned());
    blocking(move || {
        let mut found = remove_outdated(&runtime);
        found.extend(write(&runtime, &volume, &keys));
        examine(&found);
    })
    .await
}

/// Makes udev show a volume's backing again, once the volume is no device any more and no holder
/// retains data for it.
///
/// # Errors
/// No thread can be started.
pub(crate) async fn unmark_backing(runtime: &Path, keys: &[String]) -> Result<(), Failure> {
    if !directory(runtime).exists() {
        return Ok(());
    }
    let numbers: Vec<_> = keys.iter().filter_map(|key| number_of(key)).collect();
    let runtime = runtime.to_owned();
    blocking(move || {
        let is_below = |number: &str, content: &str| {
            content.starts_with(BACKING) && numbers.iter().any(|below| below == number)
        };
        let mut removed = remove(&runtime, is_below);
        removed.extend(remove_outdated(&runtime));
        examine(&removed);
    })
    .await
}

/// Removes the files of devices that no volume uses any more, and makes udev show these devices
/// again.
pub fn sweep_faces(runtime: &Path) {
    examine(&remove_outdated(runtime));
}

/// Writes the files; returns the numbers of the devices. If this fails, udev does not hide the
/// backing, which is still protected by its exclusive open.
fn write(runtime: &Path, volume: &str, keys: &[String]) -> Vec<String> {
    let backings = keys.iter().filter_map(|key| number_of(key));
    let mut faces: Vec<_> = backings.map(|number| (number, BACKING)).collect();
    faces.extend(number_at(&place::link(volume)).map(|number| (number, VOLUME)));
    let directory = directory(runtime);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    let put = |(number, what): &(String, &str)| {
        fs::write(directory.join(number), format!("{what}{volume}\n"))
    };
    if let Err(error) = made.and_then(|()| faces.iter().try_for_each(put)) {
        crate::complain!(
            "overdrive: {}: {error}; udev does not distinguish the device from its backing",
            directory.display()
        );
    }
    faces.into_iter().map(|(number, _)| number).collect()
}

/// Removes the files selected by their device's number and their content; returns the numbers.
fn remove(runtime: &Path, is_chosen: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(directory(runtime)).ok().into_iter().flatten().flatten();
    let removed = entries.filter_map(|entry| {
        let number = entry.file_name().into_string().ok()?;
        let content = fs::read_to_string(entry.path()).ok()?;
        (is_chosen(&number, &content) && fs::remove_file(entry.path()).is_ok()).then_some(number)
    });
    removed.collect()
}

/// Removes outdated files, and returns their numbers.
///
/// The file of a volume's device is outdated if the volume's link does not lead to the device, or
/// if the device has no disk (the link may be udev's, and disappear with the file). The file of a
/// backing is outdated if its volume has no device, and no process holds it. (While a device waits
/// for a daemon that was stopped, no process holds its backing.)
fn remove_outdated(runtime: &Path) -> Vec<String> {
    remove(runtime, |number, content| {
        let content = content.trim_end();
        if let Some(volume) = content.strip_prefix(VOLUME) {
            return number_at(&place::link(volume)).as_deref() != Some(number) || is_empty(number);
        }
        let volume = content.strip_prefix(BACKING).unwrap_or_default();
        !place::link(volume).is_symlink() && !is_held(number)
    })
}

/// Whether a device, if it exists, has no disk.
fn is_empty(number: &str) -> bool {
    let size = fs::read_to_string(format!("/sys/dev/block/{number}/size"));
    size.is_ok_and(|size| size.trim() == "0")
}

/// Whether a process may hold a device exclusively: a daemon, or later the holder of its memory. A
/// device that this process may not open counts as held, because its backing must stay hidden.
fn is_held(number: &str) -> bool {
    let content = fs::read_to_string(format!("/sys/dev/block/{number}/uevent")).unwrap_or_default();
    let Some(name) = content.lines().find_map(|line| line.strip_prefix("DEVNAME=")) else {
        return false;
    };
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let opened = open(Path::new("/dev").join(name), flags, Mode::empty());
    matches!(opened, Err(Errno::BUSY | Errno::ACCESS | Errno::PERM))
}

/// Returns the directories of devices in /sys, each followed by those of its partitions.
pub(crate) fn parts(numbers: &[String]) -> Vec<PathBuf> {
    let whole = numbers.iter().map(|number| Path::new("/sys/dev/block").join(number));
    let whole = whole.filter_map(|path| fs::canonicalize(path).ok());
    let with_partitions = whole.flat_map(|path| {
        let entries = fs::read_dir(&path).ok().into_iter().flatten().flatten();
        let partitions = entries.map(|entry| entry.path());
        let partitions: Vec<_> = partitions.filter(|it| it.join("partition").exists()).collect();
        std::iter::once(path).chain(partitions)
    });
    with_partitions.collect()
}

/// Makes udev examine these devices and their partitions again, and waits until it has, if it runs.
fn examine(numbers: &[String]) {
    if numbers.is_empty() || !Path::new(UDEV).exists() {
        return;
    }
    // The kernel may be rereading a partition table, during which partitions disappear and come
    // back.
    let triggered = (0..TRIGGERS_MAX).find_map(|attempt| match trigger(&parts(numbers)) {
        Err(_) if attempt + 1 < TRIGGERS_MAX => {
            pause();
            None
        }
        triggered => Some(triggered),
    });
    if let Some(Err(error)) = triggered {
        crate::complain!(
            "overdrive: udevadm: {error}; links by UUID may lead to the backing instead of the \
             volume"
        );
    }
}

fn trigger(parts: &[PathBuf]) -> io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("udevadm");
    command.args(["trigger", "--settle", "--action=change"]).args(parts);
    // Only this process notifies the service manager.
    command.env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run(command)
}

#[allow(clippy::disallowed_methods, reason = "a thread without a lane")]
fn pause() {
    thread::sleep(SETTLE_PAUSE);
}

fn run(mut command: Command) -> io::Result<()> {
    host::make_ordinary(&mut command);
    let mut child = command.spawn()?;
    for _ in 0..SETTLE_TRIES {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(status.to_string())),
            None => pause(),
        }
    }
    child.kill()?;
    child.wait()?;
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_volume_are_removed_with_it_and_others_stay() {
        let runtime = tempfile::tempdir().expect("room");
        let keys = ["file-1-2", "device-9999-7"].map(str::to_owned);
        // No device has this name.
        assert_eq!(write(runtime.path(), "no such volume", &keys), ["9999:7"]);
        write(runtime.path(), "other", &["device-9999-8".to_owned()]);
        let file = directory(runtime.path()).join("9999:7");
        let content = fs::read_to_string(&file).expect("it is there");
        assert_eq!(content, "OVERDRIVE_BACKING_OF=no such volume\n");
        let of = |number: &str, _: &str| number == "9999:7";
        assert_eq!(remove(runtime.path(), of), ["9999:7"]);
        assert!(!file.exists());
        // No process holds such a device.
        assert_eq!(remove_outdated(runtime.path()), ["9999:8"]);
    }

    #[test]
    fn the_file_of_a_replaced_device_is_removed() {
        let runtime = tempfile::tempdir().expect("room");
        fs::create_dir(directory(runtime.path())).expect("room");
        let file = directory(runtime.path()).join("7:0");
        fs::write(&file, "OVERDRIVE_VOLUME=no such volume\n").expect("room");
        assert_eq!(remove_outdated(runtime.path()), ["7:0"]);
    }
}
