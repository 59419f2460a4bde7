//! Busy processors, in virtual time: what a cold cache does before a slow backing and a fast one.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Counters, Geometry, Pressure, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const SLOTS: u32 = 8192;
/// What is asked for: as much as fits, and a volume that nothing of is met again.
const FITS: u64 = SLOTS as u64 / 4 * 3;
const VOLUME: u64 = SLOTS as u64 * 16;
const DEPTH: u64 = 4;
const WINDOW_NS: u64 = 50_000_000;
const END_NS: u64 = 4_000_000_000;
const BUSY: Pressure = Pressure { waited: 700, wanted: 900 };

/// RAM that takes so long, and one answer in four waits 4 ms more for a processor.
struct Slow {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    latency_ns: u64,
    random: RefCell<Random>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let waits = self.random.borrow_mut().one_in(4);
        let took_ns = self.latency_ns + if waits { 4_000_000 } else { 0 };
        self.lane.sleep_until(self.lane.now() + took_ns).await;
        self.ram.run(request).await
    }
}

fn shared(ram: &Ram, limits: &Limits) -> Arc<Shared> {
    let geometry = Geometry { slots: SLOTS, region_blocks: 64, ..Geometry::default() };
    let settings = Settings {
        write: WriteMode::BackNow,
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

/// Four clients ask for some of these blocks at random for four seconds, with every processor busy from the
/// first moment on. Returns how many were answered, and what the cache has counted.
fn play(latency_ns: u64, blocks: u64, writes: bool, guard: bool) -> (u64, Counters) {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let ram = Ram::new(VOLUME * 8, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let shared = shared(&ram, &limits);
    shared.set_guard(guard, 0);
    let random = RefCell::new(Random::new(1));
    let slow = Slow { ram, lane: lane.clone(), limits, latency_ns, random };
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, Stack::new(&lane, slow)));
    let answered = Rc::new(Cell::new(0));
    for number in 0..DEPTH {
        let mut random = Random::new(number);
        let draw = move || random.below(blocks);
        let client = client(stack.clone(), draw, writes, answered.clone());
        lane.spawn(client).expect("a slot is free");
    }
    let (sensed, over) = (shared.clone(), Rc::new(Cell::new(false)));
    let (sensing, ended) = (lane.clone(), over.clone());
    let sense = async move {
        while sensing.now() < END_NS {
            sensing.sleep_until(sensing.now() + WINDOW_NS).await;
            sensed.guard(sensing.now(), BUSY);
        }
        ended.set(true);
    };
    lane.spawn(sense).expect("a slot is free");
    assert!(world.run_until(|| over.get()), "the clients hang");
    (answered.get(), shared.counters(lane.now()))
}

async fn client(
    stack: Stack,
    mut draw: impl FnMut() -> u64,
    writes: bool,
    answered: Rc<Cell<u64>>,
) {
    let lane = stack.lane().clone();
    let buffer = Buf::new(8, GRAIN);
    while lane.now() < END_NS {
        // A client takes some time to ask again.
        lane.sleep_until(lane.now() + 200_000).await;
        let at = Extent::new(draw() * 8, 8);
        let request = match writes {
            true => Request::Write { at, from: buffer.clone(), fua: false },
            false => Request::Read { at, into: buffer.clone() },
        };
        if stack.try_now(&request).is_none() {
            lane.turn().await;
            stack.run(request).await.expect("RAM does not fail");
        }
        answered.set(answered.get() + 1);
    }
}

#[test]
fn a_cold_cache_over_a_slow_backing_warms_up_as_without_the_guard() {
    for latency_ns in [100_000, 500_000] {
        for writes in [false, true] {
            let (with, counters) = play(latency_ns, FITS, writes, true);
            let (without, _) = play(latency_ns, FITS, writes, false);
            assert!(with * 100 >= without * 95, "{latency_ns}: {with} answered, {without} without");
            assert_eq!((counters.bypasses, counters.bypass_ns), (0, 0), "{counters:?}");
            let kept = if writes { counters.blocks_absorbed } else { counters.blocks_filled };
            assert!(kept > FITS / 2, "{counters:?}");
        }
    }
}

#[test]
fn over_a_fast_backing_it_steps_aside_although_answers_wait_for_a_processor() {
    let (_, counters) = play(2_000, VOLUME, false, true);
    assert!(counters.backing_read_ns > 100_000, "the mean is of waits: {counters:?}");
    assert!(counters.bypasses > 0 && counters.bypass_guard > 0, "{counters:?}");
}
