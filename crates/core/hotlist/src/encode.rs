//! Writing a list.

use crate::header::{self, put_number};
use crate::{BLOCKS_MAX, CLASSES, Description, Entry, MAGIC};
use alloc::vec::Vec;

/// Mean distance of a class's blocks, in blocks, up to which they take at most three bytes each:
/// 64 MiB. The length of a number grows with its logarithm, so the mean length is largest if all
/// distances are the mean.
const DISTANCE_MAX: u64 = 1 << 14;

/// Returns the list of these blocks. Sorts them; a block that occurs twice keeps its hottest class.
///
/// # Panics
/// If the identity is longer than [`crate::IDENTITY_MAX`], or a block lies beyond the volume's end.
pub fn encode(of: &Description, mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_unstable();
    entries.truncate(BLOCKS_MAX);
    let shift = merge_shift(entries.len() as u64, of.volume_blocks);
    if shift > 0 {
        entries.iter_mut().for_each(|entry| *entry = entry.merged(shift));
        entries.sort_unstable();
    }
    let classes = CLASSES >> shift;
    let mut counts = [0u32; CLASSES as usize];
    let mut coded = Vec::with_capacity(3 * entries.len());
    let mut before: Option<Entry> = None;
    for entry in entries {
        assert!(entry.block() < of.volume_blocks, "a block of the volume");
        let number = match before {
            Some(last) if last == entry => continue,
            Some(last) if last.class() == entry.class() => entry.block() - last.block() - 1,
            _ => entry.block(),
        };
        put_number(&mut coded, number);
        counts[entry.class() as usize] += 1;
        before = Some(entry);
    }
    let mut bytes = header::begin(&MAGIC, of, classes as u16, 4 * counts.len() + coded.len());
    for count in &counts[..classes as usize] {
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    bytes.append(&mut coded);
    header::seal(&mut bytes);
    bytes
}

/// Returns the shift that makes classes of a sparse list one.
fn merge_shift(blocks: u64, volume_blocks: u64) -> u32 {
    let is_dense = |shift: &u32| {
        let in_class = blocks / u64::from(CLASSES >> shift);
        in_class.saturating_mul(DISTANCE_MAX) >= volume_blocks
    };
    (0..CLASSES.ilog2()).find(is_dense).unwrap_or(CLASSES.ilog2())
}
