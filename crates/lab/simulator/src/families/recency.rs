//! Loads in which recent blocks are read most.

use super::draws::{magnitude, skewed};
use lane::Random;

/// The first block of those that are read once.
const ONCE: u64 = 1 << 32;
/// Maximum number of blocks in [`stack`].
const DEEP: u64 = 12_000;

/// The end of the data advances; reads are behind it, most of them close to it. The number of
/// blocks read per block written, and how far back reads reach, change from phase to phase.
pub(super) fn drift(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut end = 50_000;
    let mut blocks = Vec::new();
    while blocks.len() < reads {
        let (reach, power) = (magnitude(random, 1_000, 16_000), 1 + random.below(3) as u32);
        let per_new = 3 + random.below(12);
        for _ in 0..magnitude(random, 10_000, 60_000) {
            end += u64::from(random.one_in(per_new));
            blocks.push(end - skewed(random, reach, power));
        }
    }
    blocks
}

/// The next block is chosen by the number of other blocks since its last read. In some phases
/// every second read is of a block that is read once.
pub(super) fn stack(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut blocks = Vec::new();
    // The block that was read last is at the end.
    let mut recent: Vec<u64> = (0..DEEP).collect();
    let mut fresh = DEEP;
    while blocks.len() < reads {
        let depth = magnitude(random, 1_000, DEEP);
        let power = 1 + random.below(2) as u32;
        let has_scans = random.one_in(3);
        for _ in 0..magnitude(random, 10_000, 60_000) {
            if has_scans && random.one_in(2) {
                blocks.push(ONCE + blocks.len() as u64);
                continue;
            }
            let above = skewed(random, depth, power) as usize;
            let mut block = recent.remove(recent.len() - 1 - above);
            // The deepest are replaced, so that the set of blocks changes.
            if above as u64 > depth * 9 / 10 {
                (block, fresh) = (fresh, fresh + 1);
            }
            recent.push(block);
            blocks.push(block);
        }
    }
    blocks
}
