//! The parts of the top layer together: what is timed, what is counted, and what a change that was
//! not answered immediately leaves behind.

use crate::common::{Ends, GRAIN, delayed, end_of, ram, read, send, spec, world, write};
use block::{Buf, Extent, Padding, Request, Stack};
use layers::{Kind, Sampler, Top, TopShared};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

#[test]
fn one_read_in_1024_is_timed_if_it_is_a_hit() {
    let mut world = world();
    let lane = world.lane();
    let (below, slow) = (ram(&lane), delayed(&lane, &spec(10, 10, 10, 1)));
    let shared = TopShared::new(below.limits());
    let (clock, times) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    let sampler = || {
        let (clock, times) = (clock.clone(), times.clone());
        let advance = move || clock.replace(clock.get() + 7);
        Sampler::new(advance, move |ns| times.borrow_mut().push(ns))
    };
    let stack = Stack::new(&lane, Top::attach(&shared, Some(sampler()), below));
    for _ in 0..2048 {
        assert_eq!(stack.try_now(&write(0, 8, 1)), Some(Ok(())));
        assert_eq!(stack.try_now(&read(0, 8)), Some(Ok(())));
    }
    assert_eq!(*times.borrow(), [7, 7], "only reads");
    let stack = Stack::new(&lane, Top::attach(&shared, Some(sampler()), slow));
    assert!((0..1024).all(|_| stack.try_now(&read(0, 8)).is_none()));
    assert_eq!(times.borrow().len(), 2, "a miss is not reported");
    assert_eq!(shared.counts().reads.requests.load(Ordering::Relaxed), 0, "the cache counts");
    while world.step() {}
}

fn counted(kind: &Kind) -> [u64; 4] {
    let Kind { requests, bytes, errors, summed_ns } = kind;
    [requests, bytes, errors, summed_ns].map(|count| count.load(Ordering::Relaxed))
}

#[test]
fn without_a_sampler_all_requests_are_counted() {
    let mut world = world();
    let lane = world.lane();
    let below = delayed(&lane, &spec(10, 20, 30, 4));
    let shared = TopShared::new(below.limits());
    let stack = Stack::new(&lane, Top::attach(&shared, None, below));
    let at_once = Stack::new(&lane, Top::attach(&shared, None, ram(&lane)));
    let ends = Ends::default();
    send(&ends, &stack, "read", 0, read(0, 8));
    send(&ends, &stack, "write", 0, write(0, 8, 1));
    send(&ends, &stack, "flush", 100, Request::Flush);
    while world.step() {}
    assert_eq!(at_once.try_now(&read(0, 2)), Some(Ok(())));
    let counts = shared.counts();
    assert_eq!(counted(&counts.reads), [2, 10 * 512, 0, 10_000]);
    assert_eq!(counted(&counts.writes), [1, 8 * 512, 0, 20_000]);
    assert_eq!(counted(&counts.flushes), [1, 0, 0, 30_000]);
    assert_eq!(counted(&counts.zeroes), [0; 4]);
}

#[test]
fn a_change_that_a_freeze_refuses_at_first_holds_up_no_part_of_a_block() {
    let mut world = world();
    let lane = world.lane();
    let below = delayed(&lane, &spec(10, 100, 10, 4));
    let shared = TopShared::new(below.limits());
    let stack = Stack::new(&lane, Top::attach(&shared, None, below));
    assert!(shared.valve().close());
    assert_eq!(stack.try_now(&write(0, 1, 1)), None);
    let ends = Ends::default();
    send(&ends, &stack, "whole", 0, write(8, 1, 1));
    let (part, done) = (stack.clone(), Rc::new(Cell::new(None)));
    let (noted, sending) = (done.clone(), lane.clone());
    let merge = async move {
        let (at, from) = (Extent::new(0, 1), Buf::new(1, GRAIN));
        let request = Request::Write { at, from, fua: false };
        let result = part.run_padded(request, Padding { head: 1, tail: 2 }).await;
        noted.set(Some((result, sending.now() / 1000)));
    };
    lane.spawn(merge).expect("a slot is free");
    let (valve, opening) = (shared.valve().clone(), lane.clone());
    let open = async move {
        opening.sleep_until(5_000_000).await;
        valve.open();
    };
    lane.spawn(open).expect("a slot is free");
    while world.step() {}
    let (result, end_us) = done.get().expect("it is not held up for ever");
    assert_eq!(result, Ok(()));
    assert!(end_of(&ends, "whole") >= 5_100 && end_us > 5_100, "{end_us}");
}
