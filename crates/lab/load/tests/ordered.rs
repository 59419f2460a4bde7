//! Replays whose requests overlap: their order, and figures that follow by hand.

use block::{Limits, Ram, Stack};
use lane::{Prices, World};
use layers::{Delay, DelayShared};
use load::{Alone, Foresees, Ordered, Record, Replay, RunOptions, Running, Step};
use trace::{Event, Operation, Trace};

const SECTORS: u64 = 1 << 16;
const READ: Operation = Operation::Read;
const WRITE: Operation = Operation::Write { fua: false };

/// Returns a read of 8 sectors, a write over it 10 us later, a read of that data 5 us later, a read
/// elsewhere at the same time, and a last read after a pause.
fn replay() -> Ordered<Replay> {
    let event = |time_us: u64, operation, first| Event {
        time_ns: time_us * 1000,
        took_ns: None,
        operation,
        device: 0,
        first,
        sectors: 8,
        failed: None,
    };
    let events = vec![
        event(0, READ, 0),
        event(10, WRITE, 4),
        event(15, READ, 8),
        event(15, READ, 64),
        event(1000, READ, 64),
    ];
    Ordered::new(Replay::new(Trace::of(events), SECTORS * 512, 1).expect("room"))
}

/// A device that answers each read after 100 us and each write after 50.
struct Fixed;

impl Foresees for Fixed {
    fn submit(&mut self, now_ns: u64, step: &Step, _: &[Step]) -> block::Result<u64> {
        Ok(now_ns + if step.operation == READ { 100_000 } else { 50_000 })
    }

    fn flush(&mut self, now_ns: u64) -> block::Result<u64> {
        Ok(now_ns)
    }
}

/// Checks the figures: the reads take 100, 235 (from 15 to 250), 100 and 100 us, and the write from
/// 10 to 150.
fn check(record: &Record) {
    assert_eq!((record.reads.count(), record.reads.mean_ns()), (4, 535_000.0 / 4.0));
    assert_eq!((record.writes.count(), record.writes.mean_ns()), (1, 140_000.0));
    assert_eq!((record.reads.min_ns(), record.reads.max_ns()), (100_000, 235_000));
    let mean = 535.0 / 4.0;
    let variance: f64 =
        [100.0, 235.0, 100.0, 100.0].map(|us: f64| (us - mean).powi(2)).iter().sum();
    assert!((record.reads.stdev_ns() / 1000.0 - (variance / 4.0).sqrt()).abs() < 0.01);
    assert_eq!(record.reads.share_above(110_000), 0.25);
    assert_eq!((record.held_starts, record.late_starts), (2, 0));
    // Busy from 0 to 250 and for the last read; 450 us of service.
    assert_eq!((record.elapsed_ns(), record.busy_ns), (1_100_000, 350_000));
    assert_eq!(record.in_flight_ns, 450_000);
    assert!((record.depth_mean() - 450.0 / 350.0).abs() < 1e-9);
    assert_eq!(record.lateness.max_ns(), 0, "a wait for other requests is no lateness");
}

#[test]
fn the_figures_of_a_replay_are_those_by_hand_with_a_lane_and_without() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let spec = block::DelaySpec {
        read_us: 100,
        write_us: 50,
        flush_us: 700,
        servers: 4,
        bandwidth: block::Size(0),
    };
    let below = Stack::new(&lane, Ram::new(SECTORS, 16));
    let stack = Stack::new(&lane, Delay::attach(DelayShared::new(&spec), &lane, below));
    let running = Running::of(&stack, replay(), RunOptions::depth(16)).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    check(&running.record());

    let limits = Limits::plain(SECTORS, 0);
    let mut alone = Alone::of(&limits, replay(), RunOptions::depth(16), 0).expect("it fits");
    while alone.go_on(&mut Fixed, 100) {}
    check(&alone.finish(&mut Fixed));
}
