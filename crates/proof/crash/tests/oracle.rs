//! The oracle accepts the honest disk, and rejects all liars.

use crash::{Bare, Liar, Lie, Scale, history, seed_of};
use std::collections::BTreeSet;

fn scale_of(number: u64) -> Scale {
    if number.is_multiple_of(4) { Scale::Exhaustive } else { Scale::Swarm }
}

#[test]
fn the_bare_disk_keeps_every_promise() {
    let mut states = 0;
    for number in 0..80 {
        let outcome = history(&Bare, seed_of(1, number), scale_of(number), false);
        states += outcome.tally.states();
        if let Some(failure) = outcome.failure {
            panic!("{}\n{}", failure.finding, failure.reproduction(Some("Bare")));
        }
    }
    assert!(states > 100_000, "{states} states are too few to mean anything");
}

/// Asserts that the lie is found, by the clause that it breaks. (Another clause may detect it
/// first: a lie about flushes is also a broken recovery.)
fn is_found(lie: Lie, clause: &str) {
    let mut others = BTreeSet::new();
    for number in 0..1000 {
        let outcome = history(&Liar(lie), seed_of(2, number), scale_of(number), false);
        assert!(!outcome.panicked, "{lie:?}: {:?}", outcome.failure);
        match outcome.failure {
            Some(failure) if failure.finding.clause == clause => return,
            Some(failure) => _ = others.insert(failure.finding.clause),
            None => {}
        }
    }
    panic!("{lie:?} does not break {clause}, but {others:?}");
}

#[test]
fn every_lie_is_found_by_its_clause() {
    for (lie, clause) in Lie::ALL {
        is_found(lie, clause);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let mut traces = BTreeSet::new();
    for number in 0..20 {
        let (seed, scale) = (seed_of(3, number), scale_of(number));
        let [one, two] = [(); 2].map(|()| history(&Bare, seed, scale, false));
        assert_eq!(one.trace, two.trace, "seed {seed:#x}");
        assert_eq!(one.tally, two.tally, "seed {seed:#x}");
        traces.insert(one.trace);
    }
    assert_eq!(traces.len(), 20, "other seeds give other traces");
}
