//! The target of advice.

use crate::trace::record::device::Device;
use crate::volumes;
use stack::{Exit, Failure};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A target that is named by a path or a name.
pub(super) enum Target {
    Trace(PathBuf),
    /// A block device, by the kernel's name.
    Device(String),
    Volume(Box<volumes::Target>),
}

/// Finds the target of this name.
///
/// # Errors
/// There is none; a daemon does not answer.
pub(super) fn find(target: &Path) -> Result<Target, Failure> {
    let data = match target.metadata() {
        Ok(data) => data,
        Err(error) => return volume_of(target).unwrap_or_else(|| Err(unreadable(target, &error))),
    };
    if !data.file_type().is_block_device() && !data.is_dir() {
        return Ok(Target::Trace(target.to_owned()));
    }
    let name = device_of(target)?;
    match served(&name) {
        Some(row) => {
            let target = volumes::find_device(&row)?;
            match target {
                volumes::Named::Served(target) => Ok(Target::Volume(target)),
                volumes::Named::NotServed => Ok(Target::Device(name)),
            }
        }
        None => Ok(Target::Device(name)),
    }
}

/// Returns the volume of this name. None: it cannot be a name, or nothing of that name is served.
fn volume_of(target: &Path) -> Option<Result<Target, Failure>> {
    let name = target.to_str().filter(|name| !name.contains('/'))?;
    match volumes::find_device(name) {
        Ok(volumes::Named::Served(target)) => Some(Ok(Target::Volume(target))),
        Ok(volumes::Named::NotServed) => None,
        Err(failure) => Some(Err(failure)),
    }
}

/// Returns the name of the volume whose block device has this name.
fn served(device: &str) -> Option<String> {
    let node = PathBuf::from(format!("/dev/{device}"));
    let rows = volumes::rows().into_iter();
    let mut attached = rows.filter(|row| !row.device.is_empty());
    let is_it = |node: &Path, other: &str| fs::canonicalize(other).is_ok_and(|it| it == node);
    attached.find(|row| is_it(&node, &row.device)).map(|row| row.name)
}

fn unreadable(target: &Path, error: &std::io::Error) -> Failure {
    let exit = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Exit::Permission,
        std::io::ErrorKind::NotFound => Exit::Usage,
        _ => Exit::Io,
    };
    let message = format!(
        "{}: {error}; name a trace, a block device, a directory or a served volume",
        target.display()
    );
    Failure::new(exit, message)
}

/// Returns the name of a device, or of the device below a directory.
///
/// # Errors
/// It is on no block device.
pub(super) fn device_of(target: &Path) -> Result<String, Failure> {
    let data = target.metadata().map_err(|error| unreadable(target, &error))?;
    let number = match data.file_type().is_block_device() {
        true => data.rdev(),
        false => number_below(target).unwrap_or_else(|| data.dev()),
    };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_it = fields.next()?.parse() == Ok(major) && fields.next()?.parse() == Ok(minor);
        is_it.then(|| fields.next().map(str::to_owned))?
    });
    name.ok_or_else(|| {
        let what = "is on no block device with counters in /proc/diskstats; name the device";
        Failure::new(Exit::Usage, format!("{}: {what}", target.display()))
    })
}

/// Returns the number of the device that a file system names as its source.
fn number_below(target: &Path) -> Option<u64> {
    let target = target.canonicalize().ok()?;
    let mounts = host::mounts();
    let source = &host::mount_around(&mounts, &target)?.source;
    let data = source.metadata().ok()?;
    data.file_type().is_block_device().then(|| data.rdev())
}

/// Returns the disk with a queue below a device: itself, or the only one below mapped devices.
///
/// # Errors
/// It lies on several disks, or on none whose requests can be seen.
pub(super) fn disk_below(name: &str) -> Result<Device, Failure> {
    let mut name = name.to_owned();
    // Mapped devices lie on others; a few levels are usual.
    for _ in 0..16 {
        let slaves = fs::read_dir(format!("/sys/class/block/{name}/slaves"));
        let slaves: Vec<_> = slaves.into_iter().flatten().flatten().collect();
        match &slaves[..] {
            [] => break,
            [one] => name = one.file_name().to_string_lossy().into_owned(),
            _ => break,
        }
    }
    Device::find(Path::new(&format!("/dev/{name}")))
}

/// Returns all disks of this machine whose requests can be seen.
pub(super) fn all_disks() -> Vec<Device> {
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let path = |name: std::ffi::OsString| Path::new("/dev").join(name);
    names.filter_map(|entry| Device::find(&path(entry.file_name())).ok()).collect()
}
