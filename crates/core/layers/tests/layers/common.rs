//! Shared test code of the layers: a timed world, and requests that record the time of their end.

use block::{Buf, DelaySpec, Extent, Ram, Request, Result, Size, Stack};
use lane::{Lane, Prices, World};
use layers::{Delay, DelayShared};
use std::cell::RefCell;
use std::rc::Rc;

/// Number of bytes that represent a sector in these tests.
pub(crate) const GRAIN: u32 = 16;

/// A world in which only the device takes time.
pub(crate) fn world() -> World {
    World::timed(Prices::default())
}

/// Returns a memory of 1024 sectors, as seen from this lane.
pub(crate) fn ram(lane: &Lane) -> Stack {
    Stack::new(lane, Ram::new(1024, GRAIN))
}

/// Times in microseconds, no limit on bandwidth.
pub(crate) fn spec(read_us: u64, write_us: u64, flush_us: u64, servers: u32) -> DelaySpec {
    DelaySpec { read_us, write_us, flush_us, servers, bandwidth: Size(0) }
}

/// A delayed memory.
pub(crate) fn delayed(lane: &Lane, spec: &DelaySpec) -> Stack {
    let shared = DelayShared::new(spec);
    Stack::new(lane, Delay::attach(shared, lane, ram(lane)))
}

/// A read of `count` sectors from `first` on.
pub(crate) fn read(first: u64, count: u32) -> Request {
    Request::Read { at: Extent::new(first, count), into: Buf::new(count, GRAIN) }
}

/// A write of `count` sectors of `byte` from `first` on.
pub(crate) fn write(first: u64, count: u32, byte: u8) -> Request {
    let from = Buf::new(count, GRAIN);
    from.write(&vec![byte; from.bytes()]);
    Request::Write { at: Extent::new(first, count), from, fua: false }
}

/// The end time (in microseconds) and the result of each request, in the order of their ends.
pub(crate) type Ends = Rc<RefCell<Vec<(&'static str, u64, Result)>>>;

/// Sends a request at `when_us`; its end is recorded under `name`.
pub(crate) fn send(ends: &Ends, stack: &Stack, name: &'static str, when_us: u64, request: Request) {
    let (ends, stack) = (ends.clone(), stack.clone());
    let lane = stack.lane().clone();
    lane.clone()
        .spawn(async move {
            lane.sleep_until(when_us * 1000).await;
            let result = stack.run(request).await;
            assert_eq!(lane.now() % 1000, 0, "these tests use whole microseconds");
            ends.borrow_mut().push((name, lane.now() / 1000, result));
        })
        .expect("a slot is free");
}

/// Returns the microsecond at which the request of this name ended.
pub(crate) fn end_of(ends: &Ends, name: &str) -> u64 {
    let ends = ends.borrow();
    let found = ends.iter().find(|(known, ..)| *known == name);
    found.unwrap_or_else(|| panic!("{name} has not ended")).1
}
