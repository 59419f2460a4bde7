//! In steady state a pool allocates no memory: reads, writes, discards, commits, releases.

use allocations::of_this_thread;
use block::{Buf, DelaySpec, Extent, Ram, Request, Stack};
use lane::{Prices, Random, World};
use layers::{Delay, DelayShared};
use pool::Pool;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const GRAIN: u32 = 64;

#[test]
fn requests_in_stride_allocate_nothing() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let drive = |_| {
        let ram = Stack::new(&lane, Ram::new(16_000, GRAIN));
        let shared = DelayShared::new(&DelaySpec::default());
        Stack::new(&lane, Delay::attach(shared, &lane, ram))
    };
    let members: Vec<Stack> = (0..3).map(drive).collect();
    let opened = Rc::new(RefCell::new(None));
    let (on, place) = (lane.clone(), opened.clone());
    lane.spawn(async move {
        pool::create(&members, 7, false).await.expect("blank members");
        let there: Vec<Option<Stack>> = members.iter().cloned().map(Some).collect();
        let shared = pool::open(&there).await.expect("a sound pool");
        *place.borrow_mut() = Some(Stack::new(&on, Pool::attach(&shared, &on, members)));
    })
    .expect("a slot is free");
    world.run_until(|| opened.borrow().is_some());
    let stack = opened.take().expect("it was opened");
    let slots = stack.limits().sectors / 8;
    let rounds = Rc::new(Cell::new(0u64));
    for task in 0..16u64 {
        let (stack, rounds) = (stack.clone(), rounds.clone());
        let buf = Buf::new(32, GRAIN);
        let mut random = Random::new(task);
        lane.spawn(async move {
            loop {
                let at = Extent::new(random.below(slots - 4) * 8, 32);
                let request = match random.below(16) {
                    0..6 => Request::Read { at, into: buf.clone() },
                    6..14 => Request::Write { at, from: buf.clone(), fua: false },
                    14 => Request::Discard { at },
                    _ => Request::Flush,
                };
                stack.run(request).await.expect("a sound device");
                rounds.set(rounds.get() + 1);
            }
        })
        .expect("a slot is free");
    }
    world.run_until(|| rounds.get() >= 30_000);
    let before = of_this_thread();
    world.run_until(|| rounds.get() >= 40_000);
    let after = of_this_thread();
    assert_eq!(after - before, 0, "in 10000 requests");
}
