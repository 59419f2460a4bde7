//! The default policy against LRU over the generated families of loads, in small. The measurement
//! is `cargo xtask bench policy --parts families`.

use policy::{Kind, misses};
use simulator::DEFAULT;
use simulator::families::{FAMILIES, Family};
use std::collections::HashSet;

/// Reads of a load: some changes of the working set.
const READS: usize = 80_000;
/// Share of the footprint that is cached.
const PERCENT: usize = 5;
/// One load may have this much more misses than LRU, as a ratio. A change of the working set may
/// cost up to a fill of the cache, and loads are short.
const RATIO_MAX: f64 = 1.015;
/// The same for the mean of all families.
const MEAN_MAX: f64 = 0.95;

/// Returns the misses of the default policy divided by those of LRU.
fn ratio(family: &Family, seed: u64) -> f64 {
    let load = family.generate(seed, READS);
    let footprint = load.iter().collect::<HashSet<_>>().len();
    let slots = (footprint * PERCENT / 100) as u32;
    assert!(slots >= 512, "{}, seed {seed}: {slots} slots", family.name);
    let [own, lru] = [DEFAULT, Kind::Lru].map(|kind| misses(kind, slots, load.iter().copied()));
    own as f64 / lru as f64
}

#[test]
fn phases_cost_little_more_than_lru_and_save_misses_in_the_mean() {
    let ratios = FAMILIES.map(|family| (family.name, ratio(&family, 1)));
    println!("{ratios:.3?}");
    for (name, ratio) in ratios {
        assert!(ratio <= RATIO_MAX, "{name}: {ratio:.4} of LRU's misses");
    }
    let mean = ratios.iter().map(|(_, ratio)| ratio).sum::<f64>() / ratios.len() as f64;
    assert!(mean <= MEAN_MAX, "{mean:.4} of LRU's misses in the mean");
}
