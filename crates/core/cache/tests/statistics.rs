//! The engine's counters and times, over a backing whose latency is known.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Cost, Lane, Prices, World};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const SECTORS: u64 = 4096;

/// RAM with exactly this latency, for every request.
struct Slow {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    latency_ns: Rc<Cell<u64>>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        self.lane.sleep_until(self.lane.now() + self.latency_ns.get()).await;
        self.ram.run(request).await
    }
}

struct Scene {
    world: World,
    lane: Lane,
    shared: Arc<Shared>,
    cache: Cache,
    stack: Stack,
    latency_ns: Rc<Cell<u64>>,
}

fn scene(dirty_blocks_max: u32) -> Scene {
    scene_of(dirty_blocks_max, Durability::Flush)
}

fn scene_of(dirty_blocks_max: u32, durability: Durability) -> Scene {
    scene_at(dirty_blocks_max, durability, Prices::default())
}

fn scene_at(dirty_blocks_max: u32, durability: Durability, prices: Prices) -> Scene {
    let mut world = World::timed(prices);
    let lane = world.lane();
    let geometry = Geometry {
        slots: 64,
        shards: 1,
        region_blocks: 64,
        extents: 4,
        fills: 8,
        run_blocks: 8,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    };
    let settings = Settings {
        write: WriteMode::BackNow,
        durability,
        dirty_blocks_max,
        dirty_age_ns: 10_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 1_000_000,
        workers: 2,
        absorb_blocks_max: 32,
        readahead: false,
        ..Settings::default()
    };
    let ram = Ram::new(SECTORS, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(&limits, geometry, settings, 7, memory).expect("a fresh arena");
    let latency_ns = Rc::new(Cell::new(0));
    let slow = Slow { ram, lane: lane.clone(), limits, latency_ns: latency_ns.clone() };
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, slow));
    let stack = Stack::new(&lane, cache.clone());
    Scene { world, lane, shared, cache, stack, latency_ns }
}

impl Scene {
    fn run<F: Future<Output = ()> + 'static>(&mut self, task: F) {
        let done = Rc::new(Cell::new(false));
        let finished = done.clone();
        let task = async move {
            task.await;
            finished.set(true);
        };
        self.lane.spawn(task).expect("a slot is free");
        assert!(self.world.run_until(|| done.get()), "the task hangs");
    }

    fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }

    /// Reads whole blocks, one after the other.
    fn read(&mut self, blocks: std::ops::Range<u64>) {
        let stack = self.stack.clone();
        self.run(async move {
            for block in blocks {
                let into = Buf::new(8, GRAIN);
                let request = Request::Read { at: Extent::new(block * 8, 8), into };
                if stack.try_now(&request).is_none() {
                    stack.lane().turn().await;
                    stack.run(request).await.expect("RAM does not fail");
                }
            }
        });
    }
}

async fn write(stack: &Stack, first: u64, sectors: u32) {
    let from = Buf::new(sectors, GRAIN);
    let request = Request::Write { at: Extent::new(first, sectors), from, fua: false };
    stack.run(request).await.expect("RAM does not fail");
}

/// Returns the part of the backing's reads in which the lane slept, with this number of clients,
/// in thousandths.
fn slept_in_reads(clients: u64) -> u64 {
    let mut prices = Prices::default();
    prices.ns[Cost::Miss as usize] = 5_000;
    let mut scene = scene_at(16, Durability::Flush, prices);
    scene.latency_ns.set(20_000);
    let left = Rc::new(Cell::new(clients));
    for client in 0..clients {
        let (stack, left) = (scene.stack.clone(), left.clone());
        let client = async move {
            for block in (client..SECTORS / 8).step_by(clients as usize) {
                let into = Buf::new(8, GRAIN);
                let request = Request::Read { at: Extent::new(block * 8, 8), into };
                stack.run(request).await.expect("RAM does not fail");
            }
            left.set(left.get() - 1);
        };
        scene.lane.spawn(client).expect("a slot is free");
    }
    assert!(scene.world.run_until(|| left.get() == 0), "a client hangs");
    scene.counters().backing_read_slept
}

#[test]
fn a_lane_with_many_requests_hardly_sleeps_while_it_waits_for_the_backing() {
    let (one, many) = (slept_in_reads(1), slept_in_reads(32));
    assert!(one >= 900 && many <= 100, "{one} and {many} thousandths");
}

#[test]
fn misses_are_timed_and_hits_save_what_the_backing_took_at_their_time() {
    let mut scene = scene(16);
    scene.latency_ns.set(100_000);
    scene.read(0..48);
    let misses = scene.shared.histograms().miss_ns;
    assert_eq!(misses.count(), 48);
    let slowest = misses.max();
    assert!((100_000..110_000).contains(&slowest) && misses.mean() >= 100_000, "{slowest}");
    let cold = scene.counters();
    assert_eq!((cold.read_misses, cold.time_saved_ns), (48, 0));
    assert!(cold.backing_read_ns >= 90_000, "measured: {}", cold.backing_read_ns);

    scene.read(0..48);
    let warm = scene.counters();
    assert_eq!(warm.read_hits, 48);
    assert_eq!(warm.time_saved_ns, 48 * cold.backing_read_ns);

    // A hit has been sampled: from now on its time is subtracted, and earlier ones stay unchanged.
    scene.shared.hit_sampled(1_000);
    assert_eq!(scene.counters().hit_ns, 1_000);
    scene.read(0..10);
    let later = scene.counters();
    let saved_ns = later.time_saved_ns - warm.time_saved_ns;
    assert_eq!(saved_ns, 10 * (cold.backing_read_ns - 1_000));
    assert_eq!(scene.shared.histograms().hit_ns.count(), 1);

    // The backing has become faster: the time saved before stays in the sum.
    scene.latency_ns.set(2_000);
    scene.read(100..400);
    let fast = scene.counters();
    assert!(fast.backing_read_ns < 20_000, "{}", fast.backing_read_ns);
    assert_eq!(fast.time_saved_ns, later.time_saved_ns);
    assert_eq!(scene.shared.histograms().miss_ns.count(), 348);
}

#[test]
fn a_read_that_waited_for_anothers_fetch_saved_nothing() {
    let mut scene = scene(16);
    scene.latency_ns.set(50_000);
    // So that the latency is known.
    scene.read(100..148);
    let before = scene.counters();
    assert!(before.backing_read_ns > 0);
    let stack = scene.stack.clone();
    let lane = scene.lane.clone();
    let left = Rc::new(Cell::new(3));
    for _ in 0..3 {
        let (stack, left) = (stack.clone(), left.clone());
        let reader = async move {
            let request = Request::Read { at: Extent::new(0, 8), into: Buf::new(8, GRAIN) };
            stack.run(request).await.expect("RAM does not fail");
            left.set(left.get() - 1);
        };
        lane.spawn(reader).expect("a slot is free");
    }
    assert!(scene.world.run_until(|| left.get() == 0));
    let after = scene.counters();
    assert_eq!((after.read_hits, after.read_joins), (2, 2));
    assert_eq!(after.time_saved_ns, before.time_saved_ns);
}

#[test]
fn flushes_runs_and_write_outs_are_timed() {
    let mut scene = scene(16);
    scene.latency_ns.set(30_000);
    let stack = scene.stack.clone();
    scene.run(async move {
        // The duration is measured, not the time of day.
        stack.lane().sleep_until(1_000_000).await;
        write(&stack, 0, 8).await;
        write(&stack, 80, 8).await;
        stack.run(Request::Flush).await.expect("RAM does not fail");
    });
    let times = scene.shared.histograms();
    assert_eq!(times.flush_ns.count(), 1);
    assert_eq!(times.run_ns.count(), 2, "two runs of one block");
    assert_eq!(times.write_out_ns.count(), 1);
    assert!((30_000..40_000).contains(&times.run_ns.max()), "{}", times.run_ns.max());
    // Both runs in parallel, then the flush of the backing.
    let flush_ns = times.flush_ns.max();
    assert!((60_000..75_000).contains(&flush_ns), "{flush_ns}");
    assert!(times.write_out_ns.max() <= flush_ns);
    assert_eq!(times.miss_ns.count() + times.hit_ns.count(), 0);
    let counters = scene.counters();
    assert_eq!((counters.runs_written, counters.writes_urgent), (2, 0));
}

#[test]
fn a_write_out_that_somebody_waits_for_is_urgent() {
    let mut scene = scene(2);
    scene.latency_ns.set(1_000_000);
    let stack = scene.stack.clone();
    scene.run(async move {
        write(&stack, 0, 1).await;
        stack.lane().sleep_until(stack.lane().now() + 10_000).await;
        // The first is in flight to the backing; with this one, the maximum is dirty.
        write(&stack, 8, 1).await;
        // Overlaps dirty data in part, and so can neither be written through nor absorbed.
        write(&stack, 1, 1).await;
    });
    // Once for each commit for which it had to wait.
    let urgent = scene.counters().writes_urgent;
    assert!((1..=2).contains(&urgent), "{urgent}");
}

#[test]
fn names_are_what_readers_find() {
    let mut names = Vec::new();
    Counters::default().each(|name, _| names.push(name));
    for wanted in ["read_hits", "blocks_saved", "writes_urgent", "time_saved_ns", "hit_ns"] {
        assert!(names.contains(&wanted), "{wanted}");
    }
}

#[test]
fn what_is_asked_to_be_written_is_counted_in_bytes_by_its_kind() {
    let mut scene = scene(16);
    let stack = scene.stack.clone();
    scene.run(async move {
        write(&stack, 3, 1).await;
        write(&stack, 6, 4).await;
        let at = Extent::new(64, 16);
        stack.run(Request::Zero { at, fua: false, may_unmap: true }).await.expect("RAM");
        stack.run(Request::Discard { at: Extent::new(128, 32) }).await.expect("RAM");
    });
    let counters = scene.counters();
    assert_eq!(counters.asked_write_bytes, 5 * 512, "neither whole blocks, nor zeros");
    assert_eq!((counters.asked_zero_bytes, counters.asked_discard_bytes), (16 * 512, 32 * 512));
}

#[test]
fn the_time_of_an_ordered_flush_is_predicted_with_a_flush_for_each_epoch() {
    let mut scene = scene_of(32, Durability::Ordered);
    scene.latency_ns.set(2_000_000);
    let (stack, cache) = (scene.stack.clone(), scene.cache.clone());
    scene.run(async move {
        write(&stack, 0, 8).await;
        cache.drain().await.expect("RAM does not fail");
    });
    let (stack, cache, shared) = (scene.stack.clone(), scene.cache.clone(), scene.shared.clone());
    let lane = scene.lane.clone();
    scene.run(async move {
        for block in 1..=12 {
            write(&stack, block * 8, 8).await;
            stack.run(Request::Flush).await.expect("it is closed");
        }
        let start = lane.now();
        let predicted = shared.counters(start).flush_predicted_ns;
        assert!(shared.closed_epochs() >= 10, "{}", shared.closed_epochs());
        cache.drain().await.expect("RAM does not fail");
        let took = lane.now() - start;
        assert!(took > 40_000_000, "{took} ns: one write and one flush for each");
        assert!((took * 2 / 3..took * 3 / 2).contains(&predicted), "{predicted} of {took} ns");
    });
}
