//! The cache misses where the simulation of its policy does.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Random, World};
use policy::{Kind, misses};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 512;
const SLOTS: u32 = 64;

/// RAM that takes 20 us for a request.
struct Slow {
    ram: Ram,
    lane: Lane,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    async fn run(&self, request: Request) -> Result {
        self.lane.sleep_until(self.lane.now() + 20_000).await;
        self.ram.run(request).await
    }
}

/// A cache of one shard that keeps every miss.
fn shared(limits: &Limits) -> Arc<Shared> {
    let geometry = Geometry {
        slots: SLOTS,
        shards: 1,
        region_blocks: 64,
        extents: 4,
        fills: 8,
        run_blocks: 8,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    };
    let settings = Settings {
        write: WriteMode::Through,
        durability: Durability::Flush,
        dirty_blocks_max: 0,
        dirty_age_ns: 10_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 1_000_000,
        workers: 2,
        absorb_blocks_max: 32,
        ..Settings::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    Shared::new(limits, geometry, settings, 7, memory).expect("a fresh arena")
}

/// Reads these blocks one after the other. Returns how many missed.
fn misses_of_cache(blocks: &[u64]) -> u64 {
    let mut world = World::timed(lane::Prices::default());
    let lane = world.lane();
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let shared = shared(ram.limits());
    let below = Stack::new(&lane, Slow { ram, lane: lane.clone() });
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
    let done = Rc::new(Cell::new(false));
    let (finished, blocks) = (done.clone(), blocks.to_vec());
    let task = async move {
        for block in blocks {
            let request = Request::Read { at: Extent::new(block * 8, 8), into: Buf::new(8, GRAIN) };
            if stack.try_now(&request).is_none() {
                stack.lane().turn().await;
                stack.run(request).await.expect("RAM does not fail");
            }
        }
        finished.set(true);
    };
    lane.spawn(task).expect("a slot is free");
    assert!(world.run_until(|| done.get()), "the task hangs");
    shared.counters(lane.now()).read_misses
}

#[test]
fn the_shard_misses_where_the_simulation_does() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        // What is often read, a scan now and then, and what is rarely read.
        let blocks: Vec<u64> = (0..4000u64)
            .map(|read| match read / 100 % 4 {
                0 => read % BLOCKS,
                1 => random.below(BLOCKS),
                _ => random.below(BLOCKS).min(random.below(BLOCKS)).min(random.below(80)),
            })
            .collect();
        let simulated = misses(Kind::Lru, SLOTS, blocks.iter().copied());
        assert!(simulated > 500 && simulated < 3500, "{simulated} misses tell little");
        assert_eq!(misses_of_cache(&blocks), simulated, "seed {seed}");
    }
}
