//! Pools in the laboratory: the power is cut at every moment of random histories, on members that
//! keep any subset of unflushed data; then the pool is opened, read, and judged.

mod book;
mod history;
mod readers;
mod scene;

use crate::history::{Scale, Tally};
use crate::readers::slow_read;
use pool::Bug;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SCALE: Scale = Scale { lives: 3, operations: 90, one_of: 6, lean: false };

/// Returns the number of histories, unless POOL_HISTORIES overrides it.
fn histories(usual: u64) -> u64 {
    number("POOL_HISTORIES", usual)
}

/// Returns the first one's seed, unless POOL_SEED overrides it.
fn first_seed(usual: u64) -> u64 {
    number("POOL_SEED", usual)
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_pool_keeps_its_promises_through_power_cuts() {
    let mut tally = Tally::default();
    let first = first_seed(0);
    for seed in first..first + histories(24) {
        // One of four is of the kind that finds broken chains.
        let scale = Scale { lean: seed % 4 == 3, ..SCALE };
        if let Err(finding) = trial(seed, scale, &mut tally) {
            panic!("seed {seed}: {finding}");
        }
    }
    println!("{tally:?}");
    assert!(tally.cuts > 500 && tally.cuts_in_recovery > 100, "{tally:?}");
    assert!(tally.losses > 100, "{tally:?}");
    assert!(tally.lives > 60 && tally.faulty_lives > 10, "{tally:?}");
}

/// Histories that have found a bug once.
#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in [4, 27, 47, 75, 115, 141, 150, 161, 218, 334, 10198] {
        if let Err(finding) = history::history(seed, SCALE, &mut Tally::default()) {
            panic!("seed {seed}: {finding}");
        }
    }
}

/// Runs a history, and a read that overlaps all writes.
fn trial(seed: u64, scale: Scale, tally: &mut Tally) -> Result<(), String> {
    slow_read(seed)?;
    history::history(seed, scale, tally)
}

/// Asserts that a planted bug is found by a few histories from a seed on, close to the one that
/// found it last.
fn find(bug: Bug, first: u64) {
    pool::plant(Some(bug));
    let scale = Scale { lean: bug == Bug::BelieveBroken, ..SCALE };
    let mut tally = Tally::default();
    let first = first_seed(first);
    let found = (first..first + histories(60)).find_map(|seed| {
        let result = catch_unwind(AssertUnwindSafe(|| trial(seed, scale, &mut tally)));
        let finding = result.unwrap_or_else(|_| Err("it panicked".to_owned())).err()?;
        Some((seed, finding))
    });
    pool::plant(None);
    println!("{bug:?}: {found:?}, {tally:?}");
    assert!(found.is_some(), "{bug:?} was not found: {tally:?}");
}

macro_rules! finds {
    ($($name:ident: $bug:ident from $seed:literal,)*) => {
        $(#[test]
        fn $name() {
            find(Bug::$bug, $seed);
        })*

        #[test]
        fn no_bug_is_left_out() {
            assert_eq!([$(Bug::$bug),*], Bug::ALL);
        }
    };
}

finds! {
    a_flush_answered_before_the_journal_is_found: AnswerBeforeJournal from 0,
    a_journal_written_before_the_data_is_found: JournalBeforeData from 0,
    a_place_used_again_too_early_is_found: ReuseTooEarly from 0,
    a_place_used_again_under_readers_is_found: ReuseUnderReaders from 18,
    a_discard_that_goes_astray_is_found: TrimWrongOwner from 0,
    damaged_blocks_that_are_believed_are_found: BelieveDamaged from 0,
    broken_chains_that_are_believed_are_found: BelieveBroken from 0,
    a_tail_ahead_of_the_pages_is_found: TailBeforePages from 0,
    a_failed_member_that_is_believed_is_found: BelieveFailedMember from 0,
}
