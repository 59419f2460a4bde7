//! A closed valve holds changes back, and nothing else.

use crate::common::{Ends, delayed, end_of, read, send, spec, world, write};
use block::{Layer, Request, Stack, Stall};
use lane::Lane;
use layers::{Top, TopShared, ValveShared};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

fn valved(lane: &Lane) -> (Arc<ValveShared>, Stack) {
    let below = delayed(lane, &spec(10, 100, 10, 4));
    let shared = TopShared::new(below.limits());
    (shared.valve().clone(), Stack::new(lane, Top::attach(&shared, None, below)))
}

#[test]
fn changes_wait_and_reads_and_flushes_do_not() {
    let mut world = world();
    let lane = world.lane();
    let (shared, stack) = valved(&lane);
    let ends = Ends::default();
    assert!(shared.close());
    assert!(!shared.close(), "it is closed already");
    send(&ends, &stack, "write", 0, write(0, 8, 1));
    send(&ends, &stack, "discard", 0, Request::Discard { at: block::Extent::new(8, 8) });
    send(&ends, &stack, "read", 0, read(0, 8));
    send(&ends, &stack, "flush", 0, Request::Flush);
    let opener = shared.clone();
    let opened = lane.clone();
    let open = async move {
        opened.sleep_until(5_000_000).await;
        assert_eq!(opener.held(), 2);
        opener.open();
    };
    lane.spawn(open).expect("a slot is free");
    while world.step() {}
    assert!(end_of(&ends, "read") < 100 && end_of(&ends, "flush") < 100);
    assert!(end_of(&ends, "write") >= 5_100 && end_of(&ends, "discard") >= 5_000);
    assert_eq!(shared.held(), 0);
}

#[test]
fn it_is_quiet_once_the_changes_below_have_ended() {
    let mut world = world();
    let lane = world.lane();
    let (shared, stack) = valved(&lane);
    let ends = Ends::default();
    send(&ends, &stack, "early", 0, write(0, 8, 1));
    send(&ends, &stack, "late", 50, write(0, 8, 2));
    let quiet_us = Rc::new(Cell::new(0));
    let (closer, result, closing) = (shared.clone(), quiet_us.clone(), lane.clone());
    let close = async move {
        closing.sleep_until(20_000).await;
        closer.close();
        assert!(closer.quiet(|| false).await);
        result.set(closing.now() / 1000);
        closing.sleep_until(1_000_000).await;
        closer.open();
    };
    lane.spawn(close).expect("a slot is free");
    while world.step() {}
    assert_eq!(quiet_us.get(), end_of(&ends, "early"));
    assert!(end_of(&ends, "late") >= 1_000, "it came after the valve was closed");
}

#[test]
fn who_waits_for_quiet_may_give_up_and_is_informed_of_an_opening() {
    let mut world = world();
    let lane = world.lane();
    let (shared, stack) = valved(&lane);
    let ends = Ends::default();
    send(&ends, &stack, "write", 0, write(0, 8, 1));
    let answers = Rc::new(Cell::new((true, true)));
    let (closer, result, closing) = (shared.clone(), answers.clone(), lane.clone());
    let close = async move {
        closing.sleep_until(10_000).await;
        closer.close();
        let impatient = closer.quiet(|| true).await;
        let opener = closer.clone();
        let later = closing.clone();
        let open = async move {
            later.sleep_until(20_000).await;
            opener.open();
        };
        closing.spawn(open).expect("a slot is free");
        result.set((impatient, closer.quiet(|| false).await));
    };
    lane.spawn(close).expect("a slot is free");
    while world.step() {}
    assert_eq!(answers.get(), (false, false));
}

#[test]
fn what_is_held_when_the_volume_stops_is_refused_and_never_done() {
    let mut world = world();
    let lane = world.lane();
    let (shared, stack) = valved(&lane);
    let ends = Ends::default();
    shared.close();
    send(&ends, &stack, "held", 0, write(0, 8, 1));
    send(&ends, &stack, "later", 200, write(0, 8, 1));
    let (stopper, stopping) = (shared.clone(), lane.clone());
    let stop = async move {
        stopping.sleep_until(100_000).await;
        stopper.refuse();
    };
    lane.spawn(stop).expect("a slot is free");
    while world.step() {}
    let ends = ends.borrow();
    assert_eq!(ends.len(), 2);
    let kinds = ends.iter().map(|(_, _, end)| end.map_err(|error| error.kind));
    assert!(kinds.into_iter().all(|end| end == Err(block::Kind::Stopping)), "{ends:?}");
}

/// A stack whose backing can be marked as hanging.
struct Hanging {
    below: Stack,
    stall: Arc<Stall>,
}

impl Layer for Hanging {
    fn lower(&self) -> &Stack {
        &self.below
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        Some(&self.stall)
    }
}

#[test]
fn what_was_held_while_the_backing_stalled_is_not_done_later() {
    let mut world = world();
    let lane = world.lane();
    let stall = Arc::new(Stall::default());
    let below = delayed(&lane, &spec(10, 100, 10, 4));
    let below = Stack::new(&lane, Hanging { below, stall: stall.clone() });
    let shared = TopShared::new(below.limits());
    let stack = Stack::new(&lane, Top::attach(&shared, None, below));
    let shared = shared.valve().clone();
    let results = Rc::new(Cell::new([None; 2]));
    assert!(shared.close());
    for (index, at_ns) in [(0, 0), (1, 3_000_000)] {
        let (stack, results, waiting) = (stack.clone(), results.clone(), lane.clone());
        let send = async move {
            waiting.sleep_until(at_ns).await;
            let result = stack.run(write(0, 8, 1)).await;
            let mut all = results.get();
            all[index] = Some(result.is_ok());
            results.set(all);
        };
        lane.spawn(send).expect("a slot is free");
    }
    let (opener, waiting) = (shared.clone(), lane.clone());
    let operate = async move {
        waiting.sleep_until(1_000_000).await;
        stall.set(true);
        waiting.sleep_until(2_000_000).await;
        stall.set(false);
        waiting.sleep_until(4_000_000).await;
        opener.open();
    };
    lane.spawn(operate).expect("a slot is free");
    while world.step() {}
    assert_eq!(results.get(), [Some(false), Some(true)], "the first client was told an error");
}
