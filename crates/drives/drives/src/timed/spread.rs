//! Variation between requests of the same kind: the pages of a cell, differences between dies and
//! between blocks, and the firmware's own tasks. Everything is drawn by number from a seed: the
//! number of the command, the task, the die or the block. Nothing is drawn for a drive as a whole.

use lane::Random;

/// The spread of latencies. Factors are in 1/256 and average to 256, so that rates do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Number of pages of a cell, which are adjacent in a block; 1: all pages are alike.
    pub page_types: u32,
    /// Read time of each of them.
    pub read_256: [u32; 4],
    /// Program time of each of them.
    pub program_256: [u32; 4],
    /// Maximum deviation of a die's times.
    pub die_256: u32,
    /// Maximum deviation of a block's times.
    pub block_256: u32,
    /// Mean of the additional wait of each command for the controller and the link; exponential.
    pub jitter_ns: u64,
    /// Mean time between two of the firmware's own tasks, which vary by half of it; 0: no tasks.
    pub task_every_ns: u64,
    /// Mean duration of such a task; exponential. Commands wait for it.
    pub task_ns: u64,
}

impl Spread {
    /// No spread: everything takes exactly its time.
    pub const NONE: Spread = Spread {
        page_types: 1,
        read_256: [256; 4],
        program_256: [256; 4],
        die_256: 0,
        block_256: 0,
        jitter_ns: 0,
        task_every_ns: 0,
        task_ns: 0,
    };

    /// Returns the spread of cells with this number of bits. Reads take longer the more levels they
    /// distinguish; programs do if the pages of a cell are written one after the other, but not if
    /// all bits are written together.
    ///
    /// The ratios are FEMU's: Micron L95B for two bits, 48 and 64 us to read, 850 and 2300 to
    /// program; for three 56.5, 77.5 and 106, and 820.5, 2225 and 5734; for four bits 1.05, 1.1,
    /// 1.2 and 1.6 to read.
    pub fn of_cells(bits: u32, one_shot: bool) -> Spread {
        let (read, program) = match bits {
            2 => ([48.0, 64.0, 0.0, 0.0], [850.0, 2300.0, 0.0, 0.0]),
            3 => ([56.5, 77.5, 106.0, 0.0], [820.5, 2225.0, 5734.0, 0.0]),
            4 => ([1.05, 1.1, 1.2, 1.6], [1.0; 4]),
            _ => return Spread::NONE,
        };
        let factors = |times: [f64; 4]| {
            let mean = times.iter().sum::<f64>() / f64::from(bits);
            times.map(|time| (time / mean * 256.0 + 0.5) as u32)
        };
        let program_256 = if one_shot { [256; 4] } else { factors(program) };
        Spread { page_types: bits, read_256: factors(read), program_256, ..Spread::NONE }
    }

    /// Returns the index of this page among the pages of its cells.
    #[inline]
    pub(super) fn page_type(&self, page: u32) -> usize {
        match self.page_types {
            1 => 0,
            types => (page % types) as usize,
        }
    }

    /// Returns the factor of a die's times.
    pub(super) fn die_factor_256(&self, seed: u64, die: u32) -> u32 {
        factor_256(self.die_256, Random::nth(seed ^ 0xbb67_ae85_84ca_a73b, u64::from(die))) as u32
    }

    /// Returns the factor of a block's times, relative to those of its die.
    #[inline]
    pub(super) fn block_factor_256(&self, seed: u64, superblock: u32, die: u32) -> u64 {
        if self.block_256 == 0 {
            return 256;
        }
        let number = u64::from(superblock) << 32 | u64::from(die);
        factor_256(self.block_256, Random::nth(seed, number))
    }

    /// Returns the additional wait of this command.
    #[inline]
    pub(super) fn wait_ns(&self, seed: u64, command: u64) -> u64 {
        if self.jitter_ns == 0 {
            return 0;
        }
        exponential(self.jitter_ns, Random::nth(seed ^ 0x6a09_e667_f3bc_c908, command) as u32)
    }

    /// Returns the duration of the firmware's task of this number, and the time from its beginning
    /// to that of the next one.
    pub(super) fn task(&self, seed: u64, number: u64) -> (u64, u64) {
        let drawn = Random::nth(seed ^ 0x3c6e_f372_fe94_f82b, number);
        let varied = (u128::from(self.task_every_ns) * u128::from(drawn >> 32)) >> 32;
        (exponential(self.task_ns, drawn as u32), self.task_every_ns / 2 + varied as u64)
    }
}

/// Returns a factor that deviates from 1 by at most this part, evenly, from random bits.
#[inline]
fn factor_256(most_256: u32, drawn: u64) -> u64 {
    let width = 2 * u64::from(most_256) + 1;
    256 - u64::from(most_256) + (((drawn >> 32) * width) >> 32)
}

/// Returns an exponential time of this mean, from 32 random bits. It is drawn for each command, so
/// the logarithm is computed from the leading zeros and a polynomial (error at most 0.1 % of the
/// mean).
#[inline]
fn exponential(mean: u64, bits: u32) -> u64 {
    let odd = u64::from(bits) << 1 | 1;
    // Of 33 bits: the share is odd / 2^33, a power of two times a factor from 1 up to 2.
    let zeros = odd.leading_zeros() - 31;
    let part = (odd << (zeros + 31) << 1) as f64 / 18_446_744_073_709_551_616.0;
    let logarithm = part * (1.420_9 + part * (-0.577_3 + part * 0.156_4));
    let nats = (f64::from(zeros) + 1.0 - logarithm) * core::f64::consts::LN_2;
    (nats.max(0.0) * mean as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_average_to_one() {
        for bits in 1..=4 {
            for one_shot in [false, true] {
                let spread = Spread::of_cells(bits, one_shot);
                for factors in [spread.read_256, spread.program_256] {
                    let used = &factors[..spread.page_types as usize];
                    let mean = f64::from(used.iter().sum::<u32>()) / used.len() as f64;
                    assert!((mean - 256.0).abs() < 1.0, "{bits} bits: {used:?}");
                }
            }
        }
        let spread = Spread { block_256: 16, ..Spread::NONE };
        let drawn: alloc::vec::Vec<u64> =
            (0..10_000).map(|block| spread.block_factor_256(1, block, 3)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean - 256.0).abs() < 1.0 && drawn.iter().all(|it| (240..=272).contains(it)));
    }

    #[test]
    fn exponential_times_are_near_those_of_a_true_logarithm() {
        for bits in [0, 1, 2, 3, 1000, 1 << 16, 1 << 31, (1 << 31) - 1, u32::MAX - 1, u32::MAX] {
            let share = (f64::from(bits) + 0.5) / 4_294_967_296.0;
            let off = exponential(1_000_000, bits) as f64 + libm::log(share) * 1e6;
            assert!(off.abs() < 1_000.0, "{bits}: {off}");
        }
    }

    #[test]
    fn waits_and_tasks_follow_from_their_numbers() {
        let spread =
            Spread { jitter_ns: 1000, task_ns: 100_000, task_every_ns: 400_000, ..Spread::NONE };
        let mean = |of: fn(&Spread, u64) -> u64| {
            (0..1_000_000).map(|number| of(&spread, number)).sum::<u64>() as f64 / 1e6
        };
        for (of, expected) in [
            ((|spread, number| spread.wait_ns(7, number)) as fn(&Spread, u64) -> u64, 1000.0),
            (|spread, number| spread.task(7, number).0, 100_000.0),
            (|spread, number| spread.task(7, number).1, 400_000.0),
        ] {
            let found = mean(of);
            assert!((found / expected - 1.0).abs() < 0.02, "{found} instead of {expected}");
        }
        assert_ne!(spread.wait_ns(8, 123), spread.wait_ns(7, 123));
        assert_ne!(spread.task(8, 123), spread.task(7, 123));
    }
}
