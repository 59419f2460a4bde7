//! Where devices and their files are found by name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use uring::LoopDevice;

/// The directory with a link to each device.
pub const DEVICES: &str = "/dev/overdrive";

/// The directory in which a volume's file is mounted.
pub(crate) fn directory(runtime: &Path, volume: &str) -> PathBuf {
    runtime.join("devices").join(volume)
}

/// Whether this is the path of a file that a device of ours stands on, of whatever daemon: RUNTIME/devices/NAME/NAME.
pub(super) fn is_of_device(file: &Path) -> bool {
    let mut above = file.ancestors().skip(1).filter_map(Path::file_name);
    above.next() == file.file_name() && above.next().is_some_and(|name| name == "devices")
}

/// The link to a volume's device.
pub(crate) fn link(volume: &str) -> PathBuf {
    Path::new(DEVICES).join(volume)
}

/// Has the link lead to this node.
///
/// # Errors
/// What the system says.
pub(super) fn set_link(link: &Path, node: &Path) -> io::Result<()> {
    if fs::read_link(link).is_ok_and(|found| found == node) {
        return Ok(());
    }
    let directory = link.parent().expect("a link has a directory");
    fs::create_dir_all(directory)?;
    // A rename, so that the name leads somewhere at every moment.
    let fresh = directory.join(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    std::os::unix::fs::symlink(node, &fresh)?;
    fs::rename(&fresh, link)
}

/// Takes the link away, if it leads to this node.
pub(super) fn remove_link(link: &Path, node: &Path) {
    if fs::read_link(link).is_ok_and(|found| found == node) {
        // One that stays leads to a device without a file.
        let _ = fs::remove_file(link);
    }
}

/// What is left of a device whose daemon has gone.
#[derive(Debug)]
pub struct Orphan {
    volume: String,
    directory: PathBuf,
    devices: Vec<LoopDevice>,
}

/// What is left of this volume's device: by what the kernel remembers, without asking what is mounted there.
pub fn orphan(runtime: &Path, volume: &str) -> Option<Orphan> {
    let directory = directory(runtime, volume);
    let devices = LoopDevice::all_over(&directory.join(volume));
    let is_mounted = crate::front::is_mounted(&directory);
    (is_mounted || !devices.is_empty()).then(|| Orphan {
        volume: volume.to_owned(),
        directory,
        devices,
    })
}

impl Orphan {
    /// The nodes of its devices.
    pub fn nodes(&self) -> Vec<PathBuf> {
        self.devices.iter().map(LoopDevice::path).collect()
    }

    /// Gives it up: what waits for an answer of it, and what will be asked of it, gets an error. What the volume's holder
    /// keeps stays kept.
    ///
    /// # Errors
    /// What the system says.
    pub fn give_up(&self) -> io::Result<()> {
        crate::front::abort(&self.directory)?;
        for device in &self.devices {
            device.detach()?;
            remove_link(&link(&self.volume), &device.path());
        }
        // Only a name is left.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_device_is_known_by_its_path() {
        assert!(is_of_device(&directory(Path::new("/run/overdrive"), "db").join("db")));
        for other in ["/srv/db", "/run/devices/db/other", "/", "/db/db"] {
            assert!(!is_of_device(Path::new(other)), "{other}");
        }
    }

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
