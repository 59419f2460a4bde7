//! The compressed tier: each block that leaves memory is counted by the reason, and blocks that
//! were read stay longer than new ones.

mod common;

use block::{Block, Buf, Compress, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use common::geometry;
use lane::{Lane, Prices, Random, World};
use policy::{Kind, TierShare};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 512;
const BLOCK_BYTES: usize = 4096;
const SLOTS: u32 = 1 << 10;
const BLOCKS: u64 = 1 << 13;
/// Blocks that three quarters of the slots, uncompressed, and a quarter with compressed ones hold.
const FULL: u64 = 1500;

/// Half of the slots are for all evicted blocks.
const HALF: TierShare = TierShare { percent: 50, stores_rejected: true };

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

/// Returns a block's contents: a third is random, the rest is text.
fn contents(block: u64) -> Vec<u8> {
    let mut random = Random::new(block);
    let mut bytes = format!("This is block {block}. ").repeat(300).into_bytes();
    bytes.truncate(BLOCK_BYTES);
    for word in bytes[..BLOCK_BYTES / 3].chunks_exact_mut(8) {
        word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    bytes
}

fn filled(bytes: &[u8]) -> Buf {
    let buf = Buf::new((bytes.len() / GRAIN as usize) as u32, GRAIN);
    buf.write(bytes);
    buf
}

/// A cache that compresses, over blocks that become a third smaller.
struct Scene {
    world: World,
    lane: Lane,
    cache: Cache,
    stack: Stack,
    shared: Arc<Shared>,
}

impl Scene {
    fn new(policy: Kind, share: TierShare) -> Scene {
        Scene::with_shards(policy, share, 4)
    }

    fn with_shards(policy: Kind, share: TierShare, shards: u32) -> Scene {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let ram = Ram::new(BLOCKS * 8, GRAIN);
        let below = Stack::new(&lane, ram.clone());
        for block in 0..BLOCKS {
            let at = Extent::new(block * 8, 8);
            let request = Request::Write { at, from: filled(&contents(block)), fua: false };
            below.try_now(&request).expect("RAM answers now").expect("RAM does not fail");
        }
        let geometry = Geometry { shards, ..geometry(SLOTS) };
        let settings = Settings {
            policy,
            compress: Compress::Lz4,
            write: WriteMode::BackNow,
            dirty_blocks_max: SLOTS * 3 / 4,
            readahead: false,
            stream_blocks_max: u32::MAX,
            ..Settings::default()
        };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let shared = Shared::new(ram.limits(), geometry, settings, 7, memory);
        let shared = shared.expect("a fresh arena");
        shared.force_tier_share(share);
        let below = Stack::new(&lane, Slow { ram, lane: lane.clone() });
        let cache = Cache::attach(&shared, &lane, below);
        let stack = Stack::new(&lane, cache.clone());
        Scene { world, lane, cache, stack, shared }
    }

    /// Runs a future on the lane to its end.
    fn run<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let work = async move { *place.borrow_mut() = Some(work.await) };
        self.lane.spawn(work).expect("room");
        self.world.run_until(|| result.borrow().is_some());
        result.take().expect("it has ended")
    }

    /// Sends a request, and lets time pass in which blocks are compressed.
    fn send(&mut self, request: Request) {
        let stack = self.stack.clone();
        self.run(async move {
            match stack.try_now(&request) {
                Some(result) => result.expect("no errors"),
                None => stack.run(request).await.expect("no errors"),
            }
            stack.lane().sleep_until(stack.lane().now() + 200_000).await;
        });
    }

    fn read(&mut self, block: u64) {
        let into = Buf::new(8, GRAIN);
        self.send(Request::Read { at: Extent::new(block * 8, 8), into: into.clone() });
        assert!(into.to_vec() == contents(block), "block {block}");
    }

    fn read_all(&mut self, blocks: impl IntoIterator<Item = u64>) {
        blocks.into_iter().for_each(|block| self.read(block));
    }

    /// Reads blocks that many clients request at a time.
    fn read_together(&mut self, blocks: std::ops::Range<u64>) {
        let stack = self.stack.clone();
        let count = blocks.end - blocks.start;
        let ended = Rc::new(RefCell::new(0));
        for block in blocks {
            let (stack, ended) = (stack.clone(), ended.clone());
            let read = async move {
                let at = Extent::new(block * 8, 8);
                let read = Request::Read { at, into: Buf::new(8, GRAIN) };
                stack.run(read).await.expect("no errors");
                *ended.borrow_mut() += 1;
            };
            self.lane.spawn(read).expect("room");
        }
        self.world.run_until(|| *ended.borrow() == count);
        self.read(0);
    }

    fn counters(&self) -> Counters {
        self.shared.check();
        self.shared.counters(self.lane.now())
    }

    /// Returns the blocks in memory, compressed or not.
    fn held(&mut self) -> BTreeSet<u64> {
        let cache = self.cache.clone();
        self.run(async move {
            let (mut all, mut next) = (Vec::new(), Some(0));
            while let Some(from) = next {
                next = cache.list_held_blocks(from, &mut all).await;
            }
            all.iter().map(|held| held.block).collect()
        })
    }
}

/// The blocks that have left memory, as far as clients only read.
fn dropped(counters: &Counters) -> u64 {
    let Counters { compressed_rejected, compressed_skipped, compressed_unfit, .. } = *counters;
    let Counters { compressed_untried, compressed_refused, compressed_full, .. } = *counters;
    let never_stored = compressed_rejected
        + compressed_skipped
        + compressed_unfit
        + compressed_untried
        + compressed_refused
        + compressed_full;
    never_stored + counters.compressed_evicted + counters.compressed_yielded
}

/// Asserts that each block that was admitted is held, or its drop is counted.
fn check_balance(scene: &mut Scene) {
    let counters = scene.counters();
    let held = counters.blocks_held + counters.compressed_blocks;
    assert_eq!(counters.blocks_filled - dropped(&counters), held, "{counters:?}");
    assert_eq!(held, scene.held().len() as u64);
}

/// Blocks in an order that no stream has.
fn shuffled(blocks: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    blocks.map(|number| number * 997 % BLOCKS)
}

/// Fills the tier of a cache, and reads those of its blocks once for which `is_read` is true, by
/// their number in the order in which they were stored. Returns the cache, and its blocks that are
/// not compressed.
fn full_tier(is_read: impl Fn(usize) -> bool) -> (Scene, BTreeSet<u64>) {
    let mut scene = Scene::with_shards(Kind::Lru, HALF, 1);
    scene.read_all(shuffled(0..2 * FULL));
    let counters = scene.counters();
    assert!(counters.compressed_evicted > 0, "it is full: {counters:?}");
    let held = scene.held();
    let stored: Vec<u64> = shuffled(0..2 * FULL).filter(|block| held.contains(block)).collect();
    let compressed = &stored[..counters.compressed_blocks as usize];
    for (_, block) in compressed.iter().enumerate().filter(|(number, _)| is_read(*number)) {
        scene.read(*block);
    }
    let after = scene.counters();
    let read = (0..compressed.len()).filter(|number| is_read(*number)).count();
    assert_eq!(after.compressed_used - counters.compressed_used, read as u64);
    (scene, stored[compressed.len()..].iter().copied().collect())
}

/// Reads blocks that were not read before, for which as many others are evicted and compressed.
/// Returns how many of these have left memory, and the counters before.
fn evict(scene: &mut Scene, uncompressed: &BTreeSet<u64>, blocks: u64) -> (u64, Counters) {
    let before = scene.counters();
    let first = before.blocks_filled;
    scene.read_all(shuffled(first..first + blocks));
    let held = scene.held();
    let lost = uncompressed.iter().filter(|block| !held.contains(block)).count();
    check_balance(scene);
    (lost as u64, before)
}

#[test]
fn a_new_block_is_dropped_if_the_oldest_four_pages_were_read() {
    let (mut scene, uncompressed) = full_tier(|_| true);
    let (lost, before) = evict(&mut scene, &uncompressed, 60);
    let after = scene.counters();
    let full = after.compressed_full - before.compressed_full;
    assert_eq!(lost, full, "the others are in the tier: {after:?}");
    assert!(full > 30, "{full} dropped: {after:?}");
    let renewed = after.compressed_renewed - before.compressed_renewed;
    let evicted = after.compressed_evicted - before.compressed_evicted;
    assert!(renewed > 5 * evicted, "{renewed} renewed, {evicted} evicted");
    // A page that was turned has no advantage any more, so not more are dropped.
    let (_, before) = evict(&mut scene, &uncompressed, u64::from(SLOTS));
    let full = scene.counters().compressed_full - before.compressed_full + full;
    let pages = before.compressed_slots;
    assert!((pages / 8..=pages / 4).contains(&full), "{full} dropped, {pages} pages");
}

#[test]
fn the_last_page_that_is_turned_makes_room_for_the_new_block() {
    // Of twelve blocks, which take about four pages, the first four were not read.
    let (mut scene, uncompressed) = full_tier(|number| number % 12 >= 4);
    let (lost, before) = evict(&mut scene, &uncompressed, 200);
    let after = scene.counters();
    assert_eq!((lost, after.compressed_full), (0, before.compressed_full), "{after:?}");
    assert!(after.compressed_stored - before.compressed_stored >= 190, "{after:?}");
    assert!(after.compressed_renewed > before.compressed_renewed + 100, "{after:?}");
}

#[test]
fn each_block_that_leaves_memory_is_counted_by_its_reason() {
    let mut scene = Scene::new(Kind::WTinyLfu, HALF);
    scene.read_all(shuffled(0..2 * FULL));
    check_balance(&mut scene);
    let all = scene.counters();
    assert!(all.compressed_rejected == 0 && all.compressed_yielded == 0, "{all:?}");
    assert!(all.compressed_skipped < 20 && all.compressed_evicted > 100, "{all:?}");

    // More reads at a time than slots are free.
    scene.read_together(2 * FULL..2 * FULL + 100);
    check_balance(&mut scene);
    let burst = scene.counters();
    assert!(burst.compressed_skipped > all.compressed_skipped + 20, "{burst:?}");

    // A smaller share gives its pages to blocks that are not compressed.
    scene.shared.force_tier_share(TierShare { percent: 5, ..HALF });
    scene.read_all(shuffled(2 * FULL..3 * FULL));
    check_balance(&mut scene);
    let small = scene.counters();
    assert!(small.compressed_yielded > 100, "{small:?}");
    assert!(small.compressed_slots <= u64::from(SLOTS) / 20, "{small:?}");

    let mut proven = Scene::new(Kind::WTinyLfu, TierShare { stores_rejected: false, ..HALF });
    proven.read_all(shuffled(0..2 * FULL));
    check_balance(&mut proven);
    let counters = proven.counters();
    assert!(counters.compressed_rejected > 100, "{counters:?}");
}

#[test]
fn parts_of_blocks_are_not_stored_and_the_tier_gives_way_to_writes() {
    let mut scene = Scene::new(Kind::Lru, HALF);
    let write = |block: u64, sectors: std::ops::Range<u64>| {
        let bytes = contents(block);
        let range = (sectors.start * 512) as usize..(sectors.end * 512) as usize;
        let at = Extent::new(block * 8 + sectors.start, (sectors.end - sectors.start) as u32);
        Request::Write { at, from: filled(&bytes[range]), fua: false }
    };
    shuffled(0..200).for_each(|block| scene.send(write(block, 3..5)));
    scene.send(Request::Flush);
    let before = scene.counters();
    scene.read_all(shuffled(200..200 + u64::from(SLOTS)));
    let after = scene.counters();
    assert!(after.compressed_unfit - before.compressed_unfit > 100, "{after:?}");

    scene.read_all(shuffled(FULL..2 * FULL));
    let before = scene.counters();
    shuffled(0..u64::from(SLOTS) / 2).for_each(|block| scene.send(write(block, 0..8)));
    let after = scene.counters();
    let yielded = after.compressed_yielded - before.compressed_yielded;
    assert!(yielded > 100, "{yielded}: {after:?}");
}
