//! Hints by class of file: a film beside a hot set costs it nothing, and wrong classes cost little.

use lane::Random;
use policy::{CLASSES, ClassExtent, ClassMap, HintedSimulation, Hints, Kind, Treatments};
use simulator::{FilmLoad, Part};
use std::sync::Arc;

const SLOTS: u32 = 4096;

/// Hits and accesses of each part of the load.
type Hits = [(u64, u64); Part::ALL.len()];

/// Simulates the load with this map. Returns the hits since the film began.
fn simulate(kind: Kind, map: ClassMap, load: &FilmLoad, has_film: bool) -> Hits {
    let hints = Arc::new(Hints { map, treatments: Treatments::default() });
    let mut cache = HintedSimulation::new(kind, SLOTS, 1, &hints);
    let mut hits = Hits::default();
    let before = load.blocks(Part::Film) as usize;
    for (number, (part, block)) in load.generate().into_iter().enumerate() {
        if part == Part::Film && !has_film {
            continue;
        }
        let is_hit = cache.read(block);
        if number >= before {
            let (found, all) = &mut hits[part as usize];
            *found += u64::from(is_hit);
            *all += 1;
        }
    }
    hits
}

fn percent(hits: &Hits, parts: &[Part]) -> f64 {
    let of = |part: &Part| hits[*part as usize];
    let sum = parts.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    sum.0 as f64 * 100.0 / sum.1 as f64
}

/// Not of FIFO, which does not regard reads: blocks of the hot set leave in their turn.
#[test]
fn a_film_costs_the_hot_set_less_than_a_point() {
    let load = FilmLoad::new(SLOTS, 1);
    for kind in [Kind::Adaptive, Kind::Lru, Kind::Clock, Kind::Sieve, Kind::WTinyLfu] {
        let alone = simulate(kind, load.map(), &load, false);
        let without = simulate(kind, ClassMap::default(), &load, true);
        let with = simulate(kind, load.map(), &load, true);
        let points = if kind == Kind::Adaptive { 1.0 } else { 2.0 };
        for part in [Part::Hot, Part::Mail, Part::Metadata] {
            let [alone, without, with] = [&alone, &without, &with].map(|it| percent(it, &[part]));
            assert!(with > alone - points, "{kind:?}, {part:?}: {with:.2} of {alone:.2} %");
            assert!(with > without, "{kind:?}, {part:?}: {with:.2}, without hints {without:.2} %");
        }
        let film = percent(&with, &[Part::Film]);
        assert!(film > 1.0, "{kind:?}: {film:.2} %: a part that is read again is kept");
    }
}

/// Returns a map of the volume with a class drawn for each 64 blocks.
fn drawn_map(load: &FilmLoad, seed: u64) -> ClassMap {
    let mut random = Random::new(seed);
    let extents = (0..load.volume_blocks() / 64).map(|at| ClassExtent {
        first: at * 64,
        blocks: 64,
        class: random.below(CLASSES.len() as u64) as u8,
    });
    ClassMap::new(extents, load.volume_blocks()).expect("it is sorted")
}

#[test]
fn wrong_classes_cost_less_than_two_points() {
    let load = FilmLoad::new(SLOTS, 1);
    for kind in [Kind::Adaptive, Kind::Lru, Kind::WTinyLfu] {
        for has_film in [true, false] {
            let parts = if has_film { &Part::ALL[..] } else { &Part::ALL[..3] };
            let of = |map| percent(&simulate(kind, map, &load, has_film), parts);
            let without = of(ClassMap::default());
            let shuffled = (1..4).map(|seed| load.shuffled_map(seed));
            for (number, map) in shuffled.chain([drawn_map(&load, 1)]).enumerate() {
                let with = of(map);
                assert!(with > without - 2.0, "{kind:?}, {number}: {with:.2} of {without:.2} %");
            }
        }
    }
}
