use super::*;

const ERROR: Error = Error::new(Kind::Io, "test");

#[test]
fn no_second_leader_while_the_first_hangs() {
    let mut order = Order::new(1, 0, 0);
    let target = order.target();
    assert_eq!(order.step(target), Step::Lead { epoch: 1, start: Start::Close });
    assert!(order.fail(ERROR));
    assert!(!order.fail(GIVEN_UP), "the first error stays");
    assert_eq!(order.step(target), Step::Done(Err(ERROR)));
    assert_eq!(order.begin_discard(), Err(IN_FLIGHT));
    assert!(order.clear_error());
    assert_eq!(order.step(target), Step::Wait);
    assert_eq!(order.step(order.target()), Step::Wait);
    order.abandon();
    assert_eq!(order.step(target), Step::Lead { epoch: 1, start: Start::Resume });
    order.walked();
    order.durable(1);
    order.released();
    assert_eq!(order.step(target), Step::Done(Ok(())));
    assert_eq!(order.step(2), Step::Lead { epoch: 2, start: Start::Close });
}

#[test]
fn who_asks_during_a_walk_waits_for_the_next_and_empty_epochs_are_not_closed() {
    let mut order = Order::new(1, 0, 0);
    assert_eq!(order.close_step(1, true, CHAIN_MAX), Close::Done(Ok(())));
    assert_eq!(order.close_step(1, false, CHAIN_MAX), Close::Lead { epoch: 1 });
    order.closes(9);
    assert_eq!(order.target(), 2);
    assert_eq!(order.close_step(2, true, CHAIN_MAX), Close::Wait, "it may be empty only so far");
    assert_eq!(order.step(1), Step::Wait, "it is not closed in every shard");
    order.walked();
    assert_eq!(order.close_step(1, false, CHAIN_MAX), Close::Done(Ok(())));
    assert_eq!(order.close_step(2, false, CHAIN_MAX), Close::Lead { epoch: 2 });
    order.closes(12);
    assert_eq!(order.step(1), Step::Lead { epoch: 1, start: Start::Begin });
    order.walked();
    assert_eq!((order.closed(), order.closed_since()), (2, 9));
    order.durable(1);
    assert_eq!((order.closed(), order.closed_since()), (1, 12));
    assert_eq!(order.step(2), Step::Wait, "slots are still being released");
    order.released();
    assert_eq!(order.step(2), Step::Lead { epoch: 2, start: Start::Begin });
}

#[test]
fn the_chain_is_bounded_and_a_failed_volume_closes_nothing() {
    let mut order = Order::new(1, 0, 0);
    for epoch in 1..=CHAIN_MAX as u64 {
        assert_eq!(order.close_step(order.target(), false, CHAIN_MAX), Close::Lead { epoch });
        order.closes(1);
        order.walked();
    }
    assert_eq!(order.close_step(order.target(), false, CHAIN_MAX), Close::Wait);
    order.fail(ERROR);
    assert_eq!(order.close_step(order.target(), false, CHAIN_MAX), Close::Done(Err(ERROR)));
}

#[test]
fn a_flush_from_before_a_discard_fails_although_the_next_epochs_are_durable() {
    let mut order = Order::new(5, 0, 0);
    assert_eq!(order.begin_discard(), Err(NOT_FAILED));
    let early = order.target();
    assert_eq!(order.step(early), Step::Lead { epoch: 5, start: Start::Close });
    let late = order.target();
    order.fail(ERROR);
    order.walked();
    order.abandon();
    assert_eq!(order.begin_discard(), Ok(()));
    assert_eq!(order.begin_discard(), Err(IN_FLIGHT), "one at a time");
    assert!(!order.clear_error(), "not while it is under way");
    order.cancel_discard();
    assert_eq!(order.begin_discard(), Ok(()));
    let open = order.after_discard();
    order.end_discard();
    assert_eq!((order.target(), open), (7, 7));
    for target in [early, late] {
        assert_eq!(order.step(target), Step::Done(Err(GIVEN_UP)));
    }
    assert_eq!(order.step(4), Step::Done(Ok(())), "what was durable stays so");
    assert_eq!(order.step(7), Step::Lead { epoch: 7, start: Start::Close });
    order.durable(7);
    order.released();
    assert_eq!(order.step(7), Step::Done(Ok(())));
    assert_eq!(order.step(early), Step::Done(Err(GIVEN_UP)));
}

#[test]
fn what_is_recovered_is_resumed_and_gets_an_age_once() {
    let mut order = Order::new(10, 3, 1);
    assert_eq!((order.closed(), order.closed_since(), order.newest_closed()), (3, 1, 9));
    order.date_recovered(50);
    assert_eq!(order.closed_since(), 50);
    order.date_recovered(60);
    assert_eq!(order.closed_since(), 50);
    assert_eq!(order.step(6), Step::Done(Ok(())));
    assert_eq!(order.step(7), Step::Lead { epoch: 7, start: Start::Resume });
    order.durable(7);
    order.released();
    assert_eq!(order.step(10), Step::Lead { epoch: 8, start: Start::Begin });
    let order = Order::new(10, 2, 0);
    assert_eq!((order.closed(), order.closed_since()), (2, 0), "they hold only what has passed");
}

#[test]
fn what_is_written_early_is_settled_only_while_nothing_else_goes_on() {
    let mut order = Order::new(1, 0, 0);
    assert!(!order.is_led() && order.begin_settling() && order.is_led());
    assert!(!order.begin_settling(), "one at a time");
    assert_eq!(order.step(1), Step::Wait);
    order.settled();
    assert_eq!(order.close_step(1, false, 2), Close::Lead { epoch: 1 });
    assert!(!order.begin_settling(), "an epoch is closed, or being closed");
    order.walked();
    assert!(!order.begin_settling());
    assert_eq!(order.step(1), Step::Lead { epoch: 1, start: Start::Begin });
    assert!(order.is_led() && !order.begin_settling());
    order.durable(1);
    assert!(order.is_led() && order.is_releasing() && !order.begin_settling());
    order.released();
    assert!(!order.is_led() && !order.is_releasing());
    order.fail(ERROR);
    assert!(!order.begin_settling());
    assert!(order.clear_error() && order.begin_settling());
}

#[test]
fn who_waits_for_a_settling_goes_before_the_next_one() {
    let mut order = Order::new(1, 0, 0);
    assert!(order.begin_settling());
    assert_eq!(order.step(1), Step::Wait);
    order.settled();
    assert!(!order.begin_settling(), "else he might wait for ever");
    assert_eq!(order.step(1), Step::Lead { epoch: 1, start: Start::Close });
    order.walked();
    order.durable(1);
    order.released();
    assert!(order.begin_settling());
    // Who hears of a failure does not come back.
    assert_eq!(order.step(2), Step::Wait);
    order.fail(ERROR);
    order.settled();
    assert!(order.clear_error() && order.begin_settling());
}

#[test]
fn errors_are_retried_for_just_so_long_from_the_first_one_on() {
    let mut order = Order::new(1, 0, 0);
    for _ in 0..2 {
        assert!(matches!(order.step(order.target()), Step::Lead { .. }));
        order.walked();
        for (now, again) in [(100, true), (119, true), (120, false), (99, true)] {
            assert_eq!(order.trouble(now, 20), again, "{now}");
        }
        order.durable(order.newest_closed());
        order.released();
    }
    assert!(!order.trouble(500, 0), "not at all");
    order.fail(ERROR);
    assert!(!order.trouble(501, 1000), "it has failed already");
    assert_eq!(order.failure(), Err(ERROR));
    order.clear_error();
    assert_eq!((order.failure(), order.trouble(600, 20)), (Ok(()), true));
}

#[test]
fn as_many_epochs_are_closed_as_may_be_and_one_at_least() {
    for (most, closed) in [(0, 1), (1, 1), (3, 3)] {
        let mut order = Order::new(1, 0, 0);
        for epoch in 1..=closed {
            assert_eq!(order.close_step(epoch, false, most), Close::Lead { epoch });
            order.closes(1);
            order.walked();
        }
        assert_eq!(order.close_step(closed + 1, false, most), Close::Wait);
        assert_eq!(order.close_step(closed, false, most), Close::Done(Ok(())));
    }
}

#[test]
fn a_discard_waits_for_walks_and_puts_back_what_it_found() {
    let mut order = Order::new(1, 0, 0);
    assert_eq!(order.close_step(1, false, 2), Close::Lead { epoch: 1 });
    order.closes(1);
    order.fail(ERROR);
    assert_eq!(order.begin_discard(), Err(IN_FLIGHT), "a walk is under way");
    order.walked();
    assert_eq!(order.begin_discard(), Ok(()));
    order.clear_error();
    order.cancel_discard();
    order.clear_error();
    assert_eq!(order.step(1), Step::Lead { epoch: 1, start: Start::Begin }, "not half done");
    order.fail(ERROR);
    assert_eq!(order.begin_discard(), Err(IN_FLIGHT), "somebody leads");
    order.abandon();
    assert_eq!(order.begin_discard(), Ok(()));
    order.cancel_discard();
    order.clear_error();
    assert_eq!(order.step(1), Step::Lead { epoch: 1, start: Start::Resume });
    order.fail(ERROR);
    order.abandon();
    assert_eq!(order.begin_discard(), Ok(()));
    assert_eq!(order.close_step(2, false, 9), Close::Done(Err(ERROR)));
    order.end_discard();
    assert_eq!((order.closed(), order.closed_since(), order.failure()), (0, 0, Ok(())));
}
