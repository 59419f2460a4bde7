//! The load engine over devices with known answers: a number of servers in virtual time.

use block::{DelaySpec, Error, Kind, Limits, Null, Ram, Request, Size, Stack};
use lane::{Prices, World};
use layers::{Delay, DelayShared};
use load::{Arrival, Content, Data, End, Limit, Load, LoadError, Order, Record, Running};

const SECTORS: u64 = 1 << 20;

/// Returns a device of `servers` servers that take 100 us each.
fn device(world: &mut World, servers: u32) -> Stack {
    let lane = world.lane();
    let below = Stack::new(&lane, Null::new(SECTORS, 0));
    let spec =
        DelaySpec { read_us: 100, write_us: 100, flush_us: 700, servers, bandwidth: Size(0) };
    Stack::new(&lane, Delay::attach(DelayShared::new(&spec), &lane, below))
}

fn run(servers: u32, load: Load) -> Record {
    let mut world = World::timed(Prices::default());
    let stack = device(&mut world, servers);
    let running = Running::start(&stack, load).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    running.record()
}

fn random(depth: u32) -> Load {
    let load = Load::new(Order::Random, 4096, SECTORS * 512).depth(depth);
    Load { limit: Limit::time(1_000_000_000), ..load }
}

#[test]
fn a_closed_load_goes_as_fast_as_its_depth_and_the_servers_let_it() {
    // Little's law: depth = rate * latency; four servers of 100 us answer at most 40,000 per
    // second.
    for (depth, rate, latency) in
        [(1, 10_000, 100_000), (4, 40_000, 100_000), (32, 40_000, 800_000)]
    {
        let record = run(4, random(depth));
        // Requests under way at the end are waited for and counted.
        let more = record.requests().checked_sub(rate).expect("as fast as it can");
        assert!(more < u64::from(depth), "depth {depth}: {more} more");
        let exact = record.requests() as f64 * 1e9 / record.elapsed_ns() as f64;
        assert_eq!(record.per_second(), exact);
        assert_eq!(record.writes.quantile_ns(0.9), latency, "depth {depth}");
        assert_eq!(record.end, End::Limit);
        assert_eq!(record.reads.count(), 0);
    }
}

#[test]
fn data_that_are_made_ahead_are_those_that_are_written_and_cost_no_time() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let below = Stack::new(&lane, Ram::new(64 << 11, 512));
    let spec =
        DelaySpec { read_us: 100, write_us: 100, flush_us: 0, servers: 1, bandwidth: Size(0) };
    let stack = Stack::new(&lane, Delay::attach(DelayShared::new(&spec), &lane, below));
    let data = Data::new(Content::random(3), true);
    let mut run = |order, reads_percent, seed| {
        let load = Load::new(order, 1 << 20, 64 << 20);
        let load = Load { limit: Limit::requests(100), reads_percent, seed, ..load };
        let running = Running::start_with(&stack, load, &data).expect("it fits");
        assert!(world.run_until(|| running.is_done()));
        running.record()
    };
    // Each block is written twice or more before it is read, and the last write counts.
    for (order, reads) in [(Order::Sequential, 0), (Order::Random, 0), (Order::Random, 50)] {
        let record = run(order, reads, 7);
        assert_eq!((record.end, record.requests()), (End::Limit, 100), "{order:?}");
        assert_eq!(record.all().max_ns(), 100_000);
        assert_eq!(record.elapsed_ns(), 100 * 100_000, "nothing between two requests");
    }
    let record = run(Order::Sequential, 100, 1);
    assert_eq!((record.end, record.reads.count()), (End::Limit, 100), "all is as it was written");
}

#[test]
fn the_final_flush_is_part_of_the_time() {
    let plain = run(4, random(4));
    let flushed = run(4, Load { flush: true, ..random(4) });
    assert_eq!(flushed.flush_ns, 700_000);
    assert_eq!(flushed.elapsed_ns(), plain.elapsed_ns() + 700_000);
    assert!(flushed.per_second() < plain.per_second());
}

#[test]
fn an_open_load_charges_waiting_to_the_device() {
    let offered =
        |interval_ns| Load { arrival: Arrival::Open { interval_ns, depth_max: 64 }, ..random(1) };
    // 20,000 per second are less than 40,000: no request waits.
    let light = run(4, offered(50_000));
    assert_eq!((light.requests(), light.writes.max_ns()), (20_000, 100_000));
    assert_eq!(light.late_starts, 0);
    // 50,000 are more: the queue grows, and requests that are due at the end wait a quarter of the
    // time.
    let heavy = run(4, offered(20_000));
    assert_eq!(heavy.requests(), 50_000);
    let last = heavy.writes.max_ns() as f64;
    assert!((last / 250_000_000.0 - 1.0).abs() < 0.01, "{last}");
    // The result of a generator that counts from its own late starts.
    assert!(heavy.served.max_ns() <= 64 * 25_000 + 100_000, "{}", heavy.served.max_ns());
    assert!(heavy.late_starts > 45_000);
}

#[test]
fn intervals_add_up_and_marks_follow_the_bytes() {
    let load = Load::new(Order::Sequential, 1 << 20, 64 << 20);
    let load = Load {
        limit: Limit::requests(64),
        interval_ns: 1_000_000,
        mark_bytes: 10 << 20,
        ..load.depth(2)
    };
    let record = run(1, load);
    assert_eq!(record.by_interval.iter().map(|&count| u64::from(count)).sum::<u64>(), 64);
    // One server, 100 us each: ten per millisecond, and a mark with each tenth.
    assert_eq!(record.by_interval[1..6], [10; 5]);
    // Two under way: each waits for the other, except the first.
    assert_eq!(record.latencies.len(), record.by_interval.len());
    let counts = record.by_interval.iter().map(|&count| u64::from(count));
    assert!(counts.eq(record.latencies.iter().map(|interval| interval.count)));
    for interval in &record.latencies[1..6] {
        assert_eq!((interval.mean_ns, interval.max_ns), (200_000.0, 200_000));
        assert!((198_000..=200_000).contains(&interval.p99_ns), "{interval:?}");
    }
    let first = record.latencies[0];
    assert!(first.mean_ns < 200_000.0 && first.max_ns == 200_000, "{first:?}");
    let wanted: Vec<u64> = (1..=6).map(|mark| mark * 1_000_000).collect();
    assert_eq!(record.marks_ns, wanted);
}

#[test]
fn same_seed_same_record_and_another_seed_another_one() {
    let load = |seed| Load { reads_percent: 70, seed, ..random(8) };
    let debug_text = |record: Record| format!("{record:?}");
    assert_eq!(debug_text(run(3, load(1))), debug_text(run(3, load(1))));
    assert_ne!(debug_text(run(3, load(1))), debug_text(run(3, load(2))));
    let record = run(3, load(1));
    let share = record.reads.count() as f64 / record.requests() as f64;
    assert!((share - 0.7).abs() < 0.01, "{share}");
}

#[test]
fn a_load_stops_when_asked_and_reports_it() {
    let mut world = World::timed(Prices::default());
    let stack = device(&mut world, 1);
    let running = Running::start(&stack, Load { flush: true, ..random(4) }).expect("it fits");
    let mut steps = 0;
    world.run_until(|| {
        steps += 1;
        steps > 500
    });
    running.stop();
    assert!(world.run_until(|| running.is_done()));
    let record = running.record();
    assert_eq!(record.end, End::Stopped);
    assert!(record.requests() > 10 && record.requests() < 1000, "{}", record.requests());
    assert_eq!(record.flush_ns, 700_000);
}

#[test]
fn a_device_that_takes_no_time_is_noticed() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let stack = Stack::new(&lane, Null::new(SECTORS, 0));
    let running = Running::start(&stack, random(4)).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    assert_eq!(running.record().end, End::Timeless);
}

/// Fails from the tenth write on.
struct Failing(Null, std::cell::Cell<u32>);

impl block::Block for Failing {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    async fn run(&self, _: Request) -> block::Result {
        self.1.set(self.1.get() + 1);
        if self.1.get() < 10 { Ok(()) } else { Err(Error::new(Kind::Io, "write")) }
    }
}

#[test]
fn an_error_ends_the_load() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let failing = Failing(Null::new(SECTORS, 0), std::cell::Cell::new(0));
    let running = Running::start(&Stack::new(&lane, failing), random(4)).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    let record = running.record();
    assert!(matches!(record.end, End::Failed(error) if error.kind == Kind::Io));
    assert_eq!(record.requests(), 9);
}

/// Never answers the tenth request, nor those after it.
struct Silent(Null, std::cell::Cell<u32>);

impl block::Block for Silent {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    async fn run(&self, _: Request) -> block::Result {
        self.1.set(self.1.get() + 1);
        if self.1.get() < 10 { Ok(()) } else { std::future::pending().await }
    }
}

#[test]
fn what_a_device_never_answers_can_be_given_up() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let silent = Silent(Null::new(SECTORS, 0), std::cell::Cell::new(0));
    let running = Running::start(&Stack::new(&lane, silent), random(4)).expect("it fits");
    assert!(!world.run_until(|| running.is_done()), "nothing more can happen");
    running.give_up(lane.now());
    assert!(running.is_done());
    let record = running.record();
    assert_eq!((record.end, record.requests()), (End::Stopped, 9));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut world = World::timed(Prices::default());
    let stack = device(&mut world, 1);
    let refused = |load: Load| Running::start(&stack, load).err().expect("refused");
    assert_eq!(refused(Load { block_sectors: 0, ..random(1) }), LoadError::Block { unit: 512 });
    let span = LoadError::Span { sectors: SECTORS };
    assert_eq!(refused(Load { first: 8, ..random(1) }), span);
    assert_eq!(refused(Load { first: u64::MAX, ..random(1) }), span);
    assert_eq!(refused(Load { sectors: 7, ..random(1) }), span);
    assert_eq!(refused(random(0)), LoadError::Arrival);
    let still = Arrival::Open { interval_ns: 0, depth_max: 1 };
    assert_eq!(refused(Load { arrival: still, ..random(1) }), LoadError::Arrival);
    let flat = Order::Zipf { exponent: 0.0 };
    assert_eq!(refused(Load { order: flat, ..random(1) }), LoadError::Arrival);
}

#[test]
fn a_zipf_load_has_hot_blocks() {
    let load = Load { order: Order::Zipf { exponent: 1.1 }, ..random(4) };
    // A device that records the addresses of its writes.
    struct Noting(Null, std::rc::Rc<std::cell::RefCell<Vec<u64>>>);
    impl block::Block for Noting {
        fn limits(&self) -> &Limits {
            self.0.limits()
        }
        async fn run(&self, request: Request) -> block::Result {
            self.1.borrow_mut().extend(request.extent().map(|at| at.first / 8));
            Ok(())
        }
    }
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let seen = std::rc::Rc::<std::cell::RefCell<Vec<u64>>>::default();
    let stack = Stack::new(&lane, Noting(Null::new(SECTORS, 0), seen.clone()));
    let limit = Limit::requests(100_000);
    let running = Running::start(&stack, Load { limit, ..load }).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    let mut counts = vec![0u32; (SECTORS / 8) as usize];
    seen.borrow().iter().for_each(|&block| counts[block as usize] += 1);
    let most = counts.iter().max().copied().unwrap_or(0);
    assert!(counts[0] < most, "what is hot lies anywhere");
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hundred: u32 = counts[..100].iter().sum();
    assert!((55_000..75_000).contains(&hundred), "{hundred} of 100,000 in the hundred hottest");
}
