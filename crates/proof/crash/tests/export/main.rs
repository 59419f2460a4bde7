//! The fence of NBD exports in the laboratory: a link that is cut while changes are under way, a
//! server that executes them later, restarts and loses its volatile cache, and a daemon that is
//! killed at any moment.

mod history;
mod scene;

use crate::history::{Tally, history};
use nbd::fence::planted::{Bug, plant};

const STEPS: u64 = 400;

/// Returns the number of histories, unless EXPORT_HISTORIES overrides it.
fn histories(usual: u64) -> u64 {
    std::env::var("EXPORT_HISTORIES").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn a_fence_keeps_its_promises_over_cuts_restarts_and_kills() {
    let mut tally = Tally::default();
    for seed in 0..histories(400) {
        if let Err(finding) = history(seed, STEPS, &mut tally) {
            panic!("seed {seed}: {finding}");
        }
    }
    println!("{tally:?}");
    let Tally { answers, flushes, cuts, kills, kills_of_readers, .. } = tally;
    let Tally { restarts, held, resent, losses, .. } = tally;
    let Tally { unreadable, doubts, kept, unkept, .. } = tally;
    let rare = [cuts, kills, kills_of_readers, restarts, held, resent, losses, unreadable, doubts];
    let rare = rare.into_iter().chain([kept, unkept]).min();
    assert!(answers > 1000 && flushes > 1000 && rare > Some(100));
}

/// Returns the seed from which a hunt begins. One history of 5,000 shows the rarest bug.
fn first_history(bug: Bug) -> u64 {
    if bug == Bug::KeepAfterLoss { 5_400 } else { 0 }
}

/// Asserts that some histories find a planted bug.
fn find(bug: Bug) {
    plant(Some(bug));
    let found = (first_history(bug)..).take(histories(400) as usize).find_map(|seed| {
        let finding = history(seed, STEPS, &mut Tally::default()).err()?;
        Some((seed, finding))
    });
    plant(None);
    println!("{bug:?}: {found:?}");
    assert!(found.is_some(), "{bug:?} was not found");
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
    a_fence_that_ends_with_its_connection_is_found: EndFenceEarly,
    other_bytes_for_a_change_under_way_are_found: ResendOtherBytes,
    a_flush_that_succeeds_after_a_loss_is_found: ForgetLostChanges,
    a_change_that_is_entered_late_is_found: EnterAfterSend,
    old_answers_that_are_not_read_are_found: SkipOldAnswers,
    answers_that_cannot_be_read_and_are_trusted_are_found: TrustUnreadable,
    changes_that_count_as_flushed_too_early_are_found: FlushedAtBegin,
    data_that_is_kept_beside_an_unanswered_change_is_found: KeepUnanswered,
    data_that_is_kept_after_a_loss_is_found: KeepAfterLoss,
}
