//! GUID partition tables.
//!
//! Source: UEFI specification 2.10, chapter 5.

use super::{Partition, Table};
use crate::SECTOR_BYTES;
use crate::bytes::{le32, le64};
use crate::device::{Device, Part};
use crate::fault::{Fault, Step};

const MARK: &[u8] = b"EFI PART";
/// Bytes of a header that are read.
const HEADER: usize = 512;
/// Maximum number of entries: tables have 128.
const ENTRIES_MAX: u64 = 1024;

/// Returns the table of a volume with blocks of 512 or 4096 bytes: the primary one, or its copy at
/// the end.
pub(super) fn read(device: &mut Device<'_>) -> Step<Option<Table>> {
    for block in [SECTOR_BYTES, 4096] {
        let blocks = device.bytes() / block;
        for at in [1, blocks.saturating_sub(1)] {
            match table(device, block, at) {
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                Ok(Some(table)) => return Ok(Some(table)),
                Err(_) | Ok(None) => {}
            }
        }
    }
    Ok(None)
}

/// Reads the table whose header is in block `at`.
fn table(device: &mut Device<'_>, block: u64, at: u64) -> Step<Option<Table>> {
    let bytes = device.bytes();
    let mut whole = Part::new(device, 0, bytes / SECTOR_BYTES);
    let position = at.checked_mul(block).ok_or(Fault::Damaged)?;
    let header = whole.read_vec(position, HEADER)?;
    let length = le32(&header, 12) as usize;
    if !header.starts_with(MARK) || !(92..=HEADER).contains(&length) || le64(&header, 24) != at {
        return Ok(None);
    }
    let mut sealed = header[..length].to_vec();
    sealed[16..20].fill(0);
    let (entries, entry) = (u64::from(le32(&header, 80)), u64::from(le32(&header, 84)));
    let is_sound = crc32fast::hash(&sealed) == le32(&header, 16)
        && entries <= ENTRIES_MAX
        && (128..=4096).contains(&entry)
        && entry % 8 == 0;
    if !is_sound {
        return Ok(None);
    }
    let start = le64(&header, 72).checked_mul(block).ok_or(Fault::Damaged)?;
    let list = whole.read_vec(start, (entries * entry) as usize)?;
    if crc32fast::hash(&list) != le32(&header, 88) {
        return Ok(None);
    }
    let per_block = block / SECTOR_BYTES;
    let mut table = Table::default();
    table.metadata.push((0, per_block));
    let length = list.len().div_ceil(SECTOR_BYTES as usize) as u64;
    table.metadata.push((start / SECTOR_BYTES, length));
    for header in [at, le64(&header, 32)] {
        table.metadata.push((header.saturating_mul(per_block), per_block));
    }
    for (index, entry) in list.chunks_exact(entry as usize).enumerate() {
        let (first, last) = (le64(entry, 32), le64(entry, 40));
        if entry[..16] != [0; 16] && first > 0 && first <= last {
            let sectors = (last - first).saturating_add(1).saturating_mul(per_block);
            let first = first.saturating_mul(per_block);
            table.partitions.push(Partition { number: index as u32 + 1, first, sectors });
        }
    }
    Ok(Some(table))
}
