//! Partition tables of PCs, in the first sector.
//!
//! Source: util-linux, `libblkid/src/partitions/dos.c`.

use super::{Partition, Table};
use crate::SECTOR_BYTES;
use crate::bytes::{byte, le16, le32};
use crate::device::{Device, Part};
use crate::fault::Step;

const MARK: u16 = 0xaa55;
const TABLE_AT: usize = 446;
const ENTRY: usize = 16;
/// Types of partitions that contain logical ones.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Maximum number of logical partitions.
const LOGICAL_MAX: u32 = 128;

/// An entry of a table.
struct Entry {
    kind: u8,
    first: u64,
    sectors: u64,
}

/// Returns the entries of a table. None: it is not a table.
fn entries(sector: &[u8]) -> Option<[Entry; 4]> {
    let raw = |index: usize| &sector[TABLE_AT + index * ENTRY..][..ENTRY];
    // A boot sector without a table has code there.
    let is_table = le16(sector, 510) == MARK && (0..4).all(|at| byte(raw(at), 0) & 0x7f == 0);
    let entry = |index: usize| {
        let raw = raw(index);
        let (first, sectors) = (u64::from(le32(raw, 8)), u64::from(le32(raw, 12)));
        Entry { kind: byte(raw, 4), first, sectors }
    };
    is_table.then(|| [0, 1, 2, 3].map(entry))
}

pub(super) fn read(device: &mut Device<'_>) -> Step<Option<Table>> {
    let sectors = device.bytes() / SECTOR_BYTES;
    let mut whole = Part::new(device, 0, sectors);
    let mut sector = [0; SECTOR_BYTES as usize];
    whole.read(0, &mut sector)?;
    let Some(found) = entries(&sector) else { return Ok(None) };
    let mut table = Table::default();
    table.metadata.push((0, 1));
    let mut extended = None;
    for (entry, number) in found.into_iter().zip(1..) {
        if entry.kind == 0 || entry.sectors == 0 || entry.first == 0 || entry.first >= sectors {
            continue;
        }
        if EXTENDED.contains(&entry.kind) {
            extended = extended.or(Some(entry.first));
        } else {
            let (first, sectors) = (entry.first, entry.sectors);
            table.partitions.push(Partition { number, first, sectors });
        }
    }
    if let Some(start) = extended {
        logical(&mut whole, start, &mut table)?;
    }
    Ok((!table.partitions.is_empty()).then_some(table))
}

/// Adds the logical partitions of the extended one that begins here: a chain of tables, each with a
/// partition and the position of the next table.
fn logical(whole: &mut Part<'_, '_>, start: u64, table: &mut Table) -> Step {
    let mut next = 0;
    for number in 5..5 + LOGICAL_MAX {
        let at = start + next;
        let mut sector = [0; SECTOR_BYTES as usize];
        if whole.read(at * SECTOR_BYTES, &mut sector).is_err() {
            return Ok(());
        }
        let Some([entry, link, ..]) = entries(&sector) else { return Ok(()) };
        table.metadata.push((at, 1));
        if entry.kind != 0 && entry.sectors > 0 {
            let (first, sectors) = (at + entry.first, entry.sectors);
            table.partitions.push(Partition { number, first, sectors });
        }
        if !EXTENDED.contains(&link.kind) || link.first <= next {
            return Ok(());
        }
        next = link.first;
    }
    Ok(())
}
