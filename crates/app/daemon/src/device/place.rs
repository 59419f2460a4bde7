//! Paths of devices and their files, by name.

use super::using;
use rustix::fs::{FlockOperation, Mode, OFlags};
use stack::{Exit, Failure};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub use host::DEVICES;
pub(super) use host::OURS;

/// Returns the directory in which a volume's file is mounted.
pub(crate) fn directory(runtime: &Path, volume: &str) -> PathBuf {
    runtime.join("devices").join(volume)
}

/// Returns the link to a volume's device.
pub(crate) fn link(volume: &str) -> PathBuf {
    Path::new(DEVICES).join(volume)
}

fn leads_to(link: &Path, node: &Path) -> bool {
    fs::read_link(link).is_ok_and(|found| found == node)
}

/// Points the link to this node.
///
/// # Errors
/// Those of the system.
pub(super) fn set_link(link: &Path, node: &Path) -> io::Result<()> {
    if leads_to(link, node) {
        return Ok(());
    }
    let directory = link.parent().expect("a link has a directory");
    fs::create_dir_all(directory)?;
    // Renamed into place, so that the name is valid at every moment.
    let fresh = directory.join(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    std::os::unix::fs::symlink(node, &fresh)?;
    fs::rename(&fresh, link)
}

/// Removes the link, if it points to this node.
pub(super) fn remove_link(link: &Path, node: &Path) {
    if leads_to(link, node) {
        // If this fails, the link points to a loop, NBD or ublk device that is not in use.
        let _ = fs::remove_file(link);
    }
}

/// The right to name a device. While it lives, no other daemon of this machine names one.
pub(super) struct Naming {
    _locked: OwnedFd,
}

/// Waits for the right to give a new device this name, which must not belong to another device, and
/// claims the files and devices with these keys for it.
///
/// # Errors
/// Busy; the directory of names cannot be created.
pub(super) fn claim_name(link: &Path, keys: &[String]) -> Result<Naming, Failure> {
    let naming = wait_for_naming(link)?;
    check_link(link)?;
    host::sweep_backings();
    claim_backings(link, keys)?;
    Ok(naming)
}

/// Claims the files and devices with these keys for an existing device. If the process that made
/// the device was killed before it set the link, the name is claimed, too.
///
/// # Errors
/// As [`claim_name`].
pub(super) fn claim_again(
    link: &Path,
    node: &Path,
    keys: &[String],
) -> Result<Option<Naming>, Failure> {
    let naming = if leads_to(link, node) { None } else { Some(wait_for_naming(link)?) };
    claim_backings(link, keys)?;
    Ok(naming)
}

/// Claims files and devices for a device, for as long as the device exists.
fn claim_backings(link: &Path, keys: &[String]) -> Result<(), Failure> {
    let volume = link.file_name().expect("a link has a name").to_string_lossy();
    if keys.is_empty() {
        return Ok(());
    }
    host::note_backings(keys, &volume)
        .map_err(using::to_failure(link, "its backing cannot be recorded"))
}

fn wait_for_naming(link: &Path) -> Result<Naming, Failure> {
    let failure = using::to_failure(link, "it cannot be named");
    let directory = link.parent().expect("a link has a directory");
    fs::create_dir_all(directory).map_err(&failure)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let locked = rustix::fs::open(directory, flags, Mode::empty());
    let locked = locked.map_err(|errno| failure(errno.into()))?;
    let lock = || rustix::fs::flock(&locked, FlockOperation::NonBlockingLockExclusive).is_ok();
    if !using::wait_until(lock) {
        let message = format!(
            "{}: another daemon keeps the list of names locked; end that daemon",
            directory.display()
        );
        return Err(Failure::new(Exit::Busy, message));
    }
    Ok(Naming { _locked: locked })
}

fn check_link(link: &Path) -> Result<(), Failure> {
    let Ok(node) = fs::read_link(link) else { return Ok(()) };
    let name = node.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(owner) = name.and_then(|name| host::device_owner(&name)) else { return Ok(()) };
    let message = format!("{}: is a device of {owner}; choose another name", link.display());
    Err(Failure::new(Exit::Busy, message))
}

/// Returns the failure of a device that waits for another backing than the one to be attached.
pub(super) fn other_backing(link: &Path, volume: &str) -> Failure {
    let message = format!(
        "{}: waits for the daemon of another backing; attach that backing, or give the device up \
         with 'overdrive detach {volume} --force'",
        link.display()
    );
    Failure::new(Exit::Busy, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_the_last_node_it_was_set_to() {
        let place = tempfile::tempdir().expect("room");
        let link = place.path().join("devices/db");
        let (one, two) = (Path::new("/dev/loop1"), Path::new("/dev/loop2"));
        for node in [one, two, two] {
            set_link(&link, node).expect("room");
            assert_eq!(fs::read_link(&link).expect("it is there"), node);
        }
        remove_link(&link, one);
        assert!(link.is_symlink(), "it leads to another one");
        remove_link(&link, two);
        let left = fs::read_dir(place.path().join("devices")).expect("it is there").count();
        assert_eq!(left, 0);
    }
}
