//! The cache with its compressed tier has the same misses as the simulation of both, on real data.

use block::{Block, Buf, Compress, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Random, World};
use packing::{Codec, Encoder};
use policy::{
    CompressedBytes, Hash, Kind, Simulation, TierArbiter, TierRules, TierShare, TieredSimulation,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 512;
const BLOCK_BYTES: usize = 4096;
/// Blocks and slots, all shards together.
const BLOCKS: u64 = 8192;
const SLOTS: u32 = 1024;
const READS: u64 = 16_000;

/// The client's time between two reads: enough for the compressor, which lets requests go first,
/// to store all evicted blocks. In the simulation it takes no time.
const THINK_NS: u64 = 200_000;

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

/// Returns a block's contents: of sixteen, one is of zeros, and the others have from one to fifteen
/// sixteenths of random bytes before a text, so some do not become small enough.
fn contents(block: u64) -> Vec<u8> {
    let mut random = Random::new(block);
    let sixteenths = random.below(16) as usize;
    if sixteenths == 0 {
        return vec![0; BLOCK_BYTES];
    }
    let mut bytes = format!("This is block {block}. ").repeat(300).into_bytes();
    bytes.truncate(BLOCK_BYTES);
    for word in bytes[..BLOCK_BYTES * sixteenths / 16].chunks_exact_mut(8) {
        word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    bytes
}

/// Returns the compressed size of each block.
fn sizes() -> Arc<CompressedBytes> {
    let percent = Settings::default().compressed_percent_max as usize;
    let mut encoder = Encoder::new(BLOCK_BYTES, BLOCK_BYTES * percent / 100);
    let size = |block| {
        let contents = contents(block);
        let encoded = encoder.encode(Codec::Lz4, &contents);
        (Hash::of(block).bits(), encoded.map(|(_, bytes)| bytes.len()))
    };
    let sizes: HashMap<u64, Option<usize>> = (0..BLOCKS).map(size).collect();
    assert!(sizes.values().any(Option::is_none), "some do not become small enough");
    Arc::new(move |hash| sizes[&hash.bits()].map(|bytes| bytes as u32))
}

/// Returns a RAM with the contents of all blocks.
fn filled() -> Ram {
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let mut world = World::timed(lane::Prices::default());
    let stack = Stack::new(&world.lane(), ram.clone());
    for block in 0..BLOCKS {
        let from = Buf::new(8, GRAIN);
        from.write(&contents(block));
        let request = Request::Write { at: Extent::new(block * 8, 8), from, fua: false };
        stack.try_now(&request).expect("RAM answers now").expect("RAM does not fail");
    }
    ram
}

/// Reads these blocks one after the other. Returns the number of misses, and of reads from the
/// tier.
fn served(
    ram: &Ram,
    policy: Kind,
    shards: u32,
    share: Option<TierShare>,
    blocks: &[u64],
) -> (u64, u64) {
    let mut world = World::timed(lane::Prices::default());
    let lane = world.lane();
    let geometry = Geometry { slots: SLOTS, shards, fills: 8, ..Geometry::SMALLEST };
    let settings = Settings {
        policy,
        compress: Compress::Lz4,
        write: WriteMode::Through,
        dirty_blocks_max: 0,
        // The simulation has no streams.
        readahead: false,
        stream_blocks_max: u32::MAX,
        ..Settings::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(ram.limits(), geometry, settings, 7, memory).expect("a fresh arena");
    if let Some(share) = share {
        shared.force_tier_share(share);
    }
    let below = Stack::new(&lane, Slow { ram: ram.clone(), lane: lane.clone() });
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
    let done = Rc::new(Cell::new(false));
    let (finished, blocks) = (done.clone(), blocks.to_vec());
    let task = async move {
        for block in blocks {
            let into = Buf::new(8, GRAIN);
            let request = Request::Read { at: Extent::new(block * 8, 8), into };
            if stack.try_now(&request).is_none() {
                stack.lane().turn().await;
                stack.run(request).await.expect("RAM does not fail");
            }
            stack.lane().sleep_until(stack.lane().now() + THINK_NS).await;
        }
        finished.set(true);
    };
    lane.spawn(task).expect("room");
    assert!(world.run_until(|| done.get()), "the task hangs");
    shared.check();
    let counters = shared.counters(lane.now());
    (counters.block_misses, counters.compressed_used)
}

/// Returns the same numbers from the simulation.
fn simulated(
    sizes: &Arc<CompressedBytes>,
    policy: Kind,
    shards: u32,
    share: Option<TierShare>,
    blocks: &[u64],
) -> (u64, u64) {
    let slots = SLOTS / shards;
    let mut cache = match share.map(TierRules::engine) {
        Some(rules) => TieredSimulation::with_rules(policy, slots, shards, rules, sizes),
        None => TieredSimulation::new(policy, slots, shards, sizes),
    };
    let missed = blocks.iter().filter(|block| !cache.read(**block)).count();
    (missed as u64, cache.compressed_hits())
}

/// Reads of a zipf distribution with exponent 1.
fn zipf() -> Vec<u64> {
    let mut random = Random::new(1);
    let mut rank = || (BLOCKS as f64).powf(random.below(1 << 32) as f64 / (1u64 << 32) as f64);
    (0..READS).map(|_| rank() as u64 * 2_654_435_761 % BLOCKS).collect()
}

/// Loops over more blocks than there are slots, between scans and frequently used blocks.
fn phases() -> Vec<u64> {
    let mut random = Random::new(2);
    let mut block = |number: u64| match number / 2000 % 5 {
        0 => number % BLOCKS,
        1 | 2 => number * 997 % (u64::from(SLOTS) * 3 / 2),
        _ => random.below(BLOCKS).min(random.below(BLOCKS)).min(random.below(BLOCKS)),
    };
    (0..READS).map(&mut block).collect()
}

/// Compares the misses of a cache and of its simulation, and their reads from the tier.
fn compare(
    (name, blocks): (&str, &[u64]),
    policy: Kind,
    shards: u32,
    share: Option<TierShare>,
    (ram, sizes): (&Ram, &Arc<CompressedBytes>),
) {
    let served = served(ram, policy, shards, share, blocks);
    let simulated = simulated(sizes, policy, shards, share, blocks);
    let mut plain = Simulation::with_shards(policy, SLOTS / shards, shards);
    let plain = blocks.iter().filter(|block| !plain.read(**block)).count() as u64;
    let all = format!(
        "{name}, {policy:?}, {shards} shards, {share:?}: misses and reads from the tier {served:?}, \
         simulated {simulated:?}; {plain} misses without the tier"
    );
    assert!(served.0.abs_diff(simulated.0) * 100 <= simulated.0, "{all}");
    assert!(served.1.abs_diff(simulated.1) * 20 <= simulated.1, "{all}");
    let is_chosen = share.is_none();
    assert!(!is_chosen || simulated.0 * 100 <= plain * 101, "the tier costs hits: {all}");
}

#[test]
fn a_cache_with_a_compressed_tier_misses_as_its_simulation_does() {
    let (ram, sizes) = (filled(), sizes());
    let of = (&ram, &sizes);
    let (zipf, phases) = (zipf(), phases());
    for policy in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
        compare(("zipf", &zipf), policy, 1, None, of);
    }
    compare(("zipf", &zipf), Kind::Adaptive, 4, None, of);
    // The capacity is near the length of a loop: a few blocks decide which share is chosen.
    compare(("phases", &phases), Kind::Adaptive, 1, None, of);
    compare(("phases", &phases), Kind::Lru, 4, None, of);
}

#[test]
fn the_same_holds_for_each_share_of_the_tier() {
    let (ram, sizes) = (filled(), sizes());
    let of = (&ram, &sizes);
    let (zipf, phases) = (zipf(), phases());
    for share in TierArbiter::shares() {
        compare(("zipf", &zipf), Kind::Adaptive, 1, Some(*share), of);
        compare(("phases", &phases), Kind::Adaptive, 1, Some(*share), of);
    }
}
