//! Pools in the laboratory: the power is cut at every moment of random histories, on members that keep
//! any subset of what was not flushed; then the pool is opened, read, and judged.

mod book;
mod history;
mod scene;

use crate::history::{Scale, Tally, history};
use pool::Bug;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SCALE: Scale = Scale { lives: 3, operations: 60, one_of: 4 };

/// How many histories, unless POOL_HISTORIES says otherwise.
fn histories(usual: u64) -> u64 {
    std::env::var("POOL_HISTORIES").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_pool_keeps_its_promises_through_power_cuts() {
    let mut tally = Tally::default();
    for seed in 0..histories(60) {
        if let Err(finding) = history(seed, SCALE, &mut tally) {
            panic!("seed {seed}: {finding}");
        }
    }
    println!("{tally:?}");
    assert!(tally.cuts > 1000 && tally.cuts_in_recovery > 200, "{tally:?}");
    assert!(tally.lives > 100 && tally.faulty_lives > 20, "{tally:?}");
}

/// The history in which a planted bug is found.
fn found(bug: Bug, most: u64) -> Option<(u64, String)> {
    pool::plant(Some(bug));
    let mut tally = Tally::default();
    let found = (0..most).find_map(|seed| {
        let result = catch_unwind(AssertUnwindSafe(|| history(seed, SCALE, &mut tally)));
        let finding = result.unwrap_or_else(|_| Err("it panicked".to_owned())).err()?;
        Some((seed, finding))
    });
    pool::plant(None);
    found
}

#[test]
fn every_planted_bug_is_found() {
    let missed: Vec<Bug> = Bug::ALL
        .into_iter()
        .filter(|bug| {
            let found = found(*bug, histories(400));
            println!("{bug:?}: {found:?}");
            found.is_none()
        })
        .collect();
    assert_eq!(missed, []);
}
