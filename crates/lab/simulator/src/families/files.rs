//! Whole files, read in order.

use super::draws::{magnitude, skewed};
use lane::Random;

/// Number of files, and the number of blocks at which each begins at the earliest.
const FILES: u64 = 600;
const APART: u64 = 4_096;

/// Files of 8 to 2,048 blocks. One in three is read twice in succession. In each phase other files
/// are popular.
pub(super) fn files(random: &mut Random, reads: usize) -> Vec<u64> {
    let sizes: Vec<u64> = (0..FILES).map(|_| magnitude(random, 8, 2_048)).collect();
    let mut blocks = Vec::new();
    while blocks.len() < reads {
        let (popular, power) = (random.below(FILES), 1 + random.below(3) as u32);
        let count = magnitude(random, 20, FILES);
        let end = blocks.len() + magnitude(random, 16_000, 128_000) as usize;
        while blocks.len() < end {
            let file = (popular + skewed(random, count, power)) % FILES;
            for _ in 0..1 + u64::from(random.one_in(3)) {
                blocks.extend(file * APART..file * APART + sizes[file as usize]);
            }
        }
    }
    blocks
}
