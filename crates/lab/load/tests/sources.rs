//! Sources other than the load that follows from a seed: steps of any kind, and recordings.

use block::{Extent, Limits, Null, Ram, Stack};
use lane::{Lane, Prices, World};
use layers::{Delay, DelayShared, Recorder, RecorderShared, Recording};
use load::{End, Limit, Load, LoadError, Order, Record, Replay, RunOptions, Running, Source, Step};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::recording::{blocks, header};
use trace::{Event, Operation, Trace};

const SECTORS: u64 = 1 << 16;
const WRITE: Operation = Operation::Write { fua: false };

/// Returns memory with two servers that take 100 us a read, 50 a write, 700 a flush, and a recorder
/// in front of it.
fn device(lane: &Lane) -> (Stack, Recording) {
    let spec = block::DelaySpec {
        read_us: 100,
        write_us: 50,
        flush_us: 700,
        servers: 2,
        bandwidth: block::Size(0),
    };
    let below = Stack::new(lane, Ram::new(SECTORS, 16));
    let below = Stack::new(lane, Delay::attach(DelayShared::new(&spec), lane, below));
    let (shared, recording) = RecorderShared::new(0, 1 << 16);
    (Stack::new(lane, Recorder::attach(&shared, below)), recording)
}

/// Runs a source on a new device. Returns its record and the requests that reached the device.
fn run(source: impl Source + 'static, run_options: RunOptions) -> (Record, Vec<Event>) {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let (stack, mut recording) = device(&lane);
    let running = Running::of(&stack, source, run_options).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    let mut events = Vec::new();
    assert_eq!(recording.take(&mut events), 0);
    (running.record(), events)
}

/// A fixed list of steps.
struct List(VecDeque<Step>);

impl List {
    fn new(steps: &[Step]) -> List {
        List(steps.iter().copied().collect())
    }
}

impl Source for List {
    fn check(&self, _: &Limits) -> Result<(), LoadError> {
        Ok(())
    }

    fn next(&mut self) -> Option<Step> {
        self.0.pop_front()
    }
}

fn step(due_us: Option<u64>, operation: Operation, first: u64, count: u32) -> Step {
    Step { due_ns: due_us.map(|us| us * 1000), operation, at: Extent::new(first, count) }
}

#[test]
fn steps_of_any_kind_and_size_are_sent_when_they_are_due() {
    let zero = Operation::Zero { fua: true, may_unmap: false };
    let steps = [
        step(Some(0), WRITE, 0, 8),
        step(Some(10), Operation::Read, 100, 1),
        step(Some(500), Operation::Flush, 0, 0),
        step(Some(2000), Operation::Discard, 16, 4096),
        step(Some(2001), zero, 8, 3),
    ];
    let (record, events) = run(List::new(&steps), RunOptions::depth(4));
    assert_eq!((record.end, record.requests(), record.bytes), (End::Limit, 5, 9 * 512));
    assert_eq!((record.writes.max_ns(), record.reads.max_ns()), (50_000, 100_000));
    assert_eq!((record.flushes.max_ns(), record.trims.count()), (700_000, 2));
    assert_eq!((record.late_starts, record.served.count()), (0, 5));
    assert_eq!(record.elapsed_ns(), 2_051_000);
    let passed: Vec<_> = events
        .iter()
        .map(|event| (event.time_ns / 1000, event.operation, event.first, event.sectors))
        .collect();
    let wanted = steps.map(|step| {
        let at = if step.operation == Operation::Flush { Extent::new(0, 0) } else { step.at };
        (step.due_ns.expect("due") / 1000, step.operation, at.first, at.count)
    });
    assert_eq!(passed, wanted);
}

/// A source whose check takes long: the lane's clock stands still, the stopwatch does not.
struct Checked(List);

impl Source for Checked {
    fn check(&self, _: &Limits) -> Result<(), LoadError> {
        STOPWATCH_NS.fetch_add(3_000_000_000, Ordering::Relaxed);
        Ok(())
    }

    fn next(&mut self) -> Option<Step> {
        self.0.next()
    }
}

static STOPWATCH_NS: AtomicU64 = AtomicU64::new(0);

#[test]
fn the_time_in_which_a_source_is_checked_does_not_make_its_steps_late() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    lane.set_stopwatch(|| STOPWATCH_NS.load(Ordering::Relaxed));
    let stack = device(&lane).0;
    let steps = [step(Some(10), Operation::Read, 0, 8), step(Some(20), Operation::Read, 8, 8)];
    let running = Running::of(&stack, Checked(List::new(&steps)), RunOptions::depth(2));
    let running = running.expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    let record = running.record();
    assert_eq!((record.start_ns, record.late_starts), (3_000_000_000, 0));
    assert_eq!(record.requests(), 2);
}

#[test]
fn steps_without_a_time_keep_so_many_under_way_and_late_ones_are_counted() {
    let closed: Vec<Step> = (0..100).map(|n| step(None, WRITE, n * 8, 8)).collect();
    let (record, _) = run(List::new(&closed), RunOptions::depth(2));
    assert_eq!((record.elapsed_ns(), record.writes.max_ns()), (50 * 50_000, 50_000));
    assert_eq!((record.late_starts, record.served.count()), (0, 0));
    // One at a time, all due at the start: each waits for those before it.
    let due: Vec<Step> = (0..10).map(|n| step(Some(0), WRITE, n * 8, 8)).collect();
    let (record, _) = run(List::new(&due), RunOptions::depth(1));
    assert_eq!((record.late_starts, record.writes.max_ns()), (9, 500_000));
    assert_eq!(record.served.max_ns(), 50_000);
}

#[test]
fn terms_end_a_source_that_does_not() {
    let load = Load::new(Order::Random, 4096, SECTORS * 512);
    let replay = |limit| {
        let trace = "0 0 0 8 0\n1000 0 8 8 0\n".repeat(1000);
        let trace = Trace::parse(trace.as_bytes()).expect("a trace");
        let source = Replay::new(trace, SECTORS * 512, 1).expect("room");
        run(source, RunOptions { limit, flush: true, ..RunOptions::depth(4) }).0
    };
    let record = replay(Limit::requests(7));
    assert_eq!((record.requests(), record.flush_ns), (7, 700_000));
    assert_eq!(replay(Limit::time(1000)).requests(), 1000, "those that are due before");
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let stack = Stack::new(&lane, Null::new(8, 0));
    assert_eq!(Running::start(&stack, load).err(), Some(LoadError::Span { sectors: 8 }));
    let none = Running::of(&stack, List::new(&[]), RunOptions::depth(0)).err();
    assert_eq!(none, Some(LoadError::Arrival));
    let empty =
        Running::of(&stack, List::new(&[]), RunOptions::depth(3)).expect("nothing is asked");
    assert!(world.run_until(|| empty.is_done()));
    assert_eq!((empty.record().requests(), world.now()), (0, 0));
}

#[test]
fn what_was_recorded_is_replayed_as_it_was() {
    // A load of reads and writes with due times: recorded, written to a file, read, replayed and
    // recorded again.
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let (stack, mut recording) = device(&lane);
    let arrival = load::Arrival::Open { interval_ns: 70_000, depth_max: 8 };
    let load = Load::new(Order::Random, 4096, SECTORS * 512);
    let limit = Limit::requests(2000);
    let load = Load { arrival, reads_percent: 60, limit, flush: true, seed: 5, ..load };
    let running = Running::start(&stack, load).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    let first = running.record();
    let (mut bytes, mut events) = (Vec::new(), Vec::new());
    header(&mut bytes);
    let dropped = recording.take(&mut events);
    blocks(&mut bytes, &events, dropped);
    assert_eq!(events.len(), 2001, "the final flush is one");

    let trace = Trace::parse(&bytes).expect("a recording");
    let replay = Replay::new(trace, SECTORS * 512, 1).expect("the same size");
    assert_eq!((replay.steps(), replay.last_due_ns()), (2001, events[2000].time_ns));
    let (second, again) = run(replay, RunOptions::depth(8));
    assert_eq!(again, events);
    assert_eq!(
        (second.reads.count(), second.writes.count()),
        (first.reads.count(), first.writes.count())
    );
    assert_eq!(second.reads.mean_ns(), first.reads.mean_ns());
    assert_eq!((second.flushes.count(), second.late_starts), (1, 0));
}

#[test]
fn a_trace_keeps_its_times_and_finds_room() {
    let text = "2000 7 1000 16 0\n1000 3 8 8 1\n\n3000 3 999999999999 32 0\n";
    let trace = || Trace::parse(text.as_bytes()).expect("three requests");
    let bytes = 1 << 20;
    let mut replay = Replay::new(trace(), bytes, 2).expect("room");
    assert_eq!((replay.steps(), replay.last_due_ns()), (6, 4666));
    let all: Vec<Step> = std::iter::from_fn(|| replay.next()).collect();
    let due: Vec<u64> = all.iter().flat_map(|step| step.due_ns).collect();
    assert_eq!(due, [0, 1000, 2000, 2666, 3666, 4666]);
    let operations: Vec<Operation> = all.iter().map(|step| step.operation).collect();
    assert_eq!(operations[..3], [Operation::Read, WRITE, WRITE]);
    let part = bytes / 512 / 4;
    for (step, place) in all.iter().zip([0, 2, 0, 1, 3, 1]) {
        assert_eq!(step.at.first / part, place);
        assert_eq!((step.at.end() - 1) / part, place);
    }
    assert_eq!(all[0].at.first, 8);
    let mut faster = Replay::new(trace(), bytes, 2).expect("room").faster(2);
    let due: Vec<u64> = std::iter::from_fn(|| faster.next()?.due_ns).collect();
    assert_eq!(due, [0, 500, 1000, 1333, 1833, 2333]);
    let small = Replay::new(trace(), 16 << 10, 1).err();
    assert_eq!(small, Some(LoadError::Span { sectors: 32 }));
}

#[test]
fn a_replay_is_refused_by_a_device_that_cannot_take_it() {
    let replay = |text: &str| {
        let trace = Trace::parse(text.as_bytes()).expect("a trace");
        Replay::new(trace, SECTORS * 512, 1).expect("room")
    };
    let plain = Limits::plain(SECTORS, 0);
    let (reads, writes) = ("5 0 9 3 1\n", "5 0 8 512 0\n");
    let large = Limits { block_logical_bytes: 4096, ..plain.clone() };
    assert_eq!(replay(reads).check(&large), Err(LoadError::Block { unit: 4096 }));
    let short = Limits { io_max_bytes: 65_536, ..plain.clone() };
    assert_eq!(replay(writes).check(&short), Err(LoadError::Block { unit: 512 }));
    let locked = Limits { read_only: true, ..plain.clone() };
    assert_eq!(replay(writes).check(&locked), Err(LoadError::ReadOnly));
    assert_eq!(replay(reads).check(&locked), Ok(()));
    let smaller = Limits::plain(SECTORS / 2, 0);
    let span = LoadError::Span { sectors: SECTORS / 2 };
    assert_eq!(replay(reads).check(&smaller), Err(span));
    assert_eq!(replay(reads).check(&plain), Ok(()));
}
