//! The position of a partition on its disk.

use std::fs;
use std::io;

/// Returns the first sector, of 512 bytes, of the partition with this device number on its disk. 0:
/// the device is no partition.
///
/// # Errors
/// The system's errors; `InvalidData`: the kernel's description of the device has another form.
pub fn first_sector(device: u64) -> io::Result<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    match fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/start")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
        Ok(text) => text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into()),
    }
}
