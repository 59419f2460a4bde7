//! Random choices that the families share.

use lane::Random;

/// Returns a number from `from` to `to`, all magnitudes equally likely.
pub(super) fn magnitude(random: &mut Random, from: u64, to: u64) -> u64 {
    let doublings = (to / from).max(1).ilog2();
    let scaled = from << random.below(u64::from(doublings) + 1);
    (scaled + random.below(scaled)).min(to)
}

/// Returns a number below `count`. Low numbers are more frequent: with 1 all are equally frequent,
/// with 2 the first tenth has a third of the draws, with 3 more than half.
pub(super) fn skewed(random: &mut Random, count: u64, power: u32) -> u64 {
    (0..power).fold(count, |bound, _| random.below(bound.max(1)))
}
