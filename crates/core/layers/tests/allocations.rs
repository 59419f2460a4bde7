//! In steady state the layers allocate no memory.

use allocations::of_this_thread;
use block::{Buf, DelaySpec, Extent, FaultsSpec, Padding, Ram, RateLimitSpec, Request, Stack};
use lane::{Prices, World};
use layers::{ArrivalOrder, Delay, DelayShared, Faults, FaultsShared};
use layers::{RateLimit, RateLimitShared, RecorderShared, Top, TopShared};
use std::cell::Cell;
use std::rc::Rc;

const GRAIN: u32 = 16;

#[test]
fn requests_in_stride_allocate_nothing() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let faults = FaultsShared::new(&FaultsSpec::default());
    let ram = Stack::new(&lane, Ram::new(1024, GRAIN));
    let failing = Stack::new(&lane, Faults::attach(faults, ram));
    let shared = DelayShared::new(&DelaySpec::default());
    let delayed = Stack::new(&lane, Delay::attach(shared, &lane, failing));
    let spec = RateLimitSpec { iops: 5000, ..RateLimitSpec::default() };
    let shared = RateLimitShared::new(&spec);
    let limited = Stack::new(&lane, RateLimit::attach(shared, &lane, delayed));
    // The ring is full before allocations are counted: then it drops events.
    let (shared, mut recording) = RecorderShared::new(0, 512);
    let top = TopShared::new(limited.limits());
    top.recorder().switch_on(shared);
    let stack = Stack::new(&lane, Top::attach(&top, None, limited));
    let rounds = Rc::new(Cell::new(0u64));
    for task in 0..16u64 {
        let (stack, rounds) = (stack.clone(), rounds.clone());
        let (at, buf) = (Extent::new(task * 8, 8), Buf::new(8, GRAIN));
        let into = buf.clone();
        let requests = [
            Request::Read { at, into },
            Request::Write { at, from: buf, fua: false },
            Request::Flush,
        ];
        lane.spawn(async move {
            for number in task as usize.. {
                let request = requests[number % requests.len()].clone();
                stack.run(request).await.expect("a sound device");
                rounds.set(rounds.get() + 1);
            }
        })
        .expect("a slot is free");
    }
    world.run_until(|| rounds.get() >= 1_000);
    let before = of_this_thread();
    world.run_until(|| rounds.get() >= 20_000);
    let after = of_this_thread();
    assert_eq!(after - before, 0, "in 19000 requests");
    let mut events = Vec::new();
    let dropped = recording.take(&mut events);
    assert!(events.len() == 512 && dropped > 19_000, "{} and {dropped}", events.len());
}

#[test]
fn parts_of_blocks_in_stride_allocate_nothing() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let ram = Stack::new(&lane, Ram::new(1024, GRAIN));
    let shared = DelayShared::new(&DelaySpec::default());
    let below = Stack::new(&lane, Delay::attach(shared, &lane, ram));
    let shared = TopShared::new(below.limits());
    let stack = Stack::new(&lane, Top::attach(&shared, None, below));
    let rounds = Rc::new(Cell::new(0u64));
    for task in 0..16u64 {
        let (stack, rounds) = (stack.clone(), rounds.clone());
        // Neighbours overlap, and wait for each other.
        let (at, buf) = (Extent::new(task * 6, 8), Buf::new(8, GRAIN));
        let padding = [Padding::NONE, Padding { head: 3, tail: 5 }];
        lane.spawn(async move {
            for number in task as usize.. {
                let request = match number % 3 {
                    0 => Request::Read { at, into: buf.clone() },
                    1 => Request::Write { at, from: buf.clone(), fua: false },
                    _ => Request::Zero { at, fua: true, may_unmap: true },
                };
                let result = match padding[number / 3 % 2] {
                    Padding::NONE => stack.run(request).await,
                    padding => stack.run_padded(request, padding).await,
                };
                result.expect("a sound device");
                rounds.set(rounds.get() + 1);
            }
        })
        .expect("a slot is free");
    }
    world.run_until(|| rounds.get() >= 1_000);
    let before = of_this_thread();
    world.run_until(|| rounds.get() >= 20_000);
    let after = of_this_thread();
    assert_eq!(after - before, 0, "in 19000 requests");
}

#[test]
fn changes_that_wait_for_one_another_allocate_nothing() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let ram = Stack::new(&lane, Ram::new(1024, GRAIN));
    let shared = DelayShared::new(&DelaySpec::default());
    let stack = Stack::new(&lane, Delay::attach(shared, &lane, ram));
    let (order, rounds) = (ArrivalOrder::new(16), Rc::new(Cell::new(0u64)));
    for task in 0..16u64 {
        let (stack, order, rounds) = (stack.clone(), order.clone(), rounds.clone());
        // Neighbours overlap.
        let request = Request::Zero { at: Extent::new(task * 6, 8), fua: false, may_unmap: true };
        lane.spawn(async move {
            loop {
                let running = order.run(&stack, request.clone(), Padding::NONE);
                running.await.expect("a sound device");
                rounds.set(rounds.get() + 1);
            }
        })
        .expect("a slot is free");
    }
    world.run_until(|| rounds.get() >= 1_000);
    let before = of_this_thread();
    world.run_until(|| rounds.get() >= 20_000);
    let after = of_this_thread();
    assert_eq!(after - before, 0, "in 19000 requests");
}
