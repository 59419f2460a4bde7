//! Checks each map, whatever volume it is of.

use crate::sparse::Sparse;
use files::{Bounds, Map, Owner, Sums, map_volume};

/// Marks of the superblocks.
pub(crate) const EXT4_MARK: [u8; 2] = [0x53, 0xef];
pub(crate) const EXT4_AT: u64 = 1024 + 0x38;
pub(crate) const XFS_MARK: [u8; 4] = *b"XFSB";

/// Bounds that a small volume reaches only if it is hostile.
pub(crate) fn bounds() -> Bounds {
    Bounds {
        read_bytes: 16 << 20,
        failed_reads: 4,
        steps: 1 << 15,
        peeks: 32,
        depth: 20,
        memory_bytes: 1 << 20,
    }
}

/// Makes the map of a volume, and checks everything that holds for any volume.
///
/// # Panics
/// If something does not hold.
pub(crate) fn judge(volume: &mut Sparse) -> Map {
    let bounds = bounds();
    volume.read_bytes = 0;
    let map = map_volume(volume, &bounds, 1);
    assert!(volume.read_bytes <= bounds.read_bytes, "{} bytes were read", volume.read_bytes);
    assert!(map.bytes().len() <= bounds.memory_bytes, "{} bytes", map.bytes().len());
    let mut end = 0;
    for extent in map.extents() {
        assert!(extent.first >= end && extent.sectors > 0, "{extent:?} after {end}");
        end = extent.end();
        let path = map.path(extent.owner);
        assert_eq!(path.is_none(), extent.owner == Owner::None);
    }
    assert!(end <= volume.sectors, "extents beyond the end");
    for system in map.systems() {
        assert!(system.first + system.sectors <= volume.sectors, "{system:?}");
    }
    let again = Map::parse(map.bytes().to_vec()).expect("its own format");
    assert_eq!(Sums::of_map(&again), Sums::of_map(&map));
    map
}

/// Judges the volume in the input of a fuzzer, with these bytes at a position: a reader's mark, so
/// that inputs without one reach it.
pub(crate) fn judge_input(input: &[u8], mark: &[u8], at: u64) {
    let mut volume = Sparse::decode(input);
    // Larger volumes would only have more zeros.
    volume.sectors = volume.sectors.min(1 << 31);
    for (index, byte) in mark.iter().enumerate() {
        volume.set(at + index as u64, *byte);
    }
    judge(&mut volume);
}

/// Reads any bytes as a map, and uses all of it.
pub(crate) fn parse(input: &[u8]) {
    let mut bytes = input.to_vec();
    if bytes.len() >= 16 {
        // Else the checks of mark, version and checksum would refuse nearly every input.
        bytes[..12].copy_from_slice(b"ODFILMAP\x01\0\0\0");
        let checksum = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    let Ok(map) = Map::parse(bytes) else { return };
    let mut last = 0;
    for extent in map.extents().take(1000) {
        last = extent.first;
        let found = map.find(extent.first);
        assert_eq!(found.as_ref(), Some(&extent));
        let _ = (map.path(extent.owner), map.block(extent.first / 8));
    }
    for number in [0, 1, 63, 64, u32::MAX] {
        let _ = (map.path(Owner::File(number)), map.path(Owner::Directory(number)));
    }
    let _ = (map.find(last.saturating_add(1)), map.within(last, u64::MAX).count());
    if map.directories() < 1 << 16 {
        let sums = Sums::of_map(&map);
        assert_eq!(sums.directories(&map).len() as u32, map.directories());
    }
}
