//! The file sets of FileBench: number of files, total size, compressibility.
//!
//! Source: The Tech Report's reviews of SSDs, 2011 to 2014. They give the number of files, their
//! mean size, the sum, and the compressibility of each set. Number times mean differs from the sum
//! by up to 4 %; the sum is used here. The reviews do not give the distribution of sizes about the
//! mean: it is this project's own.

use lane::Random;

/// Files that are copied together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FileSet {
    /// Its name in the reviews.
    pub name: &'static str,
    /// Number of files.
    pub files: u64,
    /// Total of their bytes.
    pub bytes: u64,
    /// Reduction of size by a compressor, in percent.
    pub compressible_percent: f64,
    /// The standard deviation of the sizes' natural logarithm.
    pub spread: f64,
}

/// The five sets, in the order of the reviews.
pub static FILE_SETS: [FileSet; 5] = [
    set("Movie", 6, 4_100_000_000, 0.5, 0.05),
    set("RAW", 101, 2_320_000_000, 3.2, 0.1),
    set("MP3", 549, 3_470_000_000, 0.5, 0.4),
    set("TR", 26_767, 1_700_000_000, 53.0, 1.5),
    set("Mozilla", 22_696, 923_000_000, 91.0, 1.5),
];

const fn set(
    name: &'static str,
    files: u64,
    bytes: u64,
    compressible_percent: f64,
    spread: f64,
) -> FileSet {
    FileSet { name, files, bytes, compressible_percent, spread }
}

/// Number of uniform draws: their sum has a variance of 1 and is close enough to a normal
/// distribution here.
const DRAWS: u32 = 12;
/// Number of steps of a uniform draw.
const STEPS: u64 = 1 << 32;

impl FileSet {
    /// Scales the set to a percentage (above 0, at most 100): fewer files of the same size, or a
    /// smaller one if less than one file is left.
    pub fn scaled(&self, percent: f64) -> FileSet {
        let share = percent / 100.0;
        let bytes = (self.bytes as f64 * share).round().max(1.0) as u64;
        let files = ((self.files as f64 * share).round() as u64).clamp(1, self.files);
        FileSet { files, bytes, ..*self }
    }

    /// Returns the size of each file in bytes, at least 1. The sizes follow from the seed, and add
    /// up to the set's bytes if there are at least as many bytes as files.
    pub fn sizes(&self, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed ^ self.files.rotate_left(17) ^ self.bytes);
        let mut weight = || {
            let draw = |_| random.below(STEPS) as f64 / STEPS as f64;
            let normal = (0..DRAWS).map(draw).sum::<f64>() - f64::from(DRAWS) / 2.0;
            (self.spread * normal).exp()
        };
        let weights: Vec<f64> = (0..self.files).map(|_| weight()).collect();
        let all: f64 = weights.iter().sum();
        let left = self.bytes.saturating_sub(self.files);
        // The ends of files are rounded, not their sizes, so that rounding errors do not add up.
        let (mut sum, mut end) = (0.0, 0);
        let sizes = weights.iter().map(|weight| {
            sum += weight;
            let next = ((sum / all) * left as f64).round() as u64;
            let size = 1 + next.max(end) - end;
            end = next.max(end);
            size
        });
        sizes.collect()
    }

    /// Returns the part of its bytes that cannot be compressed, in percent.
    pub fn data_percent(&self) -> f64 {
        100.0 - self.compressible_percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_are_those_of_the_reviews_and_sizes_add_up() {
        let said = [
            ("Movie", 701e6),
            ("RAW", 23.6e6),
            ("MP3", 6.48e6),
            ("TR", 64.6e3),
            ("Mozilla", 39.4e3),
        ];
        for (set, (name, mean)) in FILE_SETS.iter().zip(said) {
            assert_eq!(set.name, name);
            let off = set.bytes as f64 / set.files as f64 / mean;
            assert!((0.96..1.04).contains(&off), "{name}: {off}");
            let sizes = set.sizes(7);
            assert_eq!((sizes.len() as u64, sizes.iter().sum::<u64>()), (set.files, set.bytes));
            assert!(sizes.iter().all(|size| *size > 0));
            assert_eq!(sizes, set.sizes(7), "the same seed");
            assert_ne!(sizes, set.sizes(8));
            let largest = sizes.iter().max().copied().unwrap_or(0) as f64;
            let mean = set.bytes as f64 / set.files as f64;
            assert!(largest > mean && largest < 400.0 * mean, "{name}: {largest} of {mean}");
        }
    }

    #[test]
    fn a_share_of_a_set_has_fewer_files_and_at_least_one() {
        let movie = FILE_SETS[0].scaled(1.0);
        assert_eq!((movie.files, movie.bytes), (1, 41_000_000));
        let small = FILE_SETS[3].scaled(10.0);
        assert_eq!((small.files, small.sizes(1).iter().sum::<u64>()), (2677, small.bytes));
        assert_eq!(FILE_SETS[4].scaled(100.0), FILE_SETS[4]);
        let least = FILE_SETS[4].scaled(0.000_000_001);
        assert_eq!((least.files, least.bytes, least.sizes(1)), (1, 1, vec![1]));
    }
}
