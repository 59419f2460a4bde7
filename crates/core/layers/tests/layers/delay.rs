//! The delay in virtual time: all results are exact.

use crate::common::{Ends, GRAIN, delayed, end_of, ram, read, send, spec, world, write};
use block::{Block, Buf, DelaySpec, Extent, Fua, Kind, Limits, Null, Request, Result, Size, Stack};
use lane::{Lane, Lock, World};
use layers::{Delay, DelayShared, Faults, FaultsShared};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Keeps `depth` requests in flight until `total` have ended. Returns the nanosecond of the last
/// end.
fn load(spec: &DelaySpec, depth: u64, total: u64, request: fn(u64) -> Request) -> u64 {
    let mut world = world();
    let lane = world.lane();
    let stack = delayed(&lane, spec);
    let begun = Rc::new(Cell::new(0));
    for _ in 0..depth {
        let (stack, begun) = (stack.clone(), begun.clone());
        lane.spawn(async move {
            while begun.get() < total {
                begun.set(begun.get() + 1);
                stack.run(request(begun.get())).await.expect("a sound device");
            }
        })
        .expect("a slot is free");
    }
    while world.step() {}
    assert_eq!(lane.tasks(), 0);
    world.now()
}

#[test]
fn one_at_a_time_takes_the_service_time() {
    let spec = spec(500, 200, 0, 4);
    assert_eq!(load(&spec, 1, 100, |_| read(0, 8)), 100 * 500_000);
    assert_eq!(load(&spec, 1, 100, |_| write(0, 8, 1)), 100 * 200_000);
}

#[test]
fn thirty_two_at_a_time_reach_servers_over_service_time() {
    let spec = spec(500, 500, 0, 4);
    assert_eq!(load(&spec, 32, 3200, |_| read(0, 8)), 3200 / 4 * 500_000);
    let mixed = |number| match number % 2 {
        0 => read(number % 64 * 8, 8),
        _ => write(number % 64 * 8, 8, 1),
    };
    assert_eq!(load(&spec, 32, 3200, mixed), 3200 / 4 * 500_000);
}

#[test]
fn the_link_bounds_what_the_servers_could_do() {
    let spec = DelaySpec {
        bandwidth: Size(4096 * 1000), // 4 KiB take a millisecond
        ..spec(500, 500, 0, 4)
    };
    let ends = load(&spec, 32, 1000, |_| read(0, 8));
    assert_eq!(ends, 1000 * 1_000_000 + 500_000);
    let alone = load(&spec, 1, 10, |_| read(0, 8));
    assert_eq!(alone, 10 * 1_500_000, "alone: over the link, then served");
    let twice_the_bytes = load(&spec, 32, 1000, |_| write(0, 16, 1));
    assert_eq!(twice_the_bytes, 1000 * 2_000_000 + 500_000);
}

#[test]
fn a_discard_or_a_zero_is_served_but_needs_no_link() {
    let spec = DelaySpec { bandwidth: Size(512), ..spec(500, 300, 0, 1) };
    let discard = |_| Request::Discard { at: Extent::new(0, 1024) };
    let zero = |_| Request::Zero { at: Extent::new(0, 1024), fua: false, may_unmap: true };
    assert_eq!(load(&spec, 4, 8, discard), 8 * 300_000);
    assert_eq!(load(&spec, 4, 8, zero), 8 * 300_000);
}

#[test]
fn a_flush_waits_for_earlier_writes_and_holds_back_nothing() {
    let mut world = world();
    let lane = world.lane();
    let stack = delayed(&lane, &spec(100, 500, 250, 1));
    let ends = Ends::default();
    send(&ends, &stack, "early", 0, write(0, 8, 1));
    send(&ends, &stack, "early too", 0, write(8, 8, 1));
    send(&ends, &stack, "flush", 10, Request::Flush);
    send(&ends, &stack, "read", 20, read(16, 8));
    send(&ends, &stack, "late", 20, write(24, 8, 1));
    while world.step() {}
    assert_eq!(end_of(&ends, "early"), 500);
    assert_eq!(end_of(&ends, "early too"), 1000);
    assert_eq!(end_of(&ends, "flush"), 1250);
    assert_eq!(end_of(&ends, "read"), 1100, "served as if there were no flush");
    assert_eq!(end_of(&ends, "late"), 1600, "and so is a later write");
}

#[test]
fn flushes_share_and_an_idle_one_costs_its_time_only() {
    let mut world = world();
    let lane = world.lane();
    let stack = delayed(&lane, &spec(100, 500, 250, 4));
    let ends = Ends::default();
    send(&ends, &stack, "idle", 0, Request::Flush);
    send(&ends, &stack, "write", 1000, write(0, 8, 1));
    send(&ends, &stack, "one", 1100, Request::Flush);
    send(&ends, &stack, "two", 1200, Request::Flush);
    send(&ends, &stack, "after", 1600, Request::Flush);
    while world.step() {}
    assert_eq!(end_of(&ends, "idle"), 250);
    assert_eq!((end_of(&ends, "one"), end_of(&ends, "two")), (1750, 1750));
    assert_eq!(end_of(&ends, "after"), 1850);
}

#[test]
fn lanes_share_the_servers_and_the_flush_covers_all_of_them() {
    let mut world = world();
    let lanes = [world.lane(), world.lane()];
    let shared = DelayShared::new(&spec(100, 500, 250, 1));
    let stacks = lanes
        .each_ref()
        .map(|lane| Stack::new(lane, Delay::attach(shared.clone(), lane, ram(lane))));
    let ends = Ends::default();
    send(&ends, &stacks[0], "first", 0, write(0, 8, 1));
    send(&ends, &stacks[1], "second", 1, write(0, 8, 1));
    send(&ends, &stacks[0], "flush", 2, Request::Flush);
    while world.step() {}
    assert_eq!(end_of(&ends, "first"), 500);
    assert_eq!(end_of(&ends, "second"), 1000);
    assert_eq!(end_of(&ends, "flush"), 1250);
}

#[test]
fn nothing_ends_before_it_has_ended_below() {
    let mut world = world();
    let lane = world.lane();
    let slow = delayed(&lane, &spec(700, 900, 100, 1));
    let shared = DelayShared::new(&spec(100, 100, 50, 1));
    let stack = Stack::new(&lane, Delay::attach(shared, &lane, slow));
    let ends = Ends::default();
    send(&ends, &stack, "read", 0, read(0, 8));
    send(&ends, &stack, "write", 0, write(0, 8, 1));
    send(&ends, &stack, "flush", 0, Request::Flush);
    while world.step() {}
    assert_eq!(end_of(&ends, "read"), 700);
    assert_eq!(end_of(&ends, "write"), 1600);
    assert_eq!(end_of(&ends, "flush"), 1700, "it starts when the write has really ended");
}

/// A null device that claims to emulate FUA.
struct Emulating(Null, Limits);

impl Block for Emulating {
    fn limits(&self) -> &Limits {
        &self.1
    }

    async fn run(&self, request: Request) -> Result {
        self.0.run(request).await
    }
}

fn fua_end(fua: Fua) -> u64 {
    let mut world = world();
    let lane = world.lane();
    let limits = Limits { fua, ..Limits::plain(1024, GRAIN) };
    let below = Stack::new(&lane, Emulating(Null::new(1024, GRAIN), limits));
    let shared = DelayShared::new(&spec(100, 500, 250, 1));
    let stack = Stack::new(&lane, Delay::attach(shared, &lane, below));
    let ends = Ends::default();
    let request = Request::Write { at: Extent::new(0, 8), from: Buf::new(8, GRAIN), fua: true };
    send(&ends, &stack, "fua", 0, request);
    while world.step() {}
    end_of(&ends, "fua")
}

#[test]
fn an_emulated_fua_costs_a_flush() {
    assert_eq!(fua_end(Fua::Native), 500);
    assert_eq!(fua_end(Fua::Emulated), 750);
}

#[test]
fn an_error_below_takes_its_time_and_is_passed_on() {
    let mut world = world();
    let lane = world.lane();
    let faults =
        FaultsShared::new(&block::FaultsSpec { write_from: 1, count: 1, ..Default::default() });
    let failing = Stack::new(&lane, Faults::attach(faults, ram(&lane)));
    let shared = DelayShared::new(&spec(100, 500, 250, 1));
    let stack = Stack::new(&lane, Delay::attach(shared, &lane, failing));
    let ends = Ends::default();
    send(&ends, &stack, "write", 0, write(0, 8, 1));
    send(&ends, &stack, "flush", 1, Request::Flush);
    while world.step() {}
    let errors: Vec<_> =
        ends.borrow().iter().map(|end| end.2.map_err(|error| error.kind)).collect();
    assert_eq!(errors, [Err(Kind::Io), Ok(())]);
    assert_eq!(end_of(&ends, "flush"), 750, "a failed write has ended, too");
}

/// A caller with its own section directly before and after each request, like the engine.
async fn caller(stack: Stack, own: Arc<Lock<u64>>, lane: Lane, flushes: bool) {
    for round in 0..4u64 {
        own.with(|count| *count += 1);
        let request = if flushes { Request::Flush } else { write(round * 8, 8, 1) };
        stack.run(request).await.expect("a sound device");
        own.with(|count| *count += 1);
        lane.turn().await;
    }
}

#[test]
fn under_any_interleaving_it_ends_and_keeps_its_sections_apart() {
    for seed in 0..300 {
        let mut world = World::chosen(seed);
        let lanes = [world.lane(), world.lane()];
        let shared = DelayShared::new(&spec(3, 5, 2, 2));
        let own = Arc::new(Lock::new(0));
        for (number, lane) in lanes.iter().cycle().take(6).enumerate() {
            let stack = Stack::new(lane, Delay::attach(shared.clone(), lane, ram(lane)));
            lane.spawn(caller(stack, own.clone(), lane.clone(), number % 3 == 0))
                .expect("a slot is free");
        }
        while world.step() {}
        let left = lanes[0].tasks() + lanes[1].tasks();
        assert_eq!(left, 0, "seed {seed}: a request hangs");
        assert_eq!(own.peek(|count| *count), 6 * 4 * 2);
    }
}
