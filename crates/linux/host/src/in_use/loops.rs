//! All loop devices of this machine, and the file or device below each.

use crate::identity::Identity;
use crate::loop_device::LoopDevice;
use crate::mounts::{Mount, is_on_other_server};
use crate::sysfs::number_in;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The file or device below a loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Under {
    /// A known file or device.
    Known(Identity),
    /// A file of a FUSE file system: only its path is known, because its server may not answer.
    Served(PathBuf),
    /// A file that was not examined, or cannot be: no path leads to it in this mount namespace.
    Unknown(PathBuf),
}

/// A loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loop {
    /// Device number.
    pub(super) device: u64,
    /// Name, such as `loop0`.
    pub(super) name: String,
    /// The file or device below it.
    pub(super) under: Under,
    /// Path of the lower file or device, as the kernel prints it.
    pub(super) path: PathBuf,
    /// Bytes of the lower file or device that it covers.
    pub(super) range: Range<u64>,
}

fn number_at(directory: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(directory.join("loop").join(name)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Determines the file of a loop device, if its file system is certain to answer: the path exists
/// and is not in a FUSE file system, or the file was deleted.
fn examine(name: &str, path: &Path, mounts: &[Mount], answering: Option<u64>) -> Under {
    if is_on_other_server(mounts, path, answering) {
        return Under::Served(path.to_owned());
    }
    let named = rustix::fs::stat(path).map(|found| Identity::of(&found)).ok();
    let is_deleted = path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
    let known = (named.is_some() || is_deleted).then(|| query_file(name)).flatten();
    known.or(named).map_or_else(|| Under::Unknown(path.to_owned()), Under::Known)
}

/// Returns the file of a loop device. Waits for an answer of its file system.
fn query_file(name: &str) -> Option<Identity> {
    LoopDevice::named(name)?.backing_identity().ok()
}

impl Loop {
    /// Returns the file or device below it, even if this may wait for a file system without end.
    /// For a device that is about to be opened, which would wait for the same file system.
    pub(super) fn examine_now(&self) -> Under {
        match &self.under {
            Under::Unknown(_) => {
                query_file(&self.name).map_or_else(|| self.under.clone(), Under::Known)
            }
            under => under.clone(),
        }
    }
}

/// Reads the loop device of this directory in /sys. `answering` is a file system that is known to
/// answer.
fn read(directory: &Path, mounts: &[Mount], answering: Option<u64>) -> Option<Loop> {
    let path = fs::read_to_string(directory.join("loop/backing_file")).ok()?;
    let path = PathBuf::from(path.strip_suffix('\n').unwrap_or(&path));
    let name = directory.file_name()?.to_str()?.to_owned();
    let device = number_in(&fs::read_to_string(directory.join("dev")).ok()?)?;
    let under = examine(&name, &path, mounts, answering);
    let first = number_at(directory, "offset");
    let end = match number_at(directory, "sizelimit") {
        0 => u64::MAX,
        bytes => first.saturating_add(bytes),
    };
    Some(Loop { device, name, under, path, range: first..end })
}

/// Returns all loop devices that have a file. Sends no request to servers of FUSE file systems
/// other than `answering`.
pub(super) fn all(mounts: &[Mount], answering: Option<u64>) -> Vec<Loop> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let loops = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"loop"));
    loops.filter_map(|entry| read(&entry.path(), mounts, answering)).collect()
}
