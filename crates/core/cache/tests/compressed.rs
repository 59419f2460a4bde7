//! The compressed tier: evicted blocks are answered from memory, never as they were before a
//! change, and the tier gives way to writes.

mod common;

use block::{Block, Buf, Compress, Extent, Memory, Ram, Request, Stack, WriteMode};
use cache::{
    Arena, Cache, Changes, CleanBlocks, Counters, Geometry, PolicyState, Settings, Shared, State,
};
use common::geometry;
use hotlist::Entry;
use lane::{Lane, Prices, Random, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const GRAIN: u32 = 512;
const BLOCK_BYTES: usize = 4096;
const SLOTS: u32 = 1 << 10;
/// Slots by which a cache may grow.
const SLOTS_SPARE: u32 = 512;
/// More than the slots, fewer than fit compressed.
const BLOCKS: u64 = 1400;

/// Returns the contents of a block after its `version`th change: they compress to a third.
fn contents(block: u64, version: u64) -> Vec<u8> {
    let mut random = Random::new(block << 8 | version);
    let mut bytes = format!("version {version} of block {block}. ").repeat(200).into_bytes();
    bytes.truncate(BLOCK_BYTES);
    for word in bytes[..BLOCK_BYTES / 3].chunks_exact_mut(8) {
        word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    bytes
}

/// Returns bytes that do not compress.
fn noise(block: u64, version: u64) -> Vec<u8> {
    let mut random = Random::new(block << 8 | version);
    (0..BLOCK_BYTES).map(|_| random.below(256) as u8).collect()
}

struct Scene {
    memory: Arc<Memory>,
    ram: Ram,
    settings: Settings,
    world: World,
    lane: Lane,
    cache: Cache,
    stack: Stack,
    shared: Arc<Shared>,
    contents: fn(u64, u64) -> Vec<u8>,
}

fn scene(compress: Compress) -> Scene {
    scene_of(compress, contents)
}

/// Makes a cache over blocks with these contents.
fn scene_of(compress: Compress, contents: fn(u64, u64) -> Vec<u8>) -> Scene {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let geometry = Geometry { slots_spare: SLOTS_SPARE, ..geometry(SLOTS) };
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let settings = Settings {
        write: WriteMode::BackNow,
        workers: 4,
        compress,
        readahead: false,
        dirty_blocks_max: SLOTS * 3 / 4,
        ..Settings::default()
    };
    let shared = Shared::new(ram.limits(), geometry, settings, 7, memory.clone());
    let shared = shared.expect("a fresh arena");
    let below = Stack::new(&lane, ram.clone());
    for block in 0..BLOCKS {
        let from = filled(&contents(block, 0));
        let request = Request::Write { at: Extent::new(block * 8, 8), from, fua: false };
        below.try_now(&request).expect("RAM answers now").expect("RAM does not fail");
    }
    let cache = Cache::attach(&shared, &lane, below);
    let stack = Stack::new(&lane, cache.clone());
    Scene { memory, ram, settings, world, lane, cache, stack, shared, contents }
}

fn filled(bytes: &[u8]) -> Buf {
    let buf = Buf::new((bytes.len() / GRAIN as usize) as u32, GRAIN);
    buf.write(bytes);
    buf
}

impl Scene {
    /// Kills the process, and lets another one take its memory over.
    fn kill(self, slots: u32, clean: CleanBlocks) -> Scene {
        let Scene { memory, ram, settings, mut world, contents, shared, .. } = self;
        world.abandon();
        let geometry = shared.geometry().resized(slots).expect("nothing is dirty");
        let shared = Shared::take_over(ram.limits(), geometry, settings, 7, memory.clone(), clean);
        let shared = shared.expect("the same memory");
        shared.check();
        let lane = world.lane();
        let cache = Cache::attach(&shared, &lane, Stack::new(&lane, ram.clone()));
        let stack = Stack::new(&lane, cache.clone());
        Scene { memory, ram, settings, world, lane, cache, stack, shared, contents }
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

    fn send(&mut self, request: Request) {
        let stack = self.stack.clone();
        self.run(async move {
            match stack.try_now(&request) {
                Some(result) => result.expect("no errors"),
                None => stack.run(request).await.expect("no errors"),
            }
        });
        self.pass(20_000);
    }

    /// Lets time pass, in which blocks are compressed.
    fn pass(&mut self, ns: u64) {
        let (lane, until) = (self.lane.clone(), self.lane.now() + ns);
        self.run(async move { lane.sleep_until(until).await });
    }

    fn read(&mut self, sector: u64, sectors: u32) -> Vec<u8> {
        let into = Buf::new(sectors, GRAIN);
        self.send(Request::Read { at: Extent::new(sector, sectors), into: into.clone() });
        into.to_vec()
    }

    /// Reads every block, in an order that no stream has.
    fn read_all(&mut self, version: u64) {
        for at in 0..BLOCKS {
            let block = at * 997 % BLOCKS;
            assert_eq!(self.read(block * 8, 8), (self.contents)(block, version), "block {block}");
        }
    }

    fn counters(&self) -> Counters {
        self.shared.check();
        self.shared.counters(self.lane.now())
    }

    fn set(&mut self, changes: Changes) {
        let cache = self.cache.clone();
        self.run(async move { cache.set(&changes).await.expect("no errors") });
    }
}

#[test]
fn evicted_blocks_are_answered_from_memory() {
    let misses = [Compress::Off, Compress::Lz4].map(|compress| {
        let mut scene = scene(compress);
        scene.read_all(0);
        let before = scene.counters();
        (0..3).for_each(|_| scene.read_all(0));
        let after = scene.counters();
        assert_eq!(after.compressed_used > 0, compress == Compress::Lz4);
        after.block_read_misses - before.block_read_misses
    });
    // Of a loop over more blocks than there are slots, a cache without compression keeps a part.
    assert!(misses[0] > BLOCKS, "{misses:?}");
    assert!(misses[1] < BLOCKS / 20, "{misses:?}");
}

/// Returns the counters, with their names.
fn named(scene: &Scene) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    scene.counters().each(|name, value| all.push((name, value)));
    all
}

#[test]
fn an_observer_reads_all_and_leaves_no_trace() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    for block in (0..BLOCKS).step_by(9) {
        let from = filled(&contents(block, 1));
        scene.send(Request::Write { at: Extent::new(block * 8, 8), from, fua: false });
    }
    scene.send(Request::Zero { at: Extent::new(80, 9), fua: false, may_unmap: false });
    scene.pass(10_000_000_000);
    let mut expected: Vec<u8> =
        (0..BLOCKS).flat_map(|block| contents(block, u64::from(block % 9 == 0))).collect();
    expected[80 * GRAIN as usize..][..9 * GRAIN as usize].fill(0);
    let cache = scene.cache.clone();
    let policy = scene.run(async move { cache.policy_state().await });
    let before = named(&scene);
    for (first, sectors) in [(0, 2000), (3, 1), (2000, 100), (2100, (BLOCKS * 8 - 2100) as u32)] {
        let (cache, into) = (scene.cache.clone(), Buf::new(sectors, GRAIN));
        let read = into.clone();
        scene
            .run(async move { cache.observe(Extent::new(first, sectors), read).await })
            .expect("RAM does not fail");
        let (first, bytes) = ((first * 512) as usize, (sectors * 512) as usize);
        assert!(into.to_vec() == expected[first..first + bytes], "{sectors} sectors");
    }
    assert_eq!(named(&scene), before);
    let cache = scene.cache.clone();
    assert!(scene.run(async move { cache.policy_state().await }) == policy, "the policy changed");
}

#[test]
fn the_chosen_share_goes_on_in_the_next_process() {
    let state_of = |scene: &mut Scene| {
        let cache = scene.cache.clone();
        scene.run(async move { cache.policy_state().await })
    };
    let restore = |scene: &mut Scene, bytes: &[u8]| {
        let state = PolicyState::parse(bytes, scene.settings.policy, scene.shared.geometry());
        let state = state.expect("undamaged").expect("of this cache");
        let cache = scene.cache.clone();
        scene.run(async move { cache.restore_policy(state).await });
    };
    // Fewer slots: all blocks fit only if three quarters of the slots are for compressed ones.
    const FEW: u32 = 640;
    let mut first = scene(Compress::Lz4).kill(FEW, CleanBlocks::Drop);
    let half = first.shared.tier_share();
    for _ in 0..8 {
        first.read_all(0);
    }
    let chosen = first.shared.tier_share();
    assert!(chosen.percent > half.percent, "{chosen:?}");
    let state = state_of(&mut first);

    let mut second = first.kill(FEW, CleanBlocks::Keep);
    second.read_all(0);
    assert_eq!(second.shared.tier_share(), half, "it was not restored yet");
    restore(&mut second, &state);
    assert_eq!(second.shared.tier_share(), chosen);
    second.read_all(0);
    assert_eq!(second.shared.tier_share(), chosen);
    // Restored before the first block is compressed.
    second.settings.compress = Compress::Off;
    let mut third = second.kill(FEW, CleanBlocks::Drop);
    let without = state_of(&mut third);
    assert_eq!((state[0], without[0]), (2, 1), "older programs read a state without a tier");
    restore(&mut third, &state);
    third.set(Changes { compress: Some(Compress::Lz4), ..Changes::default() });
    third.read_all(0);
    assert_eq!(third.shared.tier_share(), chosen);
    // The state of an older program says nothing about the tier.
    third.settings.compress = Compress::Lz4;
    let mut fourth = third.kill(FEW, CleanBlocks::Drop);
    restore(&mut fourth, &without);
    fourth.read_all(0);
    assert_eq!(fourth.shared.tier_share(), half);
}

#[test]
fn memory_holds_more_blocks_than_slots() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let Counters { blocks_held, compressed_blocks, compressed_slots, .. } = scene.counters();
    assert!(blocks_held + compressed_slots <= SLOTS.into());
    assert!(blocks_held + compressed_blocks > u64::from(SLOTS) * 5 / 4, "{compressed_blocks}");
    let cache = scene.cache.clone();
    let mut listed: Vec<u64> = scene.run(async move {
        let (mut all, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            next = cache.list_held_blocks(from, &mut all).await;
        }
        all.iter().map(|held| held.block).collect()
    });
    listed.sort_unstable();
    assert!(listed.is_sorted_by(|one, next| one < next), "a block is listed twice");
    assert_eq!(listed.len() as u64, blocks_held + compressed_blocks);
    // Pages have no gaps, except where the newest one is not full.
    assert!(compressed_slots * 4096 < compressed_blocks * 1500 + 8 * 4096, "{compressed_slots}");
}

/// Returns the contents of a block of zeros, or of one that repeats another word.
fn repeated(block: u64, version: u64) -> Vec<u8> {
    let words = [0, block << 32 | version];
    words[block as usize % 2].to_le_bytes().repeat(BLOCK_BYTES / 8)
}

#[test]
fn zeros_and_repeated_words_take_no_memory_but_their_metadata() {
    let mut scene = scene_of(Compress::Lz4, repeated);
    scene.read_all(0);
    let Counters { blocks_held, compressed_blocks, compressed_slots, .. } = scene.counters();
    assert_eq!(blocks_held + compressed_blocks, BLOCKS, "everything is in memory");
    // Their heads, checks and words, and the newest page of each shard.
    let bytes_max = compressed_blocks * 25 + u64::from(scene.shared.geometry().shards) * 4096;
    assert!(compressed_slots * 4096 <= bytes_max, "{compressed_blocks} in {compressed_slots}");
    (0..2).for_each(|_| scene.read_all(0));
    let misses = scene.counters().block_read_misses - BLOCKS;
    assert!(misses < BLOCKS / 20, "{misses} misses");
}

#[test]
fn a_change_of_any_kind_is_read_instead_of_the_compressed_block() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let mut expected: Vec<Vec<u8>> = (0..BLOCKS).map(|block| contents(block, 0)).collect();
    let mut random = Random::new(3);
    let (mut retained, mut used, mut stored) = (0, 0, 0);
    for step in 1..2000 {
        if step % 250 == 0 {
            (used, stored) = sum(&scene, used, stored);
            scene = scene.kill(SLOTS, CleanBlocks::Keep);
            retained += scene.counters().compressed_retained;
        }
        let sector = random.below(BLOCKS * 8 - 24);
        let sectors = 1 + random.below(24) as u32;
        let at = Extent::new(sector, sectors);
        let bytes = contents(sector, step)
            .into_iter()
            .cycle()
            .take((sectors * GRAIN) as usize)
            .collect::<Vec<u8>>();
        let zeros = vec![0; bytes.len()];
        let (request, bytes) = match random.below(5) {
            0 => (Request::Zero { at, fua: false, may_unmap: true }, zeros),
            1 => (Request::Write { at, from: filled(&bytes), fua: true }, bytes),
            2 => (Request::Write { at, from: filled(&bytes), fua: false }, bytes),
            _ => {
                let read = self::flat(&expected, at);
                assert_eq!(scene.read(sector, sectors), read, "{at:?}");
                continue;
            }
        };
        scene.send(request);
        for (index, byte) in bytes.into_iter().enumerate() {
            let place = sector as usize * GRAIN as usize + index;
            expected[place / BLOCK_BYTES][place % BLOCK_BYTES] = byte;
        }
    }
    (used, stored) = sum(&scene, used, stored);
    assert!(used > 100 && stored > 1000 && retained > 1000, "{used}, {stored}, {retained}");
}

/// Adds the blocks that a process has read from its tier, and stored there.
fn sum(scene: &Scene, used: u64, stored: u64) -> (u64, u64) {
    let counters = scene.counters();
    (used + counters.compressed_used, stored + counters.compressed_stored)
}

#[test]
fn compressed_blocks_stay_warm_over_a_kill() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let before = scene.counters();
    let mut scene = scene.kill(SLOTS, CleanBlocks::Keep);
    let after = scene.counters();
    assert_eq!(after.compressed_retained, before.compressed_blocks);
    assert_eq!(after.compressed_blocks, before.compressed_blocks);
    assert_eq!(after.blocks_retained, before.blocks_held);
    scene.read_all(0);
    let misses = scene.counters().block_read_misses;
    assert!(misses < BLOCKS / 20, "{misses} misses");
    // The same bytes must not be trusted by the process after one that did not trust them.
    let scene = scene.kill(SLOTS, CleanBlocks::Drop);
    assert_eq!(scene.counters().compressed_blocks, 0);
    let scene = scene.kill(SLOTS, CleanBlocks::Keep);
    assert_eq!(scene.counters().compressed_blocks, 0);
}

#[test]
fn damaged_objects_of_an_earlier_process_are_read_from_the_backing() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let geometry = *scene.shared.geometry();
    let arena = Arena::from_memory(scene.memory.clone(), &geometry, GRAIN);
    let slots = geometry.slots + geometry.slots_spare;
    let free = |slot: &u32| arena.header(*slot).state == State::Free;
    for slot in (0..geometry.slots).filter(free) {
        // A bit in the middle of the page, which is in an object.
        let page = scene.memory.bytes() - (slots - slot) as usize * BLOCK_BYTES;
        scene.memory.word(page + BLOCK_BYTES / 2).fetch_xor(1 << 33, Ordering::Relaxed);
    }
    let mut scene = scene.kill(SLOTS, CleanBlocks::Keep);
    assert!(scene.counters().compressed_blocks > u64::from(SLOTS) / 4);
    scene.read_all(0);
    assert!(scene.counters().compressed_used > u64::from(SLOTS) / 8);
}

#[test]
fn compressed_blocks_that_were_read_are_named_as_hot() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let named = |scene: &mut Scene| {
        let cache = scene.cache.clone();
        let mut blocks: Vec<u64> = scene
            .run(async move { cache.hot_blocks().await })
            .into_iter()
            .map(Entry::block)
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    };
    let before = named(&mut scene);
    assert_eq!(before.len() as u64, scene.counters().blocks_held, "none was read again");
    let cold: Vec<u64> = (0..BLOCKS).filter(|block| !before.contains(block)).take(20).collect();
    let used = scene.counters().compressed_used;
    cold.iter().for_each(|block| drop(scene.read(block * 8, 8)));
    assert_eq!(scene.counters().compressed_used - used, 20);
    let after = named(&mut scene);
    assert!(cold.iter().all(|block| after.contains(block)), "{cold:?}");
    assert_eq!(after.len(), before.len() + 20);
}

/// Returns the maximum number of slots that the tier may have, if no slot is dirty.
fn pages_max(scene: &Scene) -> u64 {
    let Geometry { slots, shards, .. } = *scene.shared.geometry();
    u64::from(shards * scene.shared.tier_share().pages_max(slots / shards))
}

#[test]
fn a_full_tier_is_taken_over_with_more_and_with_less_memory() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let before = scene.counters();
    let mut scene = scene.kill(SLOTS + SLOTS_SPARE, CleanBlocks::Keep);
    assert_eq!(scene.counters().compressed_blocks, before.compressed_blocks);
    scene.read_all(0);
    let mut scene = scene.kill(400, CleanBlocks::Keep);
    let shrunk = scene.counters();
    let held = shrunk.blocks_held + shrunk.compressed_slots;
    assert!(shrunk.compressed_blocks > 0 && held <= 400, "{shrunk:?}");
    scene.read_all(0);
    // More than the share, if the pages of the larger memory were not returned.
    for block in (0..BLOCKS).cycle().step_by(3).take(2 * BLOCKS as usize) {
        scene.read(block * 8, 8);
        let slots = scene.shared.counters(scene.lane.now()).compressed_slots;
        assert!(slots <= pages_max(&scene), "{slots} slots: {:?}", scene.shared.tier_share());
    }
    let mut scene = scene.kill(SLOTS, CleanBlocks::Keep);
    scene.read_all(0);
}

#[test]
fn without_compression_the_memory_of_a_tier_is_free_again() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    scene.settings.compress = Compress::Off;
    let mut scene = scene.kill(SLOTS, CleanBlocks::Keep);
    let counters = scene.counters();
    assert_eq!((counters.compressed_blocks, counters.compressed_slots), (0, 0));
    assert!(counters.blocks_retained > 0);
    scene.read_all(0);
    scene.settings.compress = Compress::Lz4;
    let scene = scene.kill(SLOTS, CleanBlocks::Keep);
    assert_eq!(scene.counters().compressed_blocks, 0);
}

#[test]
fn compression_that_is_switched_off_releases_a_tier_that_was_taken_over() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    let mut scene = scene.kill(SLOTS, CleanBlocks::Keep);
    assert!(scene.counters().compressed_blocks > 0);
    scene.set(Changes { compress: Some(Compress::Off), ..Changes::default() });
    scene.pass(1_000_000_000);
    let counters = scene.counters();
    assert_eq!((counters.compressed_blocks, counters.compressed_slots), (0, 0));
}

/// Returns the bytes of some sectors.
fn flat(blocks: &[Vec<u8>], at: Extent) -> Vec<u8> {
    let range = at.first as usize * GRAIN as usize..at.end() as usize * GRAIN as usize;
    range.map(|place| blocks[place / BLOCK_BYTES][place % BLOCK_BYTES]).collect()
}

#[test]
fn the_tier_gives_way_to_dirty_blocks_and_to_the_operator() {
    let mut scene = scene(Compress::Lz4);
    scene.read_all(0);
    assert!(scene.counters().compressed_slots > u64::from(SLOTS) / 8);
    for block in 0..u64::from(SLOTS) * 3 / 4 {
        let from = filled(&contents(block, 1));
        scene.send(Request::Write { at: Extent::new(block * 8, 8), from, fua: false });
    }
    let counters = scene.counters();
    assert_eq!(counters.writes_through_full, 0, "{counters:?}");
    scene.set(Changes { compress: Some(Compress::Off), ..Changes::default() });
    scene.pass(1_000_000_000);
    let counters = scene.counters();
    assert_eq!((counters.compressed_blocks, counters.compressed_slots), (0, 0));
    scene.set(Changes { compress: Some(Compress::Lz4), ..Changes::default() });
    (0..2).for_each(|_| {
        for block in 0..BLOCKS {
            let version = u64::from(block < u64::from(SLOTS) * 3 / 4);
            assert_eq!(scene.read(block * 8, 8), contents(block, version), "block {block}");
        }
    });
    assert!(scene.counters().compressed_blocks > 0);
}

#[test]
fn blocks_near_others_that_do_not_become_smaller_are_rarely_tried() {
    let mut scene = scene_of(Compress::Lz4, noise);
    (0..4).for_each(|_| scene.read_all(0));
    let before = scene.counters();
    assert_eq!((before.compressed_stored, before.compressed_blocks), (0, 0));
    assert!(before.compressed_refused > 20, "{before:?}");
    assert!(before.compressed_untried > 3 * before.compressed_refused, "{before:?}");
    // Compressible data in the same blocks is found.
    scene.contents = contents;
    for block in 0..BLOCKS {
        let from = filled(&contents(block, 1));
        scene.send(Request::Write { at: Extent::new(block * 8, 8), from, fua: false });
    }
    (0..3).for_each(|_| scene.read_all(1));
    let after = scene.counters();
    assert!(after.compressed_stored > BLOCKS / 2, "{after:?}");
    assert!(after.compressed_untried - before.compressed_untried < 400, "{after:?}");
}
