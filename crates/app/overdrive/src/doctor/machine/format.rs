//! Checks of a disk's partitions and formats: alignment, and sizes of sectors and blocks.

use super::Finding;
use super::disk::{Disk, Mounted};
use block::Size;

/// Judges the starts of partitions.
pub(super) fn alignment(disk: &Disk) -> Finding {
    // A drive's physical block is at least a page of flash, whatever an SSD reports.
    let unit = match disk.is_rotational {
        true => disk.physical_bytes,
        false => disk.physical_bytes.max(4096),
    };
    let off = |start: u64, offset: i64| offset != 0 || !start.is_multiple_of(unit);
    let wrong = disk.parts.iter().find(|part| off(part.start_bytes, part.offset_bytes));
    let Some(part) = wrong else {
        return Finding::ok(match disk.parts.len() {
            0 => "no partitions".to_owned(),
            count => format!("{count} partitions on borders of {}", Size(unit)),
        });
    };
    Finding::costs(
        format!(
            "{} begins at byte {}, inside a block of {}",
            part.name,
            part.start_bytes,
            Size(unit)
        ),
        "each write of 4 KiB touches two physical blocks, which the drive reads, changes and writes \
         (computed; on a hard disk that takes one revolution more, 8.3 ms at 7,200 rpm)",
        format!(
            "save its data, and create the partition at 1MiB: parted -a optimal /dev/{}",
            disk.name
        ),
    )
}

/// Judges sizes of blocks on drives of larger physical blocks.
pub(super) fn sector_size(disk: &Disk) -> Finding {
    let physical = disk.physical_bytes;
    if let Some(crypt) = disk.small_crypt.first().filter(|_| physical >= 4096) {
        let name = crypt.rsplit('/').next().unwrap_or_default();
        return Finding::costs(
            format!("{name} encrypts sectors of 512 bytes on blocks of {}", Size(physical)),
            "8 initialization vectors and 8 calls of the cipher for each 4 KiB instead of 1 \
             (cryptsetup 2.4.0 and later choose 4096 themselves on such drives)",
            format!("cryptsetup reencrypt --sector-size 4096 on the device below /dev/{name}"),
        );
    }
    let is_small = |mount: &&Mounted| {
        mount.space.is_some_and(|space| space.block_bytes > 0 && space.block_bytes < physical)
    };
    match disk.mounts.iter().find(is_small) {
        Some(mount) => {
            let block = mount.space.map_or(0, |space| space.block_bytes);
            Finding::costs(
                format!(
                    "{} has blocks of {} on physical blocks of {}",
                    mount.point.display(),
                    Size(block),
                    Size(physical)
                ),
                format!(
                    "a write of one block makes the drive read, change and write {} (computed)",
                    Size(physical)
                ),
                format!(
                    "save its data, and create the file system again: mkfs.{} with blocks of {physical}",
                    mount.kind
                ),
            )
        }
        None => Finding::ok(format!("physical blocks of {}", Size(physical))),
    }
}
