//! A cheap test whether bytes look random.
//!
//! It counts equal pairs in a sample of a block. Among random bytes one pair in 256 is equal. Text,
//! code and tables have several times as many, also where no string repeats.

/// Runs of neighbouring bytes in the sample, and their length. Their distance is no multiple of a
/// likely record's size.
const RUNS: usize = 16;
const RUN_BYTES: usize = 32;
const SAMPLE: u32 = (RUNS * RUN_BYTES) as u32;
/// Equal pairs in a sample of random bytes, and their standard deviation.
const RANDOM_PAIRS: u32 = SAMPLE * (SAMPLE - 1) / 2 / 256;
const DEVIATION: u32 = RANDOM_PAIRS.isqrt();
/// Bytes with no more equal pairs look random.
const LOOKS_RANDOM_MAX: u32 = RANDOM_PAIRS + 6 * DEVIATION;

/// Whether a block looks random, so that no codec would shorten it by a fifth. A block that is not
/// longer than two samples does not: its compression takes no longer than the test.
pub(super) fn looks_random(block: &[u8]) -> bool {
    if block.len() < 2 * SAMPLE as usize {
        return false;
    }
    // Two tables: neighbouring equal bytes do not wait for one another.
    let mut counts = [[0u16; 256]; 2];
    for run in block.chunks_exact(block.len() / RUNS).take(RUNS) {
        for pair in run[..RUN_BYTES].chunks_exact(2) {
            counts[0][usize::from(pair[0])] += 1;
            counts[1][usize::from(pair[1])] += 1;
        }
    }
    let [even, odd] = &counts;
    let squares: u32 = even
        .iter()
        .zip(odd)
        .map(|(even, odd)| {
            let count = u32::from(even + odd);
            count * count
        })
        .sum();
    (squares - SAMPLE) / 2 <= LOOKS_RANDOM_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::Random;

    #[test]
    fn random_bytes_look_random_and_others_do_not() {
        let mut random = Random::new(3);
        let mut block = [0; 4096];
        for _ in 0..1000 {
            block.fill_with(|| random.below(256) as u8);
            assert!(looks_random(&block) && looks_random(&block[..1048]));
            assert!(!looks_random(&block[..512]), "too short");
            // As text in base 64, and as numbers below 65536 in four bytes.
            let letters = block.map(|byte| byte % 64 + 32);
            assert!(!looks_random(&letters));
            let mut numbers = block;
            numbers.chunks_exact_mut(4).for_each(|number| number[2..].fill(0));
            assert!(!looks_random(&numbers));
        }
    }
}
