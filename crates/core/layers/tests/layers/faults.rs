//! Operations fail by their number, counted over all lanes, and failed operations have no effect.

use crate::common::{Ends, GRAIN, read, send, world, write};
use block::{Advice, Extent, FaultsSpec, Kind, Ram, Request, Stack};
use lane::Lane;
use layers::{Faults, FaultsShared};
use std::sync::Arc;

fn attach(shared: &Arc<FaultsShared>, lane: &Lane, ram: &Ram) -> Stack {
    let below = Stack::new(lane, ram.clone());
    Stack::new(lane, Faults::attach(shared.clone(), below))
}

/// Sends the requests one after another, from two lanes in turn. Returns their results.
fn answers(spec: &FaultsSpec, ram: &Ram, requests: Vec<Request>) -> Vec<Result<(), (Kind, i32)>> {
    let mut world = world();
    let lanes = [world.lane(), world.lane()];
    let shared = FaultsShared::new(spec);
    let stacks = lanes.each_ref().map(|lane| attach(&shared, lane, ram));
    let ends = Ends::default();
    for (number, request) in requests.into_iter().enumerate() {
        send(&ends, &stacks[number % 2], "", number as u64, request);
    }
    while world.step() {}
    let ends = ends.borrow();
    let answer = |result: block::Result| result.map_err(|error| (error.kind, error.errno));
    ends.iter().map(|(_, _, result)| answer(*result)).collect()
}

#[test]
fn advice_neither_fails_nor_counts() {
    let spec = FaultsSpec { read_from: 1, write_from: 1, count: 1, ..FaultsSpec::default() };
    let at = Extent::new(0, 8);
    let advice = || Request::Advise { at, advice: Advice::WillNeed };
    let answers = answers(&spec, &Ram::new(64, GRAIN), vec![advice(), read(0, 8), advice()]);
    assert!(answers[0].is_ok() && answers[1].is_err() && answers[2].is_ok());
}

#[test]
fn the_nth_of_each_kind_fails_and_the_kinds_are_counted_apart() {
    let spec = FaultsSpec {
        read_from: 2,
        write_from: 3,
        flush_from: 1,
        count: 1,
        ..FaultsSpec::default()
    };
    let of_each = || [read(0, 8), write(0, 8, 1), Request::Flush];
    let requests = (0..4).flat_map(|_| of_each()).collect();
    let failed: Vec<_> = answers(&spec, &Ram::new(64, GRAIN), requests)
        .into_iter()
        .enumerate()
        .filter_map(|(number, answer)| Some((number / 3 + 1, number % 3, answer.err()?)))
        .collect();
    let io = (Kind::Io, 5);
    assert_eq!(failed, [(1, 2, io), (2, 0, io), (3, 1, io)]);
}

#[test]
fn a_count_of_zero_means_all_from_then_on() {
    let spec = FaultsSpec { write_from: 3, errno: 28, ..FaultsSpec::default() };
    let at = Extent::new(0, 8);
    let zero = Request::Zero { at, fua: false, may_unmap: false };
    let requests = vec![write(0, 8, 1), zero, Request::Discard { at }, write(0, 8, 1), read(0, 8)];
    let full = Err((Kind::NoSpace, 28));
    let expected = [Ok(()), Ok(()), full, full, Ok(())];
    assert_eq!(answers(&spec, &Ram::new(64, GRAIN), requests), expected);
}

#[test]
fn a_sound_spec_never_fails() {
    let requests = (0..50).map(|_| write(0, 8, 1)).collect();
    let answers = answers(&FaultsSpec::default(), &Ram::new(64, GRAIN), requests);
    assert!(answers.iter().all(Result::is_ok));
}

#[test]
fn a_failed_change_does_not_reach_the_device() {
    let spec = FaultsSpec { write_from: 2, ..FaultsSpec::default() };
    let ram = Ram::new(64, GRAIN);
    let at = Extent::new(0, 8);
    let zero = Request::Zero { at, fua: true, may_unmap: true };
    let look = read(0, 8);
    let Request::Read { into, .. } = look.clone() else { unreachable!("it was made as a read") };
    let requests = vec![write(0, 8, 7), write(0, 8, 9), zero, Request::Discard { at }, look];
    let answers = answers(&spec, &ram, requests);
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 3);
    assert_eq!(into.to_vec(), [7; 8 * GRAIN as usize]);
}

#[test]
fn a_failed_read_leaves_its_buffer_alone() {
    let spec = FaultsSpec { read_from: 1, ..FaultsSpec::default() };
    let request = read(0, 8);
    let Request::Read { into, .. } = request.clone() else { unreachable!("it was made as a read") };
    into.write(&[3; 8 * GRAIN as usize]);
    assert!(answers(&spec, &Ram::new(64, GRAIN), vec![request])[0].is_err());
    assert_eq!(into.to_vec(), [3; 8 * GRAIN as usize]);
}

#[test]
fn a_hang_delays_and_then_serves() {
    let spec = FaultsSpec { write_from: 2, count: 1, hang_ms: 3, ..FaultsSpec::default() };
    let ram = Ram::new(64, GRAIN);
    let mut world = world();
    let lane = world.lane();
    let stack = attach(&FaultsShared::new(&spec), &lane, &ram);
    let ends = Ends::default();
    for number in 0..3 {
        send(&ends, &stack, "", number, write(number * 8, 8, 1));
    }
    while world.step() {}
    let ends: Vec<_> = ends.borrow().iter().map(|(_, at_us, end)| (*at_us, *end)).collect();
    assert_eq!(ends.iter().map(|(at_us, _)| *at_us).max(), Some(3_001), "one has hung: {ends:?}");
    assert_eq!(ends.iter().filter(|(at_us, _)| *at_us < 10).count(), 2);
    assert!(ends.iter().all(|(_, result)| result.is_ok()));
}
