//! A recorder records each request, its times and its result, and changes nothing.

use crate::common::{Ends, GRAIN, delayed, end_of, ram, read, send, spec, world, write};
use block::{Block, Error, Extent, FaultsSpec, Kind, Limits, Padding, Ram, Request, Result, Stack};
use lane::{Lock, World};
use layers::{Faults, FaultsShared, Recorder, RecorderShared, RecorderSwitch, Top, TopShared};
use std::sync::Arc;
use trace::{Event, Operation};

fn event(time_us: u64, took_us: u64, operation: Operation, first: u64, sectors: u32) -> Event {
    let (time_ns, took_ns) = (time_us * 1000, Some(took_us * 1000));
    Event { time_ns, took_ns, operation, device: 3, first, sectors, failed: None }
}

#[test]
fn each_request_is_noted_with_its_time_when_it_is_answered() {
    let mut world = world();
    let lane = world.lane();
    let (shared, mut recording) = RecorderShared::new(3, 16);
    let below = delayed(&lane, &spec(100, 50, 700, 1));
    let stack = Stack::new(&lane, Recorder::attach(&shared, below));
    let ends = Ends::default();
    let at = Extent::new(16, 4);
    send(&ends, &stack, "read", 0, read(8, 8));
    send(&ends, &stack, "write", 1, write(0, 8, 1));
    send(&ends, &stack, "flush", 200, Request::Flush);
    send(&ends, &stack, "discard", 1000, Request::Discard { at });
    send(&ends, &stack, "zero", 2000, Request::Zero { at, fua: true, may_unmap: true });
    while world.step() {}
    let mut events = Vec::new();
    assert_eq!(recording.take(&mut events), 0);
    // One server: the write waits for the read.
    assert_eq!((end_of(&ends, "read"), end_of(&ends, "write")), (100, 150));
    let zero = Operation::Zero { fua: true, may_unmap: true };
    let wanted = [
        event(0, 100, Operation::Read, 8, 8),
        event(1, 149, Operation::Write { fua: false }, 0, 8),
        event(200, 700, Operation::Flush, 0, 0),
        event(1000, 50, Operation::Discard, 16, 4),
        event(2000, 50, zero, 16, 4),
    ];
    assert_eq!(events, wanted);
    assert_eq!(recording.take(&mut events), 0);
    assert_eq!(events.len(), 5, "they are taken once");
}

#[test]
fn what_is_answered_at_once_is_noted_and_what_fails_with_its_errno() {
    let mut world = world();
    let lane = world.lane();
    let (shared, mut recording) = RecorderShared::new(3, 16);
    let stack = Stack::new(&lane, Recorder::attach(&shared, ram(&lane)));
    assert_eq!(stack.try_now(&write(0, 8, 1)), Some(Ok(())));
    let spec = FaultsSpec { write_from: 1, errno: 28, ..FaultsSpec::default() };
    let below = Stack::new(&lane, Ram::new(64, GRAIN));
    let failing = Stack::new(&lane, Faults::attach(FaultsShared::new(&spec), below));
    let stack = Stack::new(&lane, Recorder::attach(&shared, failing));
    assert_eq!(stack.try_now(&write(0, 8, 1)), None, "who does not answer is not noted");
    let ends = Ends::default();
    send(&ends, &stack, "write", 5, write(8, 8, 1));
    while world.step() {}
    let mut events = Vec::new();
    recording.take(&mut events);
    let operation = Operation::Write { fua: false };
    let failed = Event { failed: Some(28), ..event(5, 0, operation, 8, 8) };
    assert_eq!(events, [event(0, 0, operation, 0, 8), failed]);
}

/// Answers immediately, like a cache: from within a section.
struct Sectioned(Ram, Lock<()>);

impl Block for Sectioned {
    fn limits(&self) -> &Limits {
        Block::limits(&self.0)
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        self.1.with(|()| self.0.try_now(request))
    }

    async fn run(&self, request: Request) -> Result {
        self.0.run(request).await
    }
}

#[test]
fn it_may_stand_beside_the_section_of_what_answers_at_once() {
    // A chosen world counts sections, and panics at the second one of a poll.
    let mut world = World::chosen(1);
    let lane = world.lane();
    let (shared, mut recording) = RecorderShared::new(3, 16);
    let below = Stack::new(&lane, Sectioned(Ram::new(64, GRAIN), Lock::new(())));
    let stack = Stack::new(&lane, Recorder::attach(&shared, below));
    lane.spawn(async move { assert_eq!(stack.try_now(&write(0, 8, 1)), Some(Ok(()))) })
        .expect("a slot is free");
    while world.step() {}
    let mut events = Vec::new();
    recording.take(&mut events);
    assert_eq!(events.len(), 1);
}

#[test]
fn a_recorder_is_switched_on_and_off_under_requests() {
    let mut world = world();
    let lane = world.lane();
    let below = delayed(&lane, &spec(100, 50, 700, 8));
    let top = TopShared::new(below.limits());
    let stack = Stack::new(&lane, Top::attach(&top, None, below));
    let (first, mut one) = RecorderShared::new(3, 16);
    let (second, mut two) = RecorderShared::new(3, 16);
    let ends = Ends::default();
    send(&ends, &stack, "before", 0, read(0, 8));
    send(&ends, &stack, "recorded", 10, read(8, 8));
    send(&ends, &stack, "by another", 20, read(16, 8));
    send(&ends, &stack, "after", 30, read(24, 8));
    let switches = [(5, Some(first)), (15, Some(second)), (25, None)];
    let switching = lane.clone();
    lane.spawn(async move {
        for (time_us, recorder) in switches {
            switching.sleep_until(time_us * 1000).await;
            match recorder {
                Some(recorder) => top.recorder().switch_on(recorder),
                None => top.recorder().switch_off(),
            }
        }
    })
    .expect("a slot is free");
    while world.step() {}
    let mut events = Vec::new();
    one.take(&mut events);
    assert_eq!(events, [event(10, 100, Operation::Read, 8, 8)], "answered after the switch");
    events.clear();
    two.take(&mut events);
    assert_eq!(events, [event(20, 100, Operation::Read, 16, 8)]);
}

#[test]
fn a_full_recorder_drops_and_counts() {
    let mut world = world();
    let lane = world.lane();
    let (shared, mut recording) = RecorderShared::new(3, 4);
    let stack = Stack::new(&lane, Recorder::attach(&shared, ram(&lane)));
    let mut events = Vec::new();
    for (requests, dropped) in [(10u64, 6), (3, 0), (5, 1)] {
        events.clear();
        (0..requests).for_each(|number| {
            assert_eq!(
                stack.try_now(&write(number * 8, 8, 1)),
                Some(Ok(())),
                "served all the same"
            );
        });
        assert_eq!(recording.take(&mut events), dropped);
        assert_eq!(events.len() as u64, requests - dropped);
        assert!(events.iter().zip(0..).all(|(event, number)| event.first == number * 8));
    }
    drop(world);
}

#[test]
fn a_part_of_a_block_is_recorded_as_one_request_of_its_client() {
    let mut world = world();
    let lane = world.lane();
    let below = delayed(&lane, &spec(100, 50, 700, 8));
    let top = TopShared::new(below.limits());
    let (shared, mut recording) = RecorderShared::new(3, 16);
    top.recorder().switch_on(shared);
    let stack = Stack::new(&lane, Top::attach(&top, None, below));
    let writing = stack.clone();
    lane.spawn(async move {
        let padding = Padding { head: 1, tail: 0 };
        writing.run_padded(write(8, 8, 1), padding).await.expect("a sound device");
    })
    .expect("a slot is free");
    while world.step() {}
    let mut events = Vec::new();
    recording.take(&mut events);
    // It reads the first block and writes all of them.
    assert_eq!(events, [event(0, 150, Operation::Write { fua: false }, 8, 8)]);
}

/// Withdraws all requests, as a server does that stops.
struct Stopping(Ram);

impl Block for Stopping {
    fn limits(&self) -> &Limits {
        Block::limits(&self.0)
    }

    async fn run(&self, _: Request) -> Result {
        Err(Error::new(Kind::Stopping, "serve a server that stops"))
    }
}

#[test]
fn a_request_that_its_client_sends_again_is_not_recorded() {
    let mut world = world();
    let lane = world.lane();
    let (shared, mut recording) = RecorderShared::new(3, 16);
    let below = Stack::new(&lane, Stopping(Ram::new(64, GRAIN)));
    let stack = Stack::new(&lane, Recorder::attach(&shared, below));
    lane.spawn(async move { assert!(stack.run(read(0, 8)).await.is_err()) })
        .expect("a slot is free");
    while world.step() {}
    let mut events = Vec::new();
    assert_eq!((recording.take(&mut events), events), (0, vec![]));
}

#[test]
fn events_are_taken_in_parts_in_their_order() {
    let mut world = world();
    let lane = world.lane();
    let (shared, mut recording) = RecorderShared::new(3, 16);
    let switch = Arc::new(RecorderSwitch::default());
    let stack = Stack::new(&lane, Recorder::attach_switch(&switch, ram(&lane)));
    let write_at = |number: u64| stack.try_now(&write(number * 8, 8, 1));
    assert_eq!((write_at(7), switch.is_on()), (Some(Ok(())), false));
    switch.switch_on(shared);
    (0..5).for_each(|number| assert_eq!(write_at(number), Some(Ok(()))));
    switch.switch_off();
    assert_eq!(write_at(6), Some(Ok(())));
    for firsts in [vec![0, 8], vec![16, 24], vec![32], vec![]] {
        let mut events = Vec::new();
        assert_eq!(recording.take_up_to(2, &mut events), 0);
        assert_eq!(events.iter().map(|event| event.first).collect::<Vec<_>>(), firsts);
    }
}
