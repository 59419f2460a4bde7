use super::*;

const ERROR: Error = Error::new(Kind::Io, "test");

#[test]
fn no_second_leader_while_the_first_hangs() {
    let mut epochs = Epochs::new(1, 0, 0);
    let target = epochs.target();
    assert_eq!(epochs.step(target), Step::Lead { epoch: 1, start: Start::Close });
    assert!(epochs.fail(ERROR));
    assert!(!epochs.fail(GIVEN_UP), "the first error stays");
    assert_eq!(epochs.step(target), Step::Done(Err(ERROR)));
    assert_eq!(epochs.begin_discard(), Err(IN_FLIGHT));
    assert!(epochs.clear_error());
    assert_eq!(epochs.step(target), Step::Wait);
    assert_eq!(epochs.step(epochs.target()), Step::Wait);
    epochs.abandon();
    assert_eq!(epochs.step(target), Step::Lead { epoch: 1, start: Start::Resume });
    epochs.end_walk();
    epochs.note_durable(1);
    epochs.end_release();
    assert_eq!(epochs.step(target), Step::Done(Ok(())));
    assert_eq!(epochs.step(2), Step::Lead { epoch: 2, start: Start::Close });
}

#[test]
fn who_asks_during_a_walk_waits_for_the_next_and_empty_epochs_are_not_closed() {
    let mut epochs = Epochs::new(1, 0, 0);
    assert_eq!(epochs.close_step(1, true, CHAIN_MAX), Close::Done(Ok(())));
    assert_eq!(epochs.close_step(1, false, CHAIN_MAX), Close::Lead { epoch: 1 });
    epochs.note_closing(9);
    assert_eq!(epochs.target(), 2);
    assert_eq!(epochs.close_step(2, true, CHAIN_MAX), Close::Wait, "it may be empty only so far");
    assert_eq!(epochs.step(1), Step::Wait, "it is not closed in every shard");
    epochs.end_walk();
    assert_eq!(epochs.close_step(1, false, CHAIN_MAX), Close::Done(Ok(())));
    assert_eq!(epochs.close_step(2, false, CHAIN_MAX), Close::Lead { epoch: 2 });
    epochs.note_closing(12);
    assert_eq!(epochs.step(1), Step::Lead { epoch: 1, start: Start::Begin });
    epochs.end_walk();
    assert_eq!((epochs.closed(), epochs.closed_since()), (2, 9));
    epochs.note_durable(1);
    assert_eq!((epochs.closed(), epochs.closed_since()), (1, 12));
    assert_eq!(epochs.step(2), Step::Wait, "slots are still being released");
    epochs.end_release();
    assert_eq!(epochs.step(2), Step::Lead { epoch: 2, start: Start::Begin });
}

#[test]
fn the_chain_is_bounded_and_a_failed_volume_closes_nothing() {
    let mut epochs = Epochs::new(1, 0, 0);
    for epoch in 1..=CHAIN_MAX as u64 {
        assert_eq!(epochs.close_step(epochs.target(), false, CHAIN_MAX), Close::Lead { epoch });
        epochs.note_closing(1);
        epochs.end_walk();
    }
    assert_eq!(epochs.close_step(epochs.target(), false, CHAIN_MAX), Close::Wait);
    epochs.fail(ERROR);
    assert_eq!(epochs.close_step(epochs.target(), false, CHAIN_MAX), Close::Done(Err(ERROR)));
}

#[test]
fn a_flush_from_before_a_discard_fails_although_the_next_epochs_are_durable() {
    let mut epochs = Epochs::new(5, 0, 0);
    assert_eq!(epochs.begin_discard(), Err(NOT_FAILED));
    let early = epochs.target();
    assert_eq!(epochs.step(early), Step::Lead { epoch: 5, start: Start::Close });
    let late = epochs.target();
    epochs.fail(ERROR);
    epochs.end_walk();
    epochs.abandon();
    assert_eq!(epochs.begin_discard(), Ok(()));
    assert_eq!(epochs.begin_discard(), Err(IN_FLIGHT), "one at a time");
    assert!(!epochs.clear_error(), "not while it is under way");
    epochs.cancel_discard();
    assert_eq!(epochs.begin_discard(), Ok(()));
    let open = epochs.after_discard();
    epochs.end_discard();
    assert_eq!((epochs.target(), open), (7, 7));
    for target in [early, late] {
        assert_eq!(epochs.step(target), Step::Done(Err(GIVEN_UP)));
    }
    assert_eq!(epochs.step(4), Step::Done(Ok(())), "what was durable stays so");
    assert_eq!(epochs.step(7), Step::Lead { epoch: 7, start: Start::Close });
    epochs.note_durable(7);
    epochs.end_release();
    assert_eq!(epochs.step(7), Step::Done(Ok(())));
    assert_eq!(epochs.step(early), Step::Done(Err(GIVEN_UP)));
}

#[test]
fn what_is_recovered_is_resumed_and_gets_an_age_once() {
    let mut epochs = Epochs::new(10, 3, 1);
    assert_eq!((epochs.closed(), epochs.closed_since(), epochs.newest_closed()), (3, 1, 9));
    epochs.date_recovered(50);
    assert_eq!(epochs.closed_since(), 50);
    epochs.date_recovered(60);
    assert_eq!(epochs.closed_since(), 50);
    assert_eq!(epochs.step(6), Step::Done(Ok(())));
    assert_eq!(epochs.step(7), Step::Lead { epoch: 7, start: Start::Resume });
    epochs.note_durable(7);
    epochs.end_release();
    assert_eq!(epochs.step(10), Step::Lead { epoch: 8, start: Start::Begin });
    let epochs = Epochs::new(10, 2, 0);
    assert_eq!((epochs.closed(), epochs.closed_since()), (2, 0), "they hold only what has passed");
}

#[test]
fn what_is_written_early_is_settled_only_while_nothing_else_goes_on() {
    let mut epochs = Epochs::new(1, 0, 0);
    assert!(!epochs.is_led() && epochs.begin_settling() && epochs.is_led());
    assert!(!epochs.begin_settling(), "one at a time");
    assert_eq!(epochs.step(1), Step::Wait);
    epochs.end_settling();
    assert_eq!(epochs.close_step(1, false, 2), Close::Lead { epoch: 1 });
    assert!(!epochs.begin_settling(), "an epoch is closed, or being closed");
    epochs.end_walk();
    assert!(!epochs.begin_settling());
    assert_eq!(epochs.step(1), Step::Lead { epoch: 1, start: Start::Begin });
    assert!(epochs.is_led() && !epochs.begin_settling());
    epochs.note_durable(1);
    assert!(epochs.is_led() && epochs.is_releasing() && !epochs.begin_settling());
    epochs.end_release();
    assert!(!epochs.is_led() && !epochs.is_releasing());
    epochs.fail(ERROR);
    assert!(!epochs.begin_settling());
    assert!(epochs.clear_error() && epochs.begin_settling());
}

#[test]
fn who_waits_for_a_settling_goes_before_the_next_one() {
    let mut epochs = Epochs::new(1, 0, 0);
    assert!(epochs.begin_settling());
    assert_eq!(epochs.step(1), Step::Wait);
    epochs.end_settling();
    assert!(!epochs.begin_settling(), "else it might wait for ever");
    assert_eq!(epochs.step(1), Step::Lead { epoch: 1, start: Start::Close });
    epochs.end_walk();
    epochs.note_durable(1);
    epochs.end_release();
    assert!(epochs.begin_settling());
    // A task that receives a failure does not return.
    assert_eq!(epochs.step(2), Step::Wait);
    epochs.fail(ERROR);
    epochs.end_settling();
    assert!(epochs.clear_error() && epochs.begin_settling());
}

#[test]
fn errors_are_retried_for_just_so_long_from_the_first_one_on() {
    let mut epochs = Epochs::new(1, 0, 0);
    for _ in 0..2 {
        assert!(matches!(epochs.step(epochs.target()), Step::Lead { .. }));
        epochs.end_walk();
        for (now, again) in [(100, true), (119, true), (120, false), (99, true)] {
            assert_eq!(epochs.backing_failed(now, 20, 0), again, "{now}");
        }
        epochs.note_durable(epochs.newest_closed());
        epochs.end_release();
    }
    assert!(!epochs.backing_failed(500, 0, 450), "not at all");
    epochs.fail(ERROR);
    assert!(!epochs.backing_failed(501, 1000, 0), "it has failed already");
    assert_eq!(epochs.failure(), Err(ERROR));
    epochs.clear_error();
    assert_eq!((epochs.failure(), epochs.backing_failed(600, 20, 0)), (Ok(()), true));
}

/// A link was lost and returned between two losses of changes, and the second was reported late.
#[test]
fn errors_since_before_the_return_of_a_link_do_not_count() {
    let mut epochs = Epochs::new(1, 0, 0);
    assert!(epochs.backing_failed(100, 20, 0));
    assert!(epochs.backing_failed(900, 20, 500), "the first error since the return");
    assert!(epochs.backing_failed(919, 20, 500));
    assert!(!epochs.backing_failed(920, 20, 500));
}

#[test]
fn as_many_epochs_are_closed_as_may_be_and_one_at_least() {
    for (most, closed) in [(0, 1), (1, 1), (3, 3)] {
        let mut epochs = Epochs::new(1, 0, 0);
        for epoch in 1..=closed {
            assert_eq!(epochs.close_step(epoch, false, most), Close::Lead { epoch });
            epochs.note_closing(1);
            epochs.end_walk();
        }
        assert_eq!(epochs.close_step(closed + 1, false, most), Close::Wait);
        assert_eq!(epochs.close_step(closed, false, most), Close::Done(Ok(())));
    }
}

#[test]
fn a_discard_waits_for_walks_and_puts_back_what_it_found() {
    let mut epochs = Epochs::new(1, 0, 0);
    assert_eq!(epochs.close_step(1, false, 2), Close::Lead { epoch: 1 });
    epochs.note_closing(1);
    epochs.fail(ERROR);
    assert_eq!(epochs.begin_discard(), Err(IN_FLIGHT), "a walk is under way");
    epochs.end_walk();
    assert_eq!(epochs.begin_discard(), Ok(()));
    epochs.clear_error();
    epochs.cancel_discard();
    epochs.clear_error();
    assert_eq!(epochs.step(1), Step::Lead { epoch: 1, start: Start::Begin }, "not half done");
    epochs.fail(ERROR);
    assert_eq!(epochs.begin_discard(), Err(IN_FLIGHT), "a task leads");
    epochs.abandon();
    assert_eq!(epochs.begin_discard(), Ok(()));
    epochs.cancel_discard();
    epochs.clear_error();
    assert_eq!(epochs.step(1), Step::Lead { epoch: 1, start: Start::Resume });
    epochs.fail(ERROR);
    epochs.abandon();
    assert_eq!(epochs.begin_discard(), Ok(()));
    assert_eq!(epochs.close_step(2, false, 9), Close::Done(Err(ERROR)));
    epochs.end_discard();
    assert_eq!((epochs.closed(), epochs.closed_since(), epochs.failure()), (0, 0, Ok(())));
}
