//! Hints by class of file: a film of four times the memory beside a hot set and a mail store, with
//! a map, without, with a map whose classes are shuffled, and without the film.

use crate::sides::verdict;
use ::policy::{ClassMap, HintedSimulation, Hints, Kind, Treatments};
use simulator::{FilmLoad, Part};
use std::sync::Arc;

const SLOTS: u32 = 65_536;
/// Number of shuffled maps.
const SHUFFLED: u64 = 8;
/// The maximum loss of the hot set because of the film, and of all accesses because of shuffled
/// classes, in points of the hit ratio.
const HOT_MAX: f64 = 1.0;
const SHUFFLED_MAX: f64 = 2.0;

/// Hits and accesses of each part.
#[derive(Clone, Copy, Default)]
struct Hits([(u64, u64); Part::ALL.len()]);

impl Hits {
    fn percent(self, parts: impl IntoIterator<Item = Part>) -> f64 {
        let of = |part: Part| self.0[part as usize];
        let sum = parts.into_iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        sum.0 as f64 * 100.0 / sum.1.max(1) as f64
    }
}

/// Simulates the load with this map. Returns the hits after the first part of it, without the film,
/// and whether the hints are followed at the end.
fn simulate(kind: Kind, map: ClassMap, load: &FilmLoad, has_film: bool) -> (Hits, bool) {
    let hints = Arc::new(Hints { map, treatments: Treatments::default() });
    let mut cache = HintedSimulation::new(kind, SLOTS, 1, &hints);
    let (mut hits, mut begun) = (Hits::default(), false);
    let before = load.blocks(Part::Film) as usize;
    for (number, (part, block)) in load.generate().into_iter().enumerate() {
        begun |= number >= before;
        if part == Part::Film && !has_film {
            continue;
        }
        let is_hit = cache.read(block);
        if begun {
            let (found, all) = &mut hits.0[part as usize];
            *found += u64::from(is_hit);
            *all += 1;
        }
    }
    (hits, cache.follows_hints())
}

fn row(name: &str, hits: Hits, note: &str) {
    let of = |part| hits.percent([part]);
    println!(
        "  {name:<22} {:>6.2} {:>9.2} {:>6.2} {:>9.2} {:>6.2}{note}",
        hits.percent(Part::ALL),
        of(Part::Hot),
        of(Part::Mail),
        of(Part::Metadata),
        of(Part::Film)
    );
}

pub(crate) fn run() {
    println!("a film of four times the memory beside a hot set and a mail store: hits in percent");
    let load = FilmLoad::new(SLOTS, 1);
    for kind in [simulator::DEFAULT, Kind::Lru, Kind::WTinyLfu, Kind::Sieve] {
        println!(
            "  {:<22} {:>6} {:>9} {:>6} {:>9} {:>6}",
            kind.name(),
            "all",
            "documents",
            "mail",
            "metadata",
            "film"
        );
        let (alone, _) = simulate(kind, ClassMap::default(), &load, false);
        let (without, _) = simulate(kind, ClassMap::default(), &load, true);
        let (with, follows) = simulate(kind, load.map(), &load, true);
        let lost = alone.percent([Part::Hot]) - with.percent([Part::Hot]);
        row("without the film", alone, "");
        row("without hints", without, "");
        let target = format!(
            "  hot set {lost:+.2} points, target at most {HOT_MAX}: {}{}",
            verdict(lost <= HOT_MAX),
            if follows { "" } else { ", suspended" }
        );
        row("with hints", with, &target);
        for seed in 1..=SHUFFLED {
            let (shuffled, follows) = simulate(kind, load.shuffled_map(seed), &load, true);
            let lost = without.percent(Part::ALL) - shuffled.percent(Part::ALL);
            let target = format!(
                "  all {lost:+.2} points, target at most {SHUFFLED_MAX}: {}{}",
                verdict(lost <= SHUFFLED_MAX),
                if follows { "" } else { ", suspended" }
            );
            row(&format!("classes shuffled, {seed}"), shuffled, &target);
        }
        let misses = |hits: Hits| 100.0 - hits.percent([Part::Hot, Part::Mail, Part::Metadata]);
        println!(
            "  misses beside the film, with hints: {:.3} of those without",
            misses(with) / misses(without)
        );
    }
}
