//! Other numbers for the arbiter, chosen with each family of loads left out: for each family, the
//! numbers that close most of the gap in all others, and their result in the one left out. A number
//! that is good only for the loads it was chosen on shows here.

use super::Arguments;
use super::families::{RATIO_MAX, SLOTS_MIN};
use super::gap::{PERCENTS, SAVED_LEAST_PERCENT};
use super::traces;
use ::policy::{Kind, Simulation, Speed, Tuning, misses};
use anyhow::Result;
use simulator::Optimum;
use simulator::families::FAMILIES;
use std::collections::{BTreeMap, HashMap};

/// A load of a family.
pub(super) struct Load {
    pub(super) name: String,
    pub(super) family: &'static str,
    pub(super) blocks: Vec<u64>,
    footprint: u32,
}

impl Load {
    fn new(name: String, family: &'static str, blocks: Vec<u64>) -> Load {
        let mut sorted = blocks.clone();
        sorted.sort_unstable();
        sorted.dedup();
        Load { name, family, blocks, footprint: sorted.len() as u32 }
    }

    /// Returns this percentage of the footprint, as slots.
    pub(super) fn slots(&self, percent: u32) -> u32 {
        (u64::from(self.footprint) * u64::from(percent)).div_ceil(100).max(1) as u32
    }
}

/// Passes on the generated loads and the traces that `--only` names, one after the other.
///
/// # Errors
/// A trace cannot be read.
pub(super) fn each_load(arguments: &Arguments, mut take: impl FnMut(&Load)) -> Result<()> {
    for family in FAMILIES.iter().filter(|family| arguments.takes(family.name, family.name)) {
        for seed in 1..=arguments.seeds {
            let blocks = family.generate(seed, arguments.reads);
            take(&Load::new(format!("{}-{seed}", family.name), family.name, blocks));
        }
    }
    for path in traces::paths(&arguments.traces)? {
        let trace = traces::read(path)?;
        if arguments.takes(&trace.name, trace.family()) {
            take(&Load::new(trace.name.clone(), trace.family(), trace.blocks().collect()));
        }
    }
    Ok(())
}

/// The default numbers and others in which one of them differs.
fn variants() -> Vec<(&'static str, Tuning)> {
    let default = Tuning::DEFAULT;
    let slow =
        |keeps, deviations_squared| Tuning { slow: Speed { keeps, deviations_squared }, ..default };
    let quick = |keeps, deviations_squared| Tuning {
        quick: Speed { keeps, deviations_squared },
        ..default
    };
    // Factors of half-lives of 16 and 256 comparisons, and of two and eight.
    vec![
        ("default", default),
        ("slow half-life 16", slow(0.9576, 1.0)),
        ("slow half-life 256", slow(0.9973, 1.0)),
        ("slow 2 deviations", slow(default.slow.keeps, 4.0)),
        ("quick half-life 2", quick(0.7, 16.0)),
        ("quick half-life 8", quick(0.9170, 16.0)),
        ("quick 3 deviations", quick(default.quick.keeps, 9.0)),
        ("quick 5 deviations", quick(default.quick.keeps, 25.0)),
        ("4 looks", Tuning { looks: 4, ..default }),
    ]
}

/// The results of a variant in a family.
#[derive(Clone, Default)]
struct Results {
    closed: Vec<f64>,
    /// Misses against LRU's at most, and the number of caches above the bound.
    ratio_max: f64,
    over: usize,
}

impl Results {
    fn mean(&self) -> f64 {
        self.closed.iter().sum::<f64>() / self.closed.len().max(1) as f64
    }

    fn add(&mut self, slots: u32, own: u64, lru: u64, optimum: u64) {
        let [own, lru, optimum] = [own, lru, optimum].map(|misses| misses as f64);
        if (lru - optimum) * 100.0 >= lru * SAVED_LEAST_PERCENT {
            self.closed.push((lru - own) / (lru - optimum) * 100.0);
        }
        if u64::from(slots) >= SLOTS_MIN {
            self.ratio_max = self.ratio_max.max(own / lru);
            self.over += usize::from(own > lru * RATIO_MAX);
        }
    }
}

/// Returns the misses of Belady's optimum.
fn optimum(slots: u32, blocks: &[u64]) -> u64 {
    let mut next = vec![u64::MAX; blocks.len()];
    let mut last = HashMap::new();
    for (number, block) in blocks.iter().enumerate().rev() {
        if let Some(later) = last.insert(*block, number as u64) {
            next[number] = later;
        }
    }
    let mut cache = Optimum::new(slots);
    let missed = |&(number, next): &(usize, &u64)| !cache.access(number as u64, *next);
    next.iter().enumerate().filter(missed).count() as u64
}

/// Returns the index of the variant with the best mean of all families except one.
fn best_without(table: &BTreeMap<&str, Vec<Results>>, left_out: &str) -> usize {
    let mean = |variant: usize| -> f64 {
        let others = table.iter().filter(|(family, _)| **family != left_out);
        others.map(|(_, results)| results[variant].mean()).sum()
    };
    let count = table.values().next().map_or(0, Vec::len);
    (0..count).max_by(|one, other| mean(*one).total_cmp(&mean(*other))).unwrap_or(0)
}

/// Chooses numbers with each family left out.
///
/// # Errors
/// A trace cannot be read.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let variants = variants();
    let mut table = BTreeMap::<&str, Vec<Results>>::new();
    each_load(arguments, |load| {
        eprintln!("{}", load.name);
        let family =
            table.entry(load.family).or_insert_with(|| vec![Results::default(); variants.len()]);
        for slots in PERCENTS.map(|percent| load.slots(percent)) {
            let lru = misses(Kind::Lru, slots, load.blocks.iter().copied());
            let optimum = optimum(slots, &load.blocks);
            for ((_, tuning), results) in variants.iter().zip(&mut *family) {
                let mut cache = Simulation::with_tuning(slots, tuning);
                let own = load.blocks.iter().filter(|block| !cache.read(**block)).count();
                results.add(slots, own as u64, lru, optimum);
            }
        }
    })?;
    println!("closed share of the gap, caches above {RATIO_MAX} of LRU's misses, and the maximum");
    for (family, results) in &table {
        for ((name, _), of_variant) in variants.iter().zip(results) {
            println!(
                "  {family:<13} {name:<20} {:6.1} %  {:2}  {:.3}",
                of_variant.mean(),
                of_variant.over,
                of_variant.ratio_max
            );
        }
    }
    println!("left out: chosen on all others, and its result here against the default's");
    let mut means = [0.0; 2];
    for (family, results) in &table {
        let chosen = best_without(&table, family);
        let pair = [results[chosen].mean(), results[0].mean()];
        means = [means[0] + pair[0], means[1] + pair[1]];
        println!("  {family:<13} {:<20} {:6.1}, {:.1} %", variants[chosen].0, pair[0], pair[1]);
    }
    let count = table.len().max(1) as f64;
    println!("  mean          {:<20} {:6.1}, {:.1} %", "", means[0] / count, means[1] / count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_best_in_the_family_left_out_does_not_count() {
        let of = |mean| Results { closed: vec![mean], ..Results::default() };
        let table =
            BTreeMap::from([("one", vec![of(1.0), of(2.0)]), ("two", vec![of(9.0), of(0.0)])]);
        assert_eq!(best_without(&table, "two"), 1);
        assert_eq!(best_without(&table, "one"), 0);
    }

    #[test]
    fn the_optimum_keeps_a_part_of_a_loop() {
        let blocks: Vec<u64> = (0..100).map(|read| read % 10).collect();
        assert_eq!(optimum(10, &blocks), 10);
        assert_eq!(optimum(5, &blocks), 10 + 45);
    }
}
