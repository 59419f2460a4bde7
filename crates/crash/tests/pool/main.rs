//! Pools in the laboratory: the power is cut at every moment of random histories, on members that keep
//! any subset of what was not flushed; then the pool is opened, read, and judged.

mod book;
mod history;
mod readers;
mod scene;

use crate::history::{Scale, Tally};
use crate::readers::slow_read;
use pool::Bug;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SCALE: Scale = Scale { lives: 3, operations: 90, one_of: 6 };

/// How many histories, unless POOL_HISTORIES says otherwise.
fn histories(usual: u64) -> u64 {
    std::env::var("POOL_HISTORIES").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_pool_keeps_its_promises_through_power_cuts() {
    let mut tally = Tally::default();
    let first = std::env::var("POOL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    for seed in first..first + histories(24) {
        if let Err(finding) = trial(seed, &mut tally) {
            panic!("seed {seed}: {finding}");
        }
    }
    println!("{tally:?}");
    assert!(tally.cuts > 500 && tally.cuts_in_recovery > 100, "{tally:?}");
    assert!(tally.lives > 60 && tally.faulty_lives > 10, "{tally:?}");
}

/// A history, and a read in the way of all that is written.
fn trial(seed: u64, tally: &mut Tally) -> Result<(), String> {
    slow_read(seed)?;
    history::history(seed, SCALE, tally)
}

/// Asserts that a planted bug is found.
fn find(bug: Bug) {
    pool::plant(Some(bug));
    let mut tally = Tally::default();
    let found = (0..histories(600)).find_map(|seed| {
        let result = catch_unwind(AssertUnwindSafe(|| trial(seed, &mut tally)));
        let finding = result.unwrap_or_else(|_| Err("it panicked".to_owned())).err()?;
        Some((seed, finding))
    });
    pool::plant(None);
    println!("{bug:?}: {found:?}, {tally:?}");
    assert!(found.is_some(), "{bug:?} was not found: {tally:?}");
}

macro_rules! finds {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            find(Bug::$bug);
        })*

        #[test]
        fn no_bug_is_left_out() {
            assert_eq!([$(Bug::$bug),*], Bug::ALL);
        }
    };
}

finds! {
    a_flush_answered_before_the_journal_is_found: AnswerBeforeJournal,
    a_journal_written_before_the_data_is_found: JournalBeforeData,
    a_place_used_again_too_early_is_found: ReuseTooEarly,
    a_place_used_again_under_readers_is_found: ReuseUnderReaders,
    a_discard_that_goes_astray_is_found: TrimWrongOwner,
    damaged_blocks_that_are_believed_are_found: BelieveDamaged,
    broken_chains_that_are_believed_are_found: BelieveBroken,
    a_tail_ahead_of_the_pages_is_found: TailBeforePages,
    a_failed_member_that_is_believed_is_found: BelieveFailedMember,
}
