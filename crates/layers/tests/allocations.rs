//! In stride the layers ask the system for no memory.

use allocations::of_this_thread;
use block::{Buf, DelaySpec, Extent, FaultsSpec, Ram, Request, Stack};
use lane::{Prices, World};
use layers::{Delay, DelayShared, Faults, FaultsShared};
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
    let stack = Stack::new(&lane, Delay::attach(shared, &lane, failing));
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
}
