//! Recognises file systems and containers by their first bytes.
//!
//! Sources: libblkid of util-linux, `superblocks`.

use crate::bytes::part;
use crate::device::Part;
use crate::ext4;
use crate::fault::Step;
use crate::map::Kind;
use crate::xfs;

/// Bytes that are looked at: the mark of Btrfs is after 64 KiB.
const BYTES: usize = 68 << 10;

/// Marks: position, bytes, kind.
const MARKS: [(usize, &[u8], Kind); 15] = [
    (0, b"LUKS\xba\xbe", Kind::Luks),
    (512 + 24, b"LVM2 001", Kind::Lvm),
    (24, b"LVM2 001", Kind::Lvm),
    (3, b"NTFS    ", Kind::Ntfs),
    (3, b"EXFAT   ", Kind::ExFat),
    (82, b"FAT32   ", Kind::Fat),
    (54, b"FAT16   ", Kind::Fat),
    (54, b"FAT12   ", Kind::Fat),
    (0x1_0040, b"_BHRfS_M", Kind::Btrfs),
    (4096 - 10, b"SWAPSPACE2", Kind::Swap),
    (8192 - 10, b"SWAPSPACE2", Kind::Swap),
    (16384 - 10, b"SWAPSPACE2", Kind::Swap),
    (65536 - 10, b"SWAPSPACE2", Kind::Swap),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], Kind::Raid),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], Kind::Raid),
];

/// Returns the kind of a partition's contents. None: no mark is there.
pub(crate) fn detect(partition: &mut Part<'_, '_>) -> Step<Option<Kind>> {
    let length = partition.bytes().min(BYTES as u64) as usize;
    let start = partition.read_vec(0, length)?;
    if xfs::is_there(&start) {
        return Ok(Some(Kind::Xfs));
    }
    let has = |(at, mark, _): &&(usize, &[u8], Kind)| part(&start, *at, mark.len()) == *mark;
    if let Some((_, _, kind)) = MARKS.iter().find(has) {
        return Ok(Some(*kind));
    }
    Ok(ext4::is_there(&start).then_some(Kind::Ext4))
}
