//! The cache has the same misses as the simulation of its policy.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Random, World};
use policy::{Kind, Simulation};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
/// Blocks and slots of each shard.
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

/// A request, in sectors.
#[derive(Clone, Copy)]
struct Access {
    is_write: bool,
    at: Extent,
}

impl Access {
    fn blocks(&self) -> std::ops::Range<u64> {
        self.at.first / 8..self.at.end().div_ceil(8)
    }
}

/// A cache that admits every miss, and writes through.
fn shared(limits: &Limits, policy: Kind, shards: u32) -> Arc<Shared> {
    let geometry = Geometry {
        slots: SLOTS * shards,
        shards,
        extents: 4,
        fills: 8,
        run_blocks: 8,
        ..Geometry::SMALLEST
    };
    let settings = Settings {
        policy,
        write: WriteMode::Through,
        durability: Durability::Flush,
        dirty_blocks_max: 0,
        absorb_blocks_max: 32,
        // The simulation has no streams.
        readahead: false,
        stream_blocks_max: u32::MAX,
        ..Settings::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    Shared::new(limits, geometry, settings, 7, memory).expect("a fresh arena")
}

/// Sends these requests one after the other. Returns the number of accesses to blocks, and of
/// misses.
fn served(policy: Kind, shards: u32, accesses: &[Access]) -> (u64, u64) {
    let mut world = World::timed(lane::Prices::default());
    let lane = world.lane();
    let ram = Ram::new(u64::from(shards) * BLOCKS * 8, GRAIN);
    let shared = shared(ram.limits(), policy, shards);
    let below = Stack::new(&lane, Slow { ram, lane: lane.clone() });
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
    let done = Rc::new(Cell::new(false));
    let (finished, accesses) = (done.clone(), accesses.to_vec());
    let task = async move {
        for Access { is_write, at } in accesses {
            let buf = Buf::new(at.count, GRAIN);
            let request = match is_write {
                true => Request::Write { at, from: buf, fua: false },
                false => Request::Read { at, into: buf },
            };
            if stack.try_now(&request).is_none() {
                stack.lane().turn().await;
                stack.run(request).await.expect("RAM does not fail");
            }
        }
        finished.set(true);
    };
    lane.spawn(task).expect("a slot is free");
    assert!(world.run_until(|| done.get()), "the task hangs");
    shared.check();
    let counters = shared.counters(lane.now());
    (counters.block_accesses, counters.block_misses)
}

/// Returns the same numbers from the simulation.
fn simulated(policy: Kind, shards: u32, accesses: &[Access]) -> (u64, u64) {
    let mut cache = Simulation::with_shards(policy, SLOTS, shards);
    let blocks: Vec<u64> = accesses.iter().flat_map(Access::blocks).collect();
    let missed = blocks.iter().filter(|block| !cache.read(**block)).count();
    (blocks.len() as u64, missed as u64)
}

/// Frequently used blocks, occasional scans, and rarely used blocks.
fn blocks(random: &mut Random, blocks: u64) -> Vec<u64> {
    let mut block = |number: u64| match number / 100 % 4 {
        0 => number % blocks,
        1 => random.below(blocks),
        _ => random.below(blocks).min(random.below(blocks)).min(random.below(blocks / 6)),
    };
    (0..4000).map(&mut block).collect()
}

/// Several sizes, reads and writes. Whole blocks: the cache holds a part of a block as a part,
/// where a simulation holds the whole block.
fn mixed(random: &mut Random, shards: u32) -> Vec<Access> {
    let sectors = u64::from(shards) * BLOCKS * 8;
    let mut access = |block: u64| {
        let (first, count) = (block * 8, [8, 8, 8, 16, 16, 40][random.below(6) as usize]);
        let at = Extent::new(first, count.min((sectors - first) as u32));
        Access { is_write: random.below(2) == 0, at }
    };
    let found = blocks(&mut Random::new(u64::from(shards)), sectors / 8);
    found.into_iter().map(&mut access).collect()
}

/// The policies with which a cache can be served.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.is_served())
}

#[test]
fn reads_of_single_blocks_miss_where_the_simulation_does() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let read = |block: u64| Access { is_write: false, at: Extent::new(block * 8, 8) };
        let accesses: Vec<Access> = blocks(&mut random, BLOCKS).into_iter().map(read).collect();
        for policy in kinds() {
            let simulated = simulated(policy, 1, &accesses);
            assert!(simulated.1 > 500 && simulated.1 < 3500, "{simulated:?}: they tell little");
            assert_eq!(served(policy, 1, &accesses), simulated, "{policy:?}, seed {seed}");
        }
    }
}

/// A request's held blocks are used before its missing ones are fetched, one request may be fetched
/// as a whole, and a write takes slots for all its blocks before it frees those that they replace:
/// so single misses differ, and the later ones with them. (For such a small cache, five blocks are
/// a twelfth.)
#[test]
fn reads_and_writes_of_any_size_miss_nearly_as_often_as_the_simulation() {
    let (mut all, mut off) = (0, 0);
    for policy in kinds() {
        let (mut served_misses, mut simulated_misses) = (0, 0);
        for (seed, shards) in (0..6).flat_map(|seed| [(seed, 1), (seed, 4)]) {
            let accesses = mixed(&mut Random::new(seed), shards);
            let served = served(policy, shards, &accesses);
            let simulated = simulated(policy, shards, &accesses);
            assert_eq!(served.0, simulated.0, "accesses");
            served_misses += served.1;
            simulated_misses += simulated.1;
        }
        let difference = served_misses.abs_diff(simulated_misses);
        assert!(
            difference <= simulated_misses / 20,
            "{policy:?}: {served_misses}, but {simulated_misses} simulated"
        );
        (all, off) = (all + simulated_misses, off + difference);
    }
    assert!(off <= all / 50, "{off} of {all}");
}
