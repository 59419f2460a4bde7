//! The device that is recorded.

use stack::{Exit, Failure};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// End of a whole disk, in sectors: 1 EiB. A disk may grow.
const SECTORS_END: u64 = 1 << 51;

/// A disk, or a partition of it.
pub(crate) struct Device {
    /// The path by which it was named.
    pub(super) path: PathBuf,
    /// Its name in the recording.
    pub(crate) name: String,
    /// Number of the disk in the filters of tracepoints.
    pub(crate) filter_number: u64,
    /// The sectors of the disk that belong to it.
    pub(crate) sectors: Range<u64>,
    /// Its key in `host::keys_below`.
    key: String,
    directory: PathBuf,
}

impl Device {
    /// Finds a device by its path.
    ///
    /// # Errors
    /// It is not a block device, or its requests cannot be seen.
    pub(crate) fn find(path: &Path) -> Result<Device, Failure> {
        let refuse = |what: &str| Failure::new(Exit::Usage, format!("{}: {what}", path.display()));
        let found = fs::metadata(path).map_err(|error| refuse(&error.to_string()))?;
        if !found.file_type().is_block_device() {
            return Err(refuse("not a block device; name one, such as /dev/nvme0n1"));
        }
        let number = found.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
        let directory = directory.map_err(|error| refuse(&format!("not in /sys: {error}")))?;
        if count(&directory, "size").is_none_or(|sectors| sectors == 0) {
            return Err(refuse("has no size; attach a disk or an image to it"));
        }
        let is_partition = directory.join("partition").exists();
        let disk = if is_partition { directory.parent().unwrap_or(&directory) } else { &directory };
        if !disk.join("mq").exists() {
            let what = "has no queue of its own, such as those of device mapper and md; record the \
                        disks below it ('lsblk -s' lists them)";
            return Err(refuse(what));
        }
        let filter_number = filter_number(disk).ok_or_else(|| refuse("its disk is not in /sys"))?;
        let sectors = if is_partition { partition(&directory) } else { Some(0..SECTORS_END) };
        let sectors = sectors.ok_or_else(|| refuse("its first sector is not in /sys"))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let key = format!("device-{major}-{minor}");
        let path = path.to_owned();
        Ok(Device { path, name, filter_number, sectors, key, directory })
    }

    /// Whether files of this directory are on the device, so that a recording would record itself.
    pub(crate) fn is_below(&self, directory: &Path) -> bool {
        host::keys_below(directory).contains(&self.key)
    }

    /// Whether the device has gone, or has lost its disk.
    pub(crate) fn is_gone(&self) -> bool {
        count(&self.directory, "size").is_none_or(|sectors| sectors == 0)
    }
}

/// Returns the number of a device as the kernel stores it (MKDEV).
fn filter_number(directory: &Path) -> Option<u64> {
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?)
}

fn partition(directory: &Path) -> Option<Range<u64>> {
    let start = count(directory, "start")?;
    let end = start.checked_add(count(directory, "size")?)?;
    (end <= SECTORS_END).then_some(start..end)
}

fn count(directory: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok()
}
