//! Loads with one working set at a time, interrupted or replaced.

use super::draws::{magnitude, skewed};
use lane::Random;

/// The first block of areas that are read in scans.
const SCANNED: u64 = 1 << 32;
/// The first block of working sets that are not the first one.
const OTHERS: u64 = 1 << 40;

/// A skewed working set, and scans beside it: two reads of the scan for each other read.
pub(super) fn scans(random: &mut Random, reads: usize) -> Vec<u64> {
    let (hot, power) = (magnitude(random, 8_000, 32_000), 2 + random.below(2) as u32);
    let mut blocks = Vec::new();
    let mut nights = 0;
    while blocks.len() < reads {
        for _ in 0..magnitude(random, 10_000, 40_000) {
            blocks.push(skewed(random, hot, power));
        }
        // Half of the scans read the same files as the night before.
        nights += random.below(2);
        let from = SCANNED + (nights << 24);
        for block in from..from + magnitude(random, 4_000, 32_000) {
            blocks.push(block);
            if block % 2 == 0 {
                blocks.push(skewed(random, hot, power));
            }
        }
    }
    blocks
}

/// Working sets that replace one another; one in three has been there before. A tenth of the
/// reads are of blocks that are read once.
pub(super) fn shifts(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut blocks = Vec::new();
    let mut sets: Vec<(u64, u64, u32)> = Vec::new();
    while blocks.len() < reads {
        let old = random.below(3 * sets.len() as u64 + 1) as usize;
        let (from, hot, power) = sets.get(old).copied().unwrap_or_else(|| {
            let from = OTHERS + ((sets.len() as u64) << 24);
            (from, magnitude(random, 1_000, 8_000), 1 + random.below(3) as u32)
        });
        if old >= sets.len() {
            sets.push((from, hot, power));
        }
        for _ in 0..magnitude(random, 8_000, 64_000) {
            blocks.push(match random.one_in(10) {
                true => SCANNED + blocks.len() as u64,
                false => from + skewed(random, hot, power),
            });
        }
    }
    blocks
}

/// Days of a skewed working set, and nights in which a job reads its tables several times in order.
pub(super) fn daynight(random: &mut Random, reads: usize) -> Vec<u64> {
    let (hot, power) = (magnitude(random, 16_000, 48_000), 2 + random.below(2) as u32);
    let tables = magnitude(random, 8_000, 32_000);
    let (day, rounds) = (magnitude(random, 20_000, 80_000), 1 + random.below(4));
    let mut blocks = Vec::new();
    while blocks.len() < reads {
        (0..day).for_each(|_| blocks.push(skewed(random, hot, power)));
        (0..rounds).for_each(|_| blocks.extend(SCANNED..SCANNED + tables));
    }
    blocks
}
