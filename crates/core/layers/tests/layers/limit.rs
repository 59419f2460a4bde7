//! The rate limit in virtual time: all results are exact.

use crate::common::{Ends, GRAIN, end_of, ram, read, send, world, write};
use block::Stack;
use block::{Advice, Block, Buf, Extent, Fua, Limits, Null, RateLimitSpec, Request, Result, Size};
use lane::{Lane, Lock, Random, World};
use layers::{RateLimit, RateLimitShared};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

fn spec(iops: u64, bandwidth: u64, burst_us: u64) -> RateLimitSpec {
    RateLimitSpec { iops, bandwidth: Size(bandwidth), burst_us }
}

/// A limited memory.
fn limited(lane: &Lane, spec: &RateLimitSpec) -> Stack {
    Stack::new(lane, RateLimit::attach(RateLimitShared::new(spec), lane, ram(lane)))
}

/// Keeps `depth` requests in flight until `total` have ended. Returns the nanosecond of the last
/// end, which is the start of the last request: the memory takes no time.
fn load(spec: &RateLimitSpec, depth: u64, total: u64, request: fn(u64) -> Request) -> u64 {
    let mut world = world();
    let lane = world.lane();
    let stack = limited(&lane, spec);
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
fn a_long_run_has_exactly_the_rate() {
    // Neither rate divides a second; the first request needs no wait.
    for (iops, total) in [(3000, 30_001), (7, 71), (299_993, 50_000)] {
        let expected = ((total - 1) * SECOND).div_ceil(iops);
        for depth in [1, 32] {
            assert_eq!(load(&spec(iops, 0, 0), depth, total, |_| read(0, 8)), expected, "{iops}");
        }
    }
    let bandwidth = 125 << 20;
    let expected = (30_000 * 4096 * SECOND).div_ceil(bandwidth);
    assert_eq!(load(&spec(0, bandwidth, 0), 32, 30_001, |_| write(0, 8, 1)), expected);
}

#[test]
fn a_burst_starts_immediately_and_then_the_rate_holds() {
    let burst = spec(100, 0, 2_000_000);
    assert_eq!(load(&burst, 1, 200, |_| read(0, 8)), 0, "two seconds of requests");
    assert_eq!(load(&burst, 32, 201, |_| read(0, 8)), SECOND / 100);
    assert_eq!(load(&burst, 32, 1200, |_| read(0, 8)), 10 * SECOND);
    let bytes = spec(0, 1 << 20, 500_000);
    assert_eq!(load(&bytes, 8, 128, |_| read(0, 8)), 0, "half a second of bytes");
    assert_eq!(load(&bytes, 8, 128 + 256, |_| read(0, 8)), SECOND);
}

#[test]
fn an_idle_bucket_fills_up_to_its_burst() {
    let mut world = world();
    let lane = world.lane();
    let stack = limited(&lane, &spec(1000, 0, 3000));
    let ends = Ends::default();
    let send_four = |names: [&'static str; 4], when_us| {
        names.into_iter().for_each(|name| send(&ends, &stack, name, when_us, read(0, 8)));
    };
    send_four(["a", "b", "c", "d"], 0);
    // Two of three tokens have been added.
    send_four(["e", "f", "g", "h"], 3000);
    send_four(["i", "j", "k", "l"], 1_000_000);
    while world.step() {}
    let ended = ["c", "d", "e", "f", "g", "h", "k", "l"].map(|name| end_of(&ends, name));
    assert_eq!(ended, [0, 1000, 3000, 3000, 4000, 5000, 1_000_000, 1_001_000]);
}

#[test]
fn the_tighter_limit_holds() {
    let both = spec(1000, 1 << 20, 0);
    let small = load(&both, 32, 1001, |_| read(0, 1));
    assert_eq!(small, SECOND, "512,000 bytes per second are below the limit");
    let large = load(&both, 32, 257, |_| read(0, 8));
    assert_eq!(large, SECOND, "256 requests per second are below the limit");
    let mixed = load(&both, 32, 2001, |number| read(0, if number % 2 == 0 { 8 } else { 1 }));
    assert!(mixed > 2 * SECOND, "each limit holds for its own requests: {mixed}");
}

#[test]
fn a_request_larger_than_the_bucket_leaves_a_debt() {
    let mut world = world();
    let lane = world.lane();
    // One sector per millisecond, ten sectors in the bucket.
    let stack = limited(&lane, &spec(0, 512_000, 10_000));
    let ends = Ends::default();
    send(&ends, &stack, "large", 0, read(0, 100));
    send(&ends, &stack, "small", 1, read(0, 1));
    send(&ends, &stack, "large again", 2, write(0, 100, 1));
    send(&ends, &stack, "late", 300_000, read(0, 4));
    while world.step() {}
    assert_eq!(end_of(&ends, "large"), 0, "the bucket is full");
    assert_eq!(end_of(&ends, "small"), 91_000, "90 are owed, and one is needed");
    assert_eq!(end_of(&ends, "large again"), 101_000, "the bucket is full again");
    assert_eq!(end_of(&ends, "late"), 300_000, "the debt is paid");
}

#[test]
fn a_discard_or_a_zero_is_a_request_without_bytes() {
    let requests = spec(100, 512, 0);
    let discard = |_| Request::Discard { at: Extent::new(0, 1024) };
    let zero = |_| Request::Zero { at: Extent::new(0, 1024), fua: false, may_unmap: true };
    assert_eq!(load(&requests, 4, 101, discard), SECOND);
    assert_eq!(load(&requests, 4, 101, zero), SECOND);
}

#[test]
fn flushes_and_advice_need_no_tokens() {
    let mut world = world();
    let lane = world.lane();
    let stack = limited(&lane, &spec(1, 0, 0));
    let ends = Ends::default();
    send(&ends, &stack, "first", 0, write(0, 8, 1));
    send(&ends, &stack, "second", 0, write(0, 8, 1));
    send(&ends, &stack, "flush", 5, Request::Flush);
    let advice = Request::Advise { at: Extent::new(0, 8), advice: Advice::WillNeed };
    send(&ends, &stack, "advice", 6, advice);
    send(&ends, &stack, "third", 7, write(0, 8, 1));
    while world.step() {}
    let ended = ["first", "second", "flush", "advice", "third"].map(|name| end_of(&ends, name));
    assert_eq!(ended, [0, 1_000_000, 5, 6, 2_000_000]);
}

/// A device that records the requests that reach it.
struct Witness {
    below: Null,
    limits: Limits,
    seen: Rc<RefCell<Vec<(u64, String)>>>,
    lane: Lane,
}

impl Block for Witness {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, _request: &Request) -> Option<Result> {
        panic!("every request needs its tokens first")
    }

    async fn run(&self, request: Request) -> Result {
        let text = match &request {
            Request::Write { at, fua, .. } => format!("write {} {fua}", at.first),
            Request::Zero { at, fua, .. } => format!("zero {} {fua}", at.first),
            Request::Read { at, .. } => format!("read {}", at.first),
            other => format!("{other:?}"),
        };
        self.seen.borrow_mut().push((self.lane.now(), text));
        self.below.run(request).await
    }
}

type Seen = Rc<RefCell<Vec<(u64, String)>>>;

fn witness(lane: &Lane) -> (Stack, Seen) {
    let seen = Seen::default();
    let limits = Limits { fua: Fua::Native, ..Limits::plain(1024, GRAIN) };
    let below = Null::new(1024, GRAIN);
    let witness = Witness { below, limits, seen: seen.clone(), lane: lane.clone() };
    (Stack::new(lane, witness), seen)
}

#[test]
fn requests_arrive_below_unchanged_and_in_their_order() {
    let mut world = world();
    let lane = world.lane();
    let (below, seen) = witness(&lane);
    let limits = below.limits().clone();
    let shared = RateLimitShared::new(&spec(1000, 512_000, 1000));
    let stack = Stack::new(&lane, RateLimit::attach(shared, &lane, below));
    assert_eq!(stack.limits(), &limits);
    assert!(stack.try_now(&read(0, 8)).is_none());
    let ends = Ends::default();
    let from = Buf::new(512, GRAIN);
    let large = Request::Write { at: Extent::new(0, 512), from, fua: true };
    send(&ends, &stack, "large", 0, large);
    send(&ends, &stack, "read", 1, read(1, 1));
    let zero = Request::Zero { at: Extent::new(2, 8), fua: true, may_unmap: false };
    send(&ends, &stack, "zero", 2, zero);
    send(&ends, &stack, "write", 3, write(3, 8, 1));
    while world.step() {}
    let seen = seen.borrow();
    let texts: Vec<&str> = seen.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["write 0 true", "read 1", "zero 2 true", "write 3 false"]);
    let texts = ends.borrow().iter().map(|end| end.2).collect::<Vec<_>>();
    assert_eq!(texts, [Ok(()); 4]);
}

#[test]
fn waiting_requests_of_all_lanes_start_in_the_order_of_their_arrival() {
    for seed in 0..50 {
        let mut world = world();
        let lanes = [world.lane(), world.lane(), world.lane()];
        let shared = RateLimitShared::new(&spec(2000, 4 << 20, 2000));
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut random = Random::new(seed);
        let mut when_ns = 0;
        for number in 0..200 {
            when_ns += 1 + random.below(400_000);
            let lane = lanes[random.below(3) as usize].clone();
            let stack = Stack::new(&lane, RateLimit::attach(shared.clone(), &lane, ram(&lane)));
            let request = match random.below(8) {
                0 => Request::Discard { at: Extent::new(0, 8) },
                1 => read(0, 512),
                _ => read(0, 1 + random.below(16) as u32),
            };
            let order = order.clone();
            let timed = lane.clone();
            lane.spawn(async move {
                timed.sleep_until(when_ns).await;
                stack.run(request).await.expect("a sound device");
                order.borrow_mut().push((number, timed.now()));
            })
            .expect("a slot is free");
        }
        while world.step() {}
        // Of requests of several lanes that start in the same nanosecond, any may be the first.
        let mut order = order.take();
        order.sort_unstable();
        assert!(order.is_sorted_by_key(|(_, start_ns)| *start_ns), "seed {seed}: {order:?}");
    }
}

#[test]
fn nested_limits_have_a_peak_and_a_long_run() {
    // As gp2: 3000 requests per second while the bucket of the lower rate has tokens.
    let mut world = world();
    let lane = world.lane();
    let inner = limited(&lane, &spec(100, 0, 290_000_000));
    let shared = RateLimitShared::new(&spec(3000, 0, 0));
    let stack = Stack::new(&lane, RateLimit::attach(shared, &lane, inner));
    let (ended, counts) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    for _ in 0..32 {
        let (stack, ended) = (stack.clone(), ended.clone());
        lane.spawn(async move {
            loop {
                stack.run(read(0, 8)).await.expect("a sound device");
                ended.set(ended.get() + 1);
            }
        })
        .expect("a slot is free");
    }
    for second in [1, 5, 10, 20, 30] {
        world.run_until(|| lane.now() >= second * SECOND);
        counts.borrow_mut().push(ended.get() / 100);
    }
    assert_eq!(*counts.borrow(), [30, 150, 300, 310, 320]);
}

#[test]
fn a_limit_of_nothing_and_absurd_limits_pass_or_hold_everything() {
    assert_eq!(load(&RateLimitSpec::default(), 8, 1000, |_| read(0, 512)), 0);
    assert_eq!(load(&spec(u64::MAX, u64::MAX, u64::MAX), 8, 1000, |_| read(0, 512)), 0);
    let slowest = load(&spec(0, 1, 0), 1, 2, |_| read(0, 1024));
    assert_eq!(slowest, 1024 * 512 * SECOND, "six days");
}

/// A caller with its own section directly before and after each request, like the engine.
async fn caller(stack: Stack, own: Arc<Lock<u64>>, lane: Lane) {
    for round in 0..4u64 {
        own.with(|count| *count += 1);
        stack.run(write(round * 8, 8, 1)).await.expect("a sound device");
        own.with(|count| *count += 1);
        lane.turn().await;
    }
}

#[test]
fn under_any_interleaving_it_ends_and_keeps_its_sections_apart() {
    for seed in 0..300 {
        let mut world = World::chosen(seed);
        let lanes = [world.lane(), world.lane()];
        let shared = RateLimitShared::new(&spec(500_000, 0, 4));
        let own = Arc::new(Lock::new(0));
        for lane in lanes.iter().cycle().take(6) {
            let stack = Stack::new(lane, RateLimit::attach(shared.clone(), lane, ram(lane)));
            lane.spawn(caller(stack, own.clone(), lane.clone())).expect("a slot is free");
        }
        while world.step() {}
        let left = lanes[0].tasks() + lanes[1].tasks();
        assert_eq!(left, 0, "seed {seed}: a request hangs");
        assert_eq!(own.peek(|count| *count), 6 * 4 * 2);
    }
}
