//! All loop devices of this machine, and what lies below each.

use crate::identity::Identity;
use crate::loop_device::LoopDevice;
use crate::mounts::is_on_other_server;
use crate::sysfs::number_in;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The file or device below a loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Under {
    /// This one.
    Known(Identity),
    /// A file of a FUSE file system: only its path is known, because its server may not answer.
    Served(PathBuf),
    /// A file that this process may not examine.
    Unknown(PathBuf),
}

/// A loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loop {
    /// Its number.
    pub(super) device: u64,
    /// Its name, such as `loop0`.
    pub(super) name: String,
    /// Below it.
    pub(super) under: Under,
    /// The path of that, as the kernel prints it.
    pub(super) path: PathBuf,
    /// Bytes of the lower file or device that it shows.
    pub(super) range: Range<u64>,
}

fn number_at(directory: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(directory.join("loop").join(name)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Reads the loop device of this directory in /sys. `asked` is a file system that answers.
fn read(directory: &Path, mounts: &str, asked: Option<u64>) -> Option<Loop> {
    let path = fs::read_to_string(directory.join("loop/backing_file")).ok()?;
    let path = PathBuf::from(path.strip_suffix('\n').unwrap_or(&path));
    let name = directory.file_name()?.to_str()?.to_owned();
    let device = number_in(&fs::read_to_string(directory.join("dev")).ok()?)?;
    let under = match is_on_other_server(mounts, &path, asked) {
        true => Under::Served(path.clone()),
        false => {
            let known = LoopDevice::named(&name)?.under().or_else(|_| {
                rustix::fs::stat(&path).map(|found| Identity::of(&found)).map_err(Into::into)
            });
            let unknown = |_: std::io::Error| Under::Unknown(path.clone());
            known.map_or_else(unknown, Under::Known)
        }
    };
    let first = number_at(directory, "offset");
    let end = match number_at(directory, "sizelimit") {
        0 => u64::MAX,
        bytes => first.saturating_add(bytes),
    };
    Some(Loop { device, name, under, path, range: first..end })
}

/// All loop devices that have a file. Servers of FUSE file systems other than `asked` get no request.
pub(super) fn all(mounts: &str, asked: Option<u64>) -> Vec<Loop> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let loops = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"loop"));
    loops.filter_map(|entry| read(&entry.path(), mounts, asked)).collect()
}
