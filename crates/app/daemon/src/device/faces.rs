//! Two faces of one disk: a block device that is served shows the same UUIDs, labels and physical volumes as the device
//! that is made of it. A file for each tells udev's rules which is which (`packaging/udev`).
//!
//! ```text
//!   RUNTIME/faces/MAJOR:MINOR   OVERDRIVE_VOLUME=NAME       the device of this volume
//!                               OVERDRIVE_BACKING_OF=NAME   what this volume lies on
//! ```
//!
//! The files outlive a killed daemon, as the device and what holders keep do.

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

/// There while udev runs.
const UDEV: &str = "/run/udev/control";
/// What udev is waited for at most, ...
const SETTLE_TRIES: u32 = 500;
/// ... and how long between two looks at it.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// How often it is asked to look, while partitions come and go.
const LOOKS_MAX: u32 = 5;

/// What is written of a device.
const VOLUME: &str = "OVERDRIVE_VOLUME=";
const BACKING: &str = "OVERDRIVE_BACKING_OF=";

fn directory(runtime: &Path) -> PathBuf {
    runtime.join("faces")
}

/// The device number in the identity of a backing, as names of files have it. None: it is no device.
fn number_of(key: &str) -> Option<String> {
    let (major, minor) = key.strip_prefix("device-")?.split_once('-')?;
    Some(format!("{major}:{minor}"))
}

/// The number of the device to which a volume's link leads.
fn number_at(link: &Path) -> Option<String> {
    let number = fs::metadata(link).ok()?.rdev();
    Some(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Has udev look at a volume's device and at what it lies on, and waits for it: what is mounted by its UUID afterwards is
/// the volume. `keys` are the identities of what it lies on.
///
/// # Errors
/// No thread can be had.
pub(crate) async fn mark(runtime: &Path, volume: &str, keys: &[String]) -> Result<(), Failure> {
    let (runtime, volume, keys) = (runtime.to_owned(), volume.to_owned(), keys.to_owned());
    blocking(move || {
        let mut found = sweep_list(&runtime);
        found.extend(write(&runtime, &volume, &keys));
        look(&found);
    })
    .await
}

/// Has udev show again what a volume lay on that is no device any more, and that holds nothing back.
///
/// # Errors
/// No thread can be had.
pub(crate) async fn unmark(runtime: &Path, keys: &[String]) -> Result<(), Failure> {
    if !directory(runtime).exists() {
        return Ok(());
    }
    let numbers: Vec<_> = keys.iter().filter_map(|key| number_of(key)).collect();
    let runtime = runtime.to_owned();
    blocking(move || {
        let is_below = |number: &str, said: &str| {
            said.starts_with(BACKING) && numbers.iter().any(|below| below == number)
        };
        let mut removed = remove(&runtime, is_below);
        removed.extend(sweep_list(&runtime));
        look(&removed);
    })
    .await
}

/// Takes away what is said of devices that no volume uses any more, and has udev show them again.
pub fn sweep_faces(runtime: &Path) {
    look(&sweep_list(runtime));
}

/// Writes what there is to say; returns the numbers of the devices. What cannot be written is not hidden, and no worse than
/// without udev: it is held exclusively.
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
        crate::complain!("overdrive: {}: {error}; udev is not told", directory.display());
    }
    faces.into_iter().map(|(number, _)| number).collect()
}

/// Removes the files that are chosen by their device's number and their words; returns the numbers.
fn remove(runtime: &Path, is_chosen: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(directory(runtime)).ok().into_iter().flatten().flatten();
    let removed = entries.filter_map(|entry| {
        let number = entry.file_name().into_string().ok()?;
        let said = fs::read_to_string(entry.path()).ok()?;
        (is_chosen(&number, &said) && fs::remove_file(entry.path()).is_ok()).then_some(number)
    });
    removed.collect()
}

/// Removes what is true no more, and returns the numbers: of a device to which its volume's link does not lead, or that has
/// nothing behind it (the link may be udev's, and go with the file); of what nothing holds while its volume has no device. (A
/// device whose daemon was stopped waits, and nothing holds its backing.)
fn sweep_list(runtime: &Path) -> Vec<String> {
    remove(runtime, |number, said| {
        let said = said.trim_end();
        if let Some(volume) = said.strip_prefix(VOLUME) {
            return number_at(&place::link(volume)).as_deref() != Some(number) || is_empty(number);
        }
        let volume = said.strip_prefix(BACKING).unwrap_or_default();
        !place::link(volume).is_symlink() && !is_held(number)
    })
}

/// Whether there is nothing behind a device, if there is one.
fn is_empty(number: &str) -> bool {
    let size = fs::read_to_string(format!("/sys/dev/block/{number}/size"));
    size.is_ok_and(|size| size.trim() == "0")
}

/// Whether a device has its one exclusive holder, which a daemon is, or after it what keeps its memory.
fn is_held(number: &str) -> bool {
    let said = fs::read_to_string(format!("/sys/dev/block/{number}/uevent")).unwrap_or_default();
    let Some(name) = said.lines().find_map(|line| line.strip_prefix("DEVNAME=")) else {
        return false;
    };
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    matches!(open(Path::new("/dev").join(name), flags, Mode::empty()), Err(Errno::BUSY))
}

/// The directories in /sys of devices, each before those of its partitions.
fn parts(numbers: &[String]) -> Vec<PathBuf> {
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

/// Has udev look at these devices and their partitions again, and waits until it has, where it runs.
fn look(numbers: &[String]) {
    if numbers.is_empty() || !Path::new(UDEV).exists() {
        return;
    }
    // The kernel may be reading a table of partitions again just now, for which they go and come back.
    let looked = (0..LOOKS_MAX).find_map(|look| match trigger(&parts(numbers)) {
        Err(_) if look + 1 < LOOKS_MAX => {
            pause();
            None
        }
        looked => Some(looked),
    });
    if let Some(Err(error)) = looked {
        crate::complain!("overdrive: udevadm: {error}; links by UUID may lead to what is served");
    }
}

fn trigger(parts: &[PathBuf]) -> io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("udevadm");
    command.args(["trigger", "--settle", "--action=change"]).args(parts);
    // The service manager is to hear of us alone.
    command.env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run(command)
}

#[allow(clippy::disallowed_methods, reason = "a thread that has no lane")]
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
    fn what_is_written_of_a_volume_is_removed_with_it_and_others_stay() {
        let runtime = tempfile::tempdir().expect("room");
        let keys = ["file-1-2", "device-9999-7"].map(str::to_owned);
        // A name that no device has.
        assert_eq!(write(runtime.path(), "no such volume", &keys), ["9999:7"]);
        write(runtime.path(), "other", &["device-9999-8".to_owned()]);
        let file = directory(runtime.path()).join("9999:7");
        let said = fs::read_to_string(&file).expect("it is there");
        assert_eq!(said, "OVERDRIVE_BACKING_OF=no such volume\n");
        let of = |number: &str, _: &str| number == "9999:7";
        assert_eq!(remove(runtime.path(), of), ["9999:7"]);
        assert!(!file.exists());
        // No such device is held by anything.
        assert_eq!(sweep_list(runtime.path()), ["9999:8"]);
    }

    #[test]
    fn a_device_that_is_another_one_by_now_is_no_face_of_the_volume() {
        let runtime = tempfile::tempdir().expect("room");
        fs::create_dir(directory(runtime.path())).expect("room");
        let file = directory(runtime.path()).join("7:0");
        fs::write(&file, "OVERDRIVE_VOLUME=no such volume\n").expect("room");
        assert_eq!(sweep_list(runtime.path()), ["7:0"]);
    }
}
