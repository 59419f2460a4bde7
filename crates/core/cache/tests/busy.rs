//! When a cache admits blocks, and when it is bypassed, in virtual time: cold and warm, over slow
//! and fast backings, while processors are busy and free.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Counters, Geometry, Pressure, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use policy::Hash;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const SLOTS: u32 = 8192;
/// The blocks that clients access: a set that fits, and a volume of which no block is accessed
/// twice.
const FITS: u64 = SLOTS as u64 / 4 * 3;
const VOLUME: u64 = SLOTS as u64 * 16;
const DEPTH: u64 = 4;
const WINDOW_NS: u64 = 50_000_000;
const END_NS: u64 = 4_000_000_000;
const BUSY: Pressure = Pressure { waited: 700, wanted: 900 };
/// The requests that clients make for the blocks that they draw.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Reads,
    Writes,
    /// Each block is read, then written through.
    Updates,
    /// For two seconds blocks are read; then each is written through, and read once.
    ReadBack,
}

const SCAN_NS: u64 = 2_000_000_000;

const FREE: Pressure = Pressure { waited: 0, wanted: 200 };

/// The time of a request that begins at each moment, in nanoseconds.
type Latency = Rc<dyn Fn(u64) -> u64>;

/// RAM with this latency. Where processors are busy, one answer in four waits 4 ms longer for one.
struct Slow {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    latency: Latency,
    busy: bool,
    random: RefCell<Random>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let waits = self.busy && self.random.borrow_mut().one_in(4);
        let took_ns = (self.latency)(self.lane.now()) + if waits { 4_000_000 } else { 0 };
        self.lane.sleep_until(self.lane.now() + took_ns).await;
        self.ram.run(request).await
    }
}

fn shared(ram: &Ram, limits: &Limits, load: Load) -> Arc<Shared> {
    let geometry = Geometry { slots: SLOTS, region_blocks: 64, ..Geometry::default() };
    let settings = Settings {
        write: match load {
            Load::Reads | Load::Writes => WriteMode::BackNow,
            Load::Updates | Load::ReadBack => WriteMode::Through,
        },
        durability: Durability::Flush,
        dirty_blocks_max: SLOTS / 8,
        dirty_age_ns: 5_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 1_000_000_000,
        workers: 4,
        absorb_blocks_max: 16,
        fill_cost_ns: 400,
        ..Settings::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, ram.limits().grain)));
    Shared::new(limits, geometry, settings, 7, memory).expect("a fresh arena")
}

/// Four clients access some of these blocks at random for four seconds, with every processor busy
/// from the first moment on. Returns the number of answers, and the cache's counters.
fn play(latency_ns: u64, blocks: u64, load: Load, guard: bool) -> (u64, Counters) {
    let draw = move |_: u64, random: &mut Random| random.below(blocks);
    let (answered, counted) = play_as(latency_ns, BUSY, draw, load, guard);
    (answered, *counted.last().expect("four seconds have passed"))
}

/// [`play`] with blocks that are drawn at each moment, and under this pressure. Returns the
/// counters after each second.
fn play_as(
    latency_ns: u64,
    pressure: Pressure,
    draw: impl Fn(u64, &mut Random) -> u64 + Copy + 'static,
    load: Load,
    guard: bool,
) -> (u64, Vec<Counters>) {
    let latency = Rc::new(move |_| latency_ns);
    Play { latency, pressure, load, guard, depth: DEPTH, end_ns: END_NS }.run(draw)
}

/// The parameters of a run.
struct Play {
    latency: Latency,
    pressure: Pressure,
    load: Load,
    guard: bool,
    /// The number of clients.
    depth: u64,
    end_ns: u64,
}

impl Play {
    fn run(self, draw: impl Fn(u64, &mut Random) -> u64 + Copy + 'static) -> (u64, Vec<Counters>) {
        let Play { latency, pressure, load, guard, depth, end_ns } = self;
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let ram = Ram::new(VOLUME * 8, GRAIN);
        let limits = Limits { flush_needed: true, ..ram.limits().clone() };
        let shared = shared(&ram, &limits, load);
        shared.set_guard(guard, 0);
        let random = RefCell::new(Random::new(1));
        let busy = pressure == BUSY;
        let slow = Slow { ram, lane: lane.clone(), limits, latency, busy, random };
        let stack = Stack::new(&lane, Cache::attach(&shared, &lane, Stack::new(&lane, slow)));
        let answered = Rc::new(Cell::new(0));
        for number in 0..depth {
            let mut random = Random::new(number);
            let draw = move |now: u64| draw(now, &mut random);
            let client = client(stack.clone(), draw, load, end_ns, answered.clone());
            lane.spawn(client).expect("a slot is free");
        }
        let (sensed, over) = (shared.clone(), Rc::new(Cell::new(false)));
        let (sensing, ended) = (lane.clone(), over.clone());
        let counted = Rc::new(RefCell::new(Vec::new()));
        let counting = counted.clone();
        let sense = async move {
            while sensing.now() < end_ns {
                sensing.sleep_until(sensing.now() + WINDOW_NS).await;
                sensed.guard(sensing.now(), pressure);
                if sensing.now().is_multiple_of(1_000_000_000) {
                    counting.borrow_mut().push(sensed.counters(sensing.now()));
                }
            }
            ended.set(true);
        };
        lane.spawn(sense).expect("a slot is free");
        assert!(world.run_until(|| over.get()), "the clients hang");
        (answered.get(), counted.take())
    }
}

async fn client(
    stack: Stack,
    mut draw: impl FnMut(u64) -> u64,
    load: Load,
    end_ns: u64,
    answered: Rc<Cell<u64>>,
) {
    let lane = stack.lane().clone();
    let buffer = Buf::new(8, GRAIN);
    while lane.now() < end_ns {
        // A client takes some time before its next request.
        lane.sleep_until(lane.now() + 200_000).await;
        let at = Extent::new(draw(lane.now()) * 8, 8);
        let read = Request::Read { at, into: buffer.clone() };
        let write = Request::Write { at, from: buffer.clone(), fua: false };
        let requests = match load {
            Load::Reads => [Some(read), None],
            Load::Writes => [Some(write), None],
            Load::Updates => [Some(read), Some(write)],
            Load::ReadBack if lane.now() < SCAN_NS => [Some(read), None],
            Load::ReadBack => [Some(write), Some(read)],
        };
        for request in requests.into_iter().flatten() {
            if stack.try_now(&request).is_none() {
                lane.turn().await;
                stack.run(request).await.expect("RAM does not fail");
            }
        }
        answered.set(answered.get() + 1);
    }
}

#[test]
fn a_cold_cache_over_a_slow_backing_warms_up_as_without_the_guard() {
    for latency_ns in [100_000, 500_000] {
        for load in [Load::Reads, Load::Writes] {
            let (with, counters) = play(latency_ns, FITS, load, true);
            let (without, _) = play(latency_ns, FITS, load, false);
            assert!(with * 100 >= without * 95, "{latency_ns}: {with} answered, {without} without");
            assert_eq!((counters.bypasses, counters.bypass_ns), (0, 0), "{counters:?}");
            let kept = match load {
                Load::Writes => counters.blocks_absorbed,
                _ => counters.blocks_filled,
            };
            assert!(kept > FITS / 2, "{counters:?}");
        }
    }
}

#[test]
fn over_a_fast_backing_the_cache_is_bypassed_although_answers_wait_for_a_processor() {
    let (_, counters) = play(2_000, VOLUME, Load::Reads, true);
    assert!(counters.backing_read_ns > 100_000, "the mean is of waits: {counters:?}");
    assert!(counters.bypasses > 0 && counters.bypass_guard > 0, "{counters:?}");
}

/// Returns the share of each second's misses that was admitted.
fn kept(counted: &[Counters]) -> Vec<f64> {
    let mut before = Counters::default();
    let kept = counted.iter().map(|now| {
        let misses = now.read_misses - before.read_misses;
        let filled = now.blocks_filled - before.blocks_filled;
        before = *now;
        filled as f64 / misses as f64
    });
    kept.collect()
}

#[test]
fn what_is_not_read_again_is_kept_until_the_memory_is_full_and_what_begins_to_fit_is_kept_again() {
    // Clients are fast enough to fill the memory in half a second. In the third second the load
    // changes to one that fits.
    let draw = |now: u64, random: &mut Random| match now < SCAN_NS {
        true => random.below(VOLUME),
        false => random.below(FITS / 4),
    };
    // One miss in sixteen is hit later: that pays if a read takes 20 us, and does not if it takes
    // 5.
    for (latency_ns, pays) in [(5_000, false), (20_000, true)] {
        let (_, counted) = play_as(latency_ns, FREE, draw, Load::Reads, true);
        let kept = kept(&counted);
        assert!(kept[0] > 0.4, "a cold cache keeps: {kept:?}");
        assert_eq!(kept[1] > 0.9, pays, "{latency_ns} ns: {kept:?}");
        let hits = counted[3].read_hits - counted[2].read_hits;
        let misses = counted[3].read_misses - counted[2].read_misses;
        assert!(hits > misses * 10, "{hits} hits, {misses} misses: {kept:?}");
    }
}

#[test]
fn over_a_backing_as_fast_as_memory_hardly_anything_is_kept() {
    let draw = |_: u64, random: &mut Random| random.below(FITS);
    let (_, counted) = play_as(100, FREE, draw, Load::Reads, true);
    let kept = kept(&counted);
    assert!(kept[1..].iter().all(|kept| *kept == 0.0), "{kept:?}");
    assert!(counted[3].bypasses == 1 && counted[3].bypass_guard > 1000, "{:?}", counted[3]);
}

/// A write-through leaves the copy that a read has admitted unchanged in value.
#[test]
fn what_fits_is_kept_although_each_block_that_is_read_is_written_next() {
    for latency_ns in [20_000, 100_000] {
        let (_, with) = play(latency_ns, FITS / 2, Load::Updates, true);
        let (_, without) = play(latency_ns, FITS / 2, Load::Updates, false);
        assert!(with.read_hits * 100 >= without.read_hits * 95, "{with:?}, without {without:?}");
        assert_eq!((with.bypasses, with.bypass_ns), (0, 0), "{with:?}");
    }
}

/// The shadow sees write-throughs whether or not a copy is admitted.
#[test]
fn what_is_written_past_the_cache_and_read_once_is_kept_again() {
    let draw = |_: u64, random: &mut Random| random.below(VOLUME);
    let (_, counted) = play_as(5_000, FREE, draw, Load::ReadBack, true);
    assert!(counted[1].bypass_guard > 1000, "what is not read again is not kept: {:?}", counted[1]);
    let hits = counted[3].read_hits - counted[2].read_hits;
    let misses = counted[3].read_misses - counted[2].read_misses;
    assert!(hits > misses * 20, "{hits} hits, {misses} misses: {:?}", counted[3]);
}

/// Half a second over a backing as fast as memory, and then over one that takes a millisecond:
/// writes are absorbed again, at any address and at any queue depth.
#[test]
fn a_backing_that_becomes_slow_is_noticed_by_writes_that_pass() {
    const FAST_NS: u64 = 500_000_000;
    let anywhere = |_: u64, random: &mut Random| random.below(FITS);
    // No block of the probe.
    let beside = |_: u64, random: &mut Random| {
        let mut blocks = core::iter::repeat_with(|| random.below(FITS));
        blocks.find(|block| !Hash::of(!(block >> 6)).is_sampled()).expect("most of them")
    };
    for depth in [1, 32] {
        let play = || Play {
            latency: Rc::new(|now| if now < FAST_NS { 100 } else { 1_000_000 }),
            pressure: FREE,
            load: Load::Writes,
            guard: true,
            depth,
            end_ns: 8_000_000_000,
        };
        for counted in [play().run(anywhere).1, play().run(beside).1] {
            let last = counted[7];
            assert!(last.bypasses > 0, "at first absorbing costs more: {last:?}");
            let out_ns = last.bypass_ns - counted[1].bypass_ns;
            assert!(out_ns < 1_000_000_000, "{depth} at a time: {out_ns} ns of 6 s, {last:?}");
        }
    }
}
