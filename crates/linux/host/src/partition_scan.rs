//! The kernel's list of a device's partitions, after their table was changed.
//!
//! Sources: include/uapi/linux/fs.h, block/ioctl.c (`BLKRRPART`), block/genhd.c
//! (`disk_scan_partitions`).
#![allow(unsafe_code)]

use rustix::io::{self, Errno};
use rustix::ioctl::{NoArg, Opcode, ioctl};
use std::os::fd::AsFd;

/// `BLKRRPART`.
const SCAN: Opcode = 0x125F;

/// Has the kernel read the partition table of a whole device again. The descriptor may be one that
/// has the device open exclusively. Succeeds for a device whose partitions the kernel never shows.
///
/// # Errors
/// Those of the system: a program has a partition open (`BUSY`), or the device has failed.
pub(crate) fn scan_partitions(device: impl AsFd) -> io::Result<()> {
    // SAFETY: BLKRRPART takes no argument.
    match unsafe { ioctl(device, NoArg::<SCAN>::new()) } {
        Err(Errno::INVAL | Errno::NOTTY) => Ok(()),
        scanned => scanned,
    }
}
