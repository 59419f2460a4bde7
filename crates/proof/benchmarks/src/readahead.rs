//! Streams of reads: with readahead compared with none, in virtual time and without data, over a
//! delayed device.
//!
//! A client sends its next request some time after its last answer, like one that is woken by a
//! kernel.

use crate::sides::verdict;
use anyhow::Result;
use block::{Buf, DelaySpec, Extent, Limits, Memory, Null, Request, Size, Stack, WriteMode};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use layers::{Delay, DelayShared};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory, in MiB; the volume is 16 times as large.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Requests of each stream.
    #[arg(long, default_value_t = 4000)]
    requests: u64,
}

const READ_US: u64 = 1000;
const SERVERS: u32 = 16;
/// Time from an answer to the client's next request.
const CLIENT_NS: u64 = 20_000;
const KIB: u64 = 2;

/// Reads of a client: first sector and count.
type Reads = Box<dyn Iterator<Item = (u64, u32)>>;

struct TestRig {
    world: World,
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
    sectors: u64,
}

/// Returns a cache over a delayed device, with a link of `bandwidth` bytes per second; 0:
/// unlimited.
fn rig(mib: u64, readahead: bool, bandwidth: u64) -> Result<TestRig> {
    let geometry = Geometry::for_memory(mib << 20);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
    let sectors = mib << 15;
    let settings = Settings {
        write: WriteMode::BackNow,
        readahead,
        dirty_blocks_max: geometry.slots / 4,
        absorb_blocks_max: 32,
        workers: 32,
        fill_cost_ns: 400,
        stream_blocks_max: geometry.slots / 16,
        ..Settings::default()
    };
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let delay = DelaySpec {
        read_us: READ_US,
        write_us: READ_US,
        flush_us: READ_US,
        servers: SERVERS,
        bandwidth: Size(bandwidth),
    };
    let null = Stack::new(&lane, Null::new(sectors, 0));
    let below = Stack::new(&lane, Delay::attach(DelayShared::new(&delay), &lane, null));
    let shared = Shared::new(&Limits::plain(sectors, 0), geometry, settings, 0, memory)?;
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
    Ok(TestRig { world, lane, stack, shared, sectors })
}

impl TestRig {
    /// Starts a client that sends these requests one after the other. Returns the time of each.
    fn client(&self, requests: Vec<Request>, done: &Rc<Cell<usize>>) -> Rc<RefCell<Vec<u64>>> {
        let took = Rc::new(RefCell::new(Vec::with_capacity(requests.len())));
        let (stack, times, done) = (self.stack.clone(), took.clone(), done.clone());
        let client = async move {
            for request in requests {
                let lane = stack.lane();
                let begun = lane.now();
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("a null device does not fail");
                }
                times.borrow_mut().push(lane.now() - begun);
                lane.sleep_until(lane.now() + CLIENT_NS).await;
            }
            done.set(done.get() + 1);
        };
        self.lane.spawn(client).expect("a lane has room");
        took
    }

    /// Returns the time of a client for these reads, in nanoseconds.
    fn time(&mut self, reads: Reads) -> f64 {
        let (begun, done) = (self.lane.now(), Rc::new(Cell::new(0)));
        self.client(reads.map(read).collect(), &done);
        self.world.run_until(|| done.get() == 1);
        (self.lane.now() - begun) as f64
    }

    fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }
}

fn read((first, count): (u64, u32)) -> Request {
    Request::Read { at: Extent::new(first, count), into: Buf::new(count, 0) }
}

fn forward(requests: u64, sectors: u64) -> Reads {
    Box::new((0..requests).map(move |number| (number * sectors, sectors as u32)))
}

/// Runs all comparisons.
///
/// # Errors
/// A cache cannot be made.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!(
        "one client, depth 1, {} us from an answer to the next request; {READ_US} us a read, {SERVERS} servers; memory \
         {} MiB",
        CLIENT_NS / 1000,
        arguments.mib
    );
    streams(arguments)?;
    link(arguments)?;
    random(arguments)?;
    beside(arguments)?;
    copy(arguments)?;
    gathered(arguments)
}

/// Prints the speed-up of streams.
fn streams(arguments: &Arguments) -> Result<()> {
    let requests = arguments.requests;
    let length = 64 * KIB;
    let interleaved = |streams: u64| -> Reads {
        let apart = arguments.mib << 10;
        let read = move |number: u64| {
            (number % streams * apart + number / streams * length, length as u32)
        };
        Box::new((0..requests).map(read))
    };
    let last = arguments.mib << 15;
    let backward = move |number| (last - (number + 1) * length, length as u32);
    type Make<'a> = Box<dyn Fn() -> Reads + 'a>;
    let rows: [(&str, f64, Make); 8] = [
        ("forward, 64 KiB", 8.0, Box::new(|| forward(requests, length))),
        ("forward, 4 KiB", 8.0, Box::new(|| forward(4 * requests, 4 * KIB))),
        ("two streams, 64 KiB", 6.0, Box::new(|| interleaved(2))),
        ("four streams, 64 KiB", 6.0, Box::new(|| interleaved(4))),
        ("eight streams, 64 KiB", 6.0, Box::new(|| interleaved(8))),
        ("backward, 64 KiB", 4.0, Box::new(|| Box::new((0..requests).map(backward)))),
        (
            "strided, 64 KiB of each MiB",
            4.0,
            Box::new(move || {
                Box::new((0..requests).map(move |number| (number * 1024 * KIB, length as u32)))
            }),
        ),
        (
            "backward and strided",
            4.0,
            Box::new(move || {
                let read = move |number| (last - (number + 1) * 1024 * KIB, length as u32);
                Box::new((0..requests).map(read))
            }),
        ),
    ];
    for (what, target, reads) in rows {
        let with = rig(arguments.mib, true, 0)?.time(reads());
        let without = rig(arguments.mib, false, 0)?.time(reads());
        let gain = without / with;
        println!("  {what:<28} {gain:>5.1}x  target {target}: {}", verdict(gain >= target));
    }
    Ok(())
}

/// Compares large requests with the limit of the servers, or of a link of 1 GB/s.
fn link(arguments: &Arguments) -> Result<()> {
    for kib in [256, 512, 1024] {
        for bandwidth in [0, 1_000_000_000] {
            let reads = arguments.requests.min(16 * arguments.mib * 1024 / kib / 2);
            let took = rig(arguments.mib, true, bandwidth)?.time(forward(reads, kib * KIB));
            let bytes = (reads * kib) as f64 * 1024.0;
            let servers = f64::from(SERVERS) * kib as f64 * 1024.0 / (READ_US as f64 * 1e-6);
            // The maximum rate of a client that waits for each answer.
            let asks = kib as f64 * 1024.0 / (CLIENT_NS as f64 * 1e-9);
            let limit = if bandwidth > 0 { servers.min(bandwidth as f64) } else { servers };
            let share = bytes / (took * 1e-9) / limit.min(asks);
            println!(
                "  forward, {kib} KiB, {:<16} {:>5.1} % of what that allows  target 90: {}",
                if bandwidth > 0 { "link of 1 GB/s:" } else { "16 servers:" },
                100.0 * share,
                verdict(share >= 0.9)
            );
        }
    }
    Ok(())
}

/// Compares random reads, for which there must be no readahead.
fn random(arguments: &Arguments) -> Result<()> {
    for (what, mib) in
        [("all of the volume", 16 * arguments.mib), ("a quarter of the memory", arguments.mib / 4)]
    {
        let reads = || -> Reads {
            let mut random = Random::new(1);
            let blocks = mib << 8;
            Box::new((0..4 * arguments.requests).map(move |_| (random.below(blocks) * 8, 8)))
        };
        let mut with = rig(arguments.mib, true, 0)?;
        let took = with.time(reads());
        let gain = rig(arguments.mib, false, 0)?.time(reads()) / took;
        let counted = with.counters();
        let wasted = counted.readahead_issued - counted.readahead_used;
        let share = wasted as f64 / counted.block_accesses as f64;
        println!(
            "  random, {what:<22} {gain:>5.3}x  target 0.99: {}; wasted {:.2} %  target 1: {}",
            verdict(gain >= 0.99),
            100.0 * share,
            verdict(share < 0.01)
        );
    }
    Ok(())
}

/// Returns the time within which this percentage was answered.
fn percentile(took: &[u64], percent: usize) -> u64 {
    let mut took = took.to_vec();
    took.sort_unstable();
    took[(took.len() * percent / 100).min(took.len() - 1)]
}

/// Compares the latency of random reads next to a client that reads a stream.
fn beside(arguments: &Arguments) -> Result<()> {
    for kib in [64, 256] {
        let p99 = |readahead| -> Result<u64> {
            let mut rig = rig(arguments.mib, readahead, 0)?;
            let done = Rc::new(Cell::new(0));
            let mut random = Random::new(2);
            let blocks = arguments.mib << 11;
            let reads =
                (0..arguments.requests).map(|_| read(((blocks + random.below(blocks)) * 8, 8)));
            let took = rig.client(reads.collect(), &done);
            let stream = forward(8 * arguments.requests, kib * KIB);
            let half = rig.sectors / 2;
            let mut stream: Vec<_> =
                stream.map(|(first, count)| read((first % half, count))).collect();
            stream.truncate(1 << 17);
            rig.client(stream, &Rc::new(Cell::new(0)));
            rig.world.run_until(|| done.get() == 1);
            let took = took.borrow();
            Ok(percentile(&took, 99))
        };
        let (with, without) = (p99(true)?, p99(false)?);
        let ratio = with as f64 / without as f64;
        println!(
            "  random reads beside a stream of {kib} KiB: p99 {} us, without readahead {} us: {ratio:.2}x  target 1.1: {}",
            with / 1000,
            without / 1000,
            verdict(ratio <= 1.1)
        );
    }
    Ok(())
}

/// Counts the requests to the backing for a stream of writes, with a flush at intervals.
fn gathered(arguments: &Arguments) -> Result<()> {
    // The size of the largest writes that are buffered: alone those are as efficient as joined with
    // others.
    const KIB_MIN: f64 = 128.0;
    for (kib, flush_kib) in [(4, 0), (4, 1024), (4, 16384), (16, 1024), (64, 1024), (1024, 16384)] {
        let mut rig = rig(arguments.mib, true, 0)?;
        let length = kib * KIB;
        let requests = (arguments.mib * 1024).min(256 * 1024) / kib;
        let written = (0..requests).flat_map(|number| {
            let at = Extent::new(number * length, length as u32);
            let write = Request::Write { at, from: Buf::new(at.count, 0), fua: false };
            let flushes = flush_kib > 0 && (number + 1) * kib % flush_kib == 0;
            [Some(write), flushes.then_some(Request::Flush)].into_iter().flatten()
        });
        let done = Rc::new(Cell::new(0));
        rig.client(written.chain([Request::Flush]).collect(), &done);
        rig.world.run_until(|| done.get() == 1);
        let counted = rig.counters();
        let sent = counted.runs_written + counted.writes_through;
        let each_kib = (requests * kib) as f64 / sent as f64;
        let flushes =
            if flush_kib > 0 { format!("each {flush_kib} KiB") } else { "at the end".to_owned() };
        println!(
            "  writes of {kib} KiB one after the other, a flush {flushes}: {each_kib:.0} KiB a request to the backing, \
             {:.0} % went past the cache  target {KIB_MIN}: {}",
            100.0 * counted.writes_through as f64 / counted.changes as f64,
            verdict(each_kib >= KIB_MIN)
        );
    }
    Ok(())
}

/// Compares the hits of the hot set before and after a file of four times the cache is copied.
fn copy(arguments: &Arguments) -> Result<()> {
    for (readahead, kib) in [(true, 64), (true, 256), (false, 64)] {
        let mut rig = rig(arguments.mib, readahead, 0)?;
        let slots = arguments.mib << 8;
        // Reads of a hot set of a third of the cache; blocks that are read once fill the rest.
        let hot = |rig: &mut TestRig, seed: u64| {
            let mut random = Random::new(seed);
            let before = rig.counters();
            rig.time(Box::new((0..slots).map(move |_| (random.below(slots / 3) * 8, 8))));
            let after = rig.counters();
            (after.read_hits - before.read_hits) as f64 / slots as f64
        };
        let mut random = Random::new(3);
        let others: Vec<_> = (0..slots).map(|_| ((slots + random.below(slots)) * 8, 8)).collect();
        rig.time(Box::new(others.into_iter()));
        (0..4).for_each(|seed| _ = hot(&mut rig, seed));
        let before = hot(&mut rig, 4);
        let length = kib * KIB;
        let from = arguments.mib << 12;
        let to = from + (arguments.mib << 13);
        let requests = (arguments.mib << 13) / length;
        let done = Rc::new(Cell::new(0));
        let copied = (0..requests).flat_map(|number| {
            let first = to + number * length;
            let at = Extent::new(first, length as u32);
            let from_at = (from + number * length, length as u32);
            [read(from_at), Request::Write { at, from: Buf::new(at.count, 0), fua: false }]
        });
        rig.client(copied.collect(), &done);
        rig.world.run_until(|| done.get() == 1);
        let after = hot(&mut rig, 5);
        let lost = 100.0 * (before - after);
        println!(
            "  a copy of four times the cache by {kib} KiB, readahead {}: the hot set's hits {:.2} %, then {:.2} %: {lost:+.2} \
             points lost  target 1: {}",
            if readahead { "on" } else { "off" },
            100.0 * before,
            100.0 * after,
            verdict(lost <= 1.0)
        );
    }
    Ok(())
}
