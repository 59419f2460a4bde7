//! Partition tables.

mod gpt;
mod mbr;

use crate::device::Device;
use crate::fault::Step;
use alloc::vec::Vec;

/// A partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Partition {
    /// Its number, as in the name of its device.
    pub(crate) number: u32,
    /// First sector of 512 bytes.
    pub(crate) first: u64,
    /// Number of sectors of 512 bytes.
    pub(crate) sectors: u64,
}

/// A partition table: its own sectors (first, number), and the partitions.
#[derive(Default, Debug)]
pub(crate) struct Table {
    pub(crate) metadata: Vec<(u64, u64)>,
    pub(crate) partitions: Vec<Partition>,
}

/// Returns the GUID partition table of a volume. None: there is none.
pub(crate) fn gpt(device: &mut Device<'_>) -> Step<Option<Table>> {
    gpt::read(device)
}

/// Returns the partition table in the first sector of a volume, with its logical partitions. None:
/// there is none.
pub(crate) fn mbr(device: &mut Device<'_>) -> Step<Option<Table>> {
    mbr::read(device)
}
