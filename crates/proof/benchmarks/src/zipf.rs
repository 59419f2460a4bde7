//! A zipf load with scrambled ranks.

use lane::Random;
use load::Zipf as Ranks;

/// Blocks whose shares of the load fall as `1 / rank^exponent`; ranks are assigned to blocks at
/// random, which spreads hot blocks over the volume.
pub(crate) struct Zipf {
    ranks: Ranks,
    exponent: f64,
    /// The block of each rank.
    blocks: Vec<u32>,
}

impl Zipf {
    /// Returns a distribution over `blocks` blocks (below 2^32, not zero).
    pub(crate) fn new(blocks: u64, exponent: f64, random: &mut Random) -> Zipf {
        let ranks = Ranks::new(blocks, exponent);
        let mut blocks: Vec<u32> = (0..blocks as u32).collect();
        // Fisher and Yates.
        for last in (1..blocks.len()).rev() {
            blocks.swap(last, random.below(last as u64 + 1) as usize);
        }
        Zipf { ranks, exponent, blocks }
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the total share of the `hottest` hottest blocks: the hit ratio of the best fixed
    /// choice.
    pub(crate) fn share(&self, hottest: usize) -> f64 {
        let weight = |ranks: usize| -> f64 {
            (1..=ranks).map(|rank| (rank as f64).powf(-self.exponent)).sum()
        };
        weight(hottest.min(self.blocks.len())) / weight(self.blocks.len())
    }

    /// Draws reads in advance, so that drawing takes none of the client's time.
    pub(crate) fn draw(&self, count: usize, random: &mut Random) -> Vec<u32> {
        (0..count).map(|_| self.blocks[self.ranks.draw(random) as usize - 1]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_block_comes_as_often_as_it_should_and_each_block_has_one_rank() {
        let mut random = Random::new(7);
        let zipf = Zipf::new(1000, 1.1, &mut random);
        let draws = zipf.draw(200_000, &mut random);
        let hottest = zipf.blocks[0];
        let seen = draws.iter().filter(|&&block| block == hottest).count() as f64 / 200_000.0;
        assert!((seen - zipf.share(1)).abs() < 0.005, "{seen} against {}", zipf.share(1));
        assert!((zipf.share(1000) - 1.0).abs() < 1e-9);
        let mut blocks = zipf.blocks.clone();
        blocks.sort_unstable();
        assert!(blocks.iter().enumerate().all(|(index, &block)| index == block as usize));
        assert_ne!(zipf.blocks, blocks, "scrambled");
    }
}
