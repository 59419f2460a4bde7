//! A recording replayed in its order: which requests wait for which, on devices with known answers.

use block::{DelaySpec, Error, FaultsSpec, Kind, Null, Size, Stack};
use lane::{Prices, World};
use layers::{Delay, DelayShared, Faults, FaultsShared, Recorder, RecorderShared};
use load::{Dependent, End, LoadError, Record, RunOptions, Running};
use trace::recording::{blocks, header};
use trace::{Event, Operation, Trace};

const SECTORS: u64 = 1 << 16;
const WRITE: Operation = Operation::Write { fua: false };

fn event(time_us: u64, took_us: u64, operation: Operation, first: u64) -> Event {
    let sectors = if operation == Operation::Flush { 0 } else { 8 };
    let (time_ns, took_ns) = (time_us * 1000, Some(took_us * 1000));
    Event { time_ns, took_ns, operation, device: 0, first, sectors, failed: None }
}

fn trace(events: &[Event]) -> Trace {
    let mut bytes = Vec::new();
    header(&mut bytes);
    blocks(&mut bytes, events, 0);
    Trace::parse(&bytes).expect("a recording")
}

/// Replays on a device with enough servers, 100 us a read, 1 ms a write, 500 us a flush. Returns
/// the requests that reached it, and the record.
fn replay(events: &[Event]) -> (Vec<(u64, Operation, u64)>, Record) {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let below = Stack::new(&lane, Null::new(SECTORS, 0));
    let spec =
        DelaySpec { read_us: 100, write_us: 1000, flush_us: 500, servers: 64, bandwidth: Size(0) };
    let below = Stack::new(&lane, Delay::attach(DelayShared::new(&spec), &lane, below));
    let (shared, mut recording) = RecorderShared::new(0, 1 << 12);
    let stack = Stack::new(&lane, Recorder::attach(&shared, below));
    let source = Dependent::new(&trace(events));
    assert_eq!(source.steps(), events.len() as u64);
    let running = Running::of(&stack, source, RunOptions::depth(32)).expect("it fits");
    assert!(world.run_until(|| running.is_done()));
    let mut passed = Vec::new();
    recording.take(&mut passed);
    passed.sort_by_key(|event| (event.time_ns, event.first));
    let key_of = |event: &Event| (event.time_ns / 1000, event.operation, event.first);
    (passed.iter().map(key_of).collect(), running.record())
}

#[test]
fn a_request_waits_for_what_was_answered_when_it_came_and_for_nothing_else() {
    let (passed, record) = replay(&[
        // Two reads together, a third after both.
        event(0, 50, Operation::Read, 0),
        event(10, 50, Operation::Read, 8),
        event(100, 50, Operation::Read, 16),
        // A write after all of them, a read after its answer, and a flush after that.
        event(200, 10, WRITE, 800),
        event(300, 50, Operation::Read, 24),
        event(400, 10, Operation::Flush, 0),
    ]);
    let wanted = [
        (0, Operation::Read, 0),
        (0, Operation::Read, 8),
        (100, Operation::Read, 16),
        // Reads do not wait for writes.
        (200, Operation::Read, 24),
        (200, WRITE, 800),
        (1200, Operation::Flush, 0),
    ];
    assert_eq!(passed, wanted);
    assert_eq!((record.elapsed_ns(), record.end), (1_700_000, End::Limit));
    // Waiting for other requests is not part of a request's latency.
    assert_eq!((record.reads.max_ns(), record.writes.max_ns()), (100_000, 1_000_000));
}

#[test]
fn writes_keep_the_depth_at_which_they_were_recorded() {
    // Always two under way, on a device that is a hundred times slower.
    let writes: Vec<Event> =
        (0..40).map(|number| event(number / 2 * 10, 10, WRITE, number * 8)).collect();
    let (passed, record) = replay(&writes);
    assert_eq!(record.elapsed_ns(), 20 * 1_000_000);
    assert!(passed.iter().enumerate().all(|(index, event)| event.0 == index as u64 / 2 * 1000));
}

#[test]
fn events_of_one_moment_without_a_duration_do_not_wait_for_one_another() {
    let events: Vec<Event> = (0..50).map(|number| event(7, 0, WRITE, number * 8)).collect();
    let (_, record) = replay(&events);
    assert_eq!((record.writes.count(), record.elapsed_ns()), (50, 2_000_000), "32 at a time");
}

#[test]
fn what_waits_is_given_up_where_the_device_fails_or_the_load_is_stopped() {
    let chain: Vec<Event> =
        (0..20).map(|number| event(number * 100, 50, Operation::Read, number * 8)).collect();
    let run = |reads_until_failure: Option<u64>| {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let below = Stack::new(&lane, Null::new(SECTORS, 0));
        let spec =
            DelaySpec { read_us: 100, write_us: 1, flush_us: 1, servers: 4, bandwidth: Size(0) };
        let mut stack = Stack::new(&lane, Delay::attach(DelayShared::new(&spec), &lane, below));
        if let Some(number) = reads_until_failure {
            let faults = FaultsSpec { read_from: number + 1, ..FaultsSpec::default() };
            stack = Stack::new(&lane, Faults::attach(FaultsShared::new(&faults), stack));
        }
        let source = Dependent::new(&trace(&chain));
        let running = Running::of(&stack, source, RunOptions::depth(8)).expect("it fits");
        if reads_until_failure.is_none() {
            world.run_until(|| lane.now() > 550_000);
            running.stop();
        }
        assert!(world.run_until(|| running.is_done()));
        running.record()
    };
    let failed = run(Some(5));
    assert!(matches!(failed.end, End::Failed(Error { kind: Kind::Io, .. })), "{:?}", failed.end);
    assert_eq!(failed.reads.count(), 5);
    let stopped = run(None);
    assert_eq!(stopped.end, End::Stopped);
    assert!((5..8).contains(&stopped.reads.count()), "{}", stopped.reads.count());
}

#[test]
fn a_recording_that_does_not_fit_is_refused() {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let stack = Stack::new(&lane, Null::new(64, 0));
    let refused = |events: &[Event]| {
        Running::of(&stack, Dependent::new(&trace(events)), RunOptions::depth(1)).err()
    };
    assert_eq!(refused(&[event(0, 1, WRITE, 56)]), None);
    assert_eq!(refused(&[event(0, 1, WRITE, 57)]), Some(LoadError::Span { sectors: 64 }));
    assert_eq!(
        refused(&[event(0, 1, Operation::Read, u64::MAX / 2)]),
        Some(LoadError::Span { sectors: 64 })
    );
}
