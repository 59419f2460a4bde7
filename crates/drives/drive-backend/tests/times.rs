//! In virtual time a modelled drive takes as long as the model, on one lane and on several.

use block::{Block, Buf, Extent, Request};
use drive_backend::{Keep, Modelled, Shared, State};
use drives::{Drive, Model, Op, Options};
use lane::{Lane, Prices, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const NAME: &str = "samsung-840-evo-120";

fn model() -> Model {
    Model::preset(NAME).expect("a preset")
}

/// Returns a small part of the drive, so that a test costs little memory.
fn options() -> Options {
    Options { user_bytes: Some(1 << 30), ..Options::default() }
}

fn shared(keep: Keep) -> Arc<Shared> {
    Shared::new(&model(), &options(), keep).expect("a sound drive")
}

/// Returns the `number`-th command of a fixed mixture, in slots.
fn op(number: u64) -> Op {
    let first = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 18) * 8;
    match number % 16 {
        0 => Op::Flush,
        1..6 => Op::Read { first, count: 8 },
        _ => Op::Write { first, count: 8 },
    }
}

fn request(op: Op, grain: u32) -> Request {
    match op {
        Op::Read { first, count } => {
            Request::Read { at: Extent::new(first, count), into: Buf::new(count, grain) }
        }
        Op::Write { first, count } => {
            let from = Buf::new(count, grain);
            Request::Write { at: Extent::new(first, count), from, fua: false }
        }
        Op::Trim { first, count } => Request::Discard { at: Extent::new(first, count as u32) },
        Op::Flush => Request::Flush,
    }
}

/// Runs `count` commands one after another on a lane; returns the time after each.
fn run(lane: &Lane, shared: &Arc<Shared>, count: u64) -> Rc<RefCell<Vec<u64>>> {
    let drive = Modelled::attach(shared, lane);
    let ends = Rc::new(RefCell::new(Vec::new()));
    let (kept, clock) = (ends.clone(), lane.clone());
    lane.spawn(async move {
        let grain = drive.limits().grain;
        for number in 0..count {
            drive.run(request(op(number), grain)).await.expect("a sound drive");
            kept.borrow_mut().push(clock.now());
        }
    })
    .expect("a slot is free");
    ends
}

#[test]
fn every_command_takes_as_long_as_the_model_says() {
    for keep in [Keep::Nothing, Keep::Data] {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let shared = shared(keep);
        let ends = run(&lane, &shared, 20_000);
        while world.step() {}
        let Drive::Flash(mut drive) = model().drive(&options()).expect("a sound drive") else {
            panic!("a flash drive")
        };
        let mut now = 0;
        let expected: Vec<u64> = (0..20_000)
            .map(|number| {
                now = drive.submit(now, op(number));
                now
            })
            .collect();
        assert_eq!(*ends.borrow(), expected, "{keep:?}");
        let lateness = shared.lateness();
        assert_eq!((lateness.count(), lateness.max()), (20_000, 0));
        assert_eq!(shared.counters(), Some(*drive.ftl().counters()));
    }
}

#[test]
fn a_drive_that_is_used_late_has_not_idled_before() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    lane.set_now(86_400_000_000_000);
    let shared = shared(Keep::Nothing);
    let ends = run(&lane, &shared, 1000);
    while world.step() {}
    let mut young = World::timed(Prices::default());
    let (lane, same) = (young.lane(), self::shared(Keep::Nothing));
    let expected = run(&lane, &same, 1000);
    while young.step() {}
    let shifted: Vec<u64> = ends.borrow().iter().map(|end| end - 86_400_000_000_000).collect();
    assert_eq!(shifted, *expected.borrow());
}

#[test]
fn lanes_share_the_drive_and_not_their_clocks() {
    let mut world = World::timed(Prices::default());
    let lanes: Vec<Lane> = (0..3).map(|_| world.lane()).collect();
    let shared = shared(Keep::Nothing);
    let ends: Vec<_> = lanes.iter().map(|lane| run(lane, &shared, 3000)).collect();
    while world.step() {}
    assert!(ends.iter().all(|ends| ends.borrow().len() == 3000));
    assert!(ends.iter().all(|ends| ends.borrow().is_sorted()));
    let report = shared.report();
    assert_eq!(report.reads + report.writes + report.flushes, 9000);
}

#[test]
fn a_drive_can_be_brought_into_a_state_before() {
    let shared = shared(Keep::Nothing);
    let slots = (1u64 << 30) / 4096;
    for state in State::ALL {
        shared.age(state).expect("a sound drive");
        let counters = shared.counters().expect("a flash drive");
        let written = match state {
            State::Purged => 0,
            State::Filled => slots,
            State::Used | State::Trimmed => 2 * slots,
            State::Steady => 5 * slots,
        };
        assert_eq!(counters.host_writes, written, "{state}");
        let trimmed = if state == State::Trimmed { slots } else { 0 };
        assert_eq!(counters.trimmed, trimmed, "{state}");
        assert_eq!(state.name().parse(), Ok(state));
    }
    shared.age(State::Filled).expect("a sound drive");
    shared.precondition(|fast| fast.write_sequential(0, 1000));
    assert_eq!(shared.counters().expect("a flash drive").host_writes, slots + 1000);
}
