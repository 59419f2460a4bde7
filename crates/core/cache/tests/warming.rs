//! The list of hot blocks: named in the order of their heat, read back below clients' requests,
//! into free slots, and never over anything newer. The start-up list: noted in the order of first
//! reads, and fetched ahead of a guest that repeats them.

mod common;

use block::{Block, Buf, Error, Extent, Kind, Limits, Memory, Ram, Request, Result, Stack, Warm};
use block::{Durability, WriteMode};
use cache::{Arena, Cache, Changes, CleanBlocks, Counters, Settings, Shared};
use common::geometry;
use hotlist::{Description, Entry, HotList, StartList, encode, encode_start};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 1 << 16;
/// Sectors of the volume behind its last whole block.
const REST: u64 = 3;
const SLOTS: u32 = 1 << 12;
/// The time of a read of the backing, and the number of reads that it serves in parallel.
const READ_NS: u64 = 500_000;
const SERVERS: usize = 4;

/// RAM whose reads take some time.
struct Slow {
    ram: Ram,
    lane: Lane,
    free_at: RefCell<Vec<u64>>,
    seen: Rc<Seen>,
}

/// The reads of the backing.
#[derive(Default)]
struct Seen {
    reads: Cell<u64>,
    blocks: Cell<u64>,
    /// Reads of this block fail.
    fails: Cell<Option<u64>>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let Request::Read { at, .. } = &request else { return self.ram.run(request).await };
        self.seen.reads.set(self.seen.reads.get() + 1);
        self.seen.blocks.set(self.seen.blocks.get() + u64::from(at.count / 8));
        let until = {
            let mut free_at = self.free_at.borrow_mut();
            let server = free_at.iter_mut().min().expect("there is one");
            *server = self.lane.now().max(*server) + READ_NS;
            *server
        };
        self.lane.sleep_until(until).await;
        if self.seen.fails.get().is_some_and(|block| at.first / 8 <= block && block < at.end() / 8)
        {
            return Err(Error::new(Kind::Io, "test"));
        }
        self.ram.run(request).await
    }
}

struct Scene {
    world: World,
    lane: Lane,
    cache: Cache,
    stack: Stack,
    shared: Arc<Shared>,
    memory: Arc<Memory>,
    seen: Rc<Seen>,
}

fn settings() -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        workers: 4,
        fill_cost_ns: 400,
        ..Settings::default()
    }
}

fn scene(settings: Settings, slots: u32) -> Scene {
    scene_over(settings, slots, None)
}

/// Makes a scene over the memory of an earlier one, whose clean blocks it takes over.
fn scene_over(settings: Settings, slots: u32, earlier: Option<Arc<Memory>>) -> Scene {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let geometry = geometry(slots);
    let ram = Ram::new(BLOCKS * 8 + REST, GRAIN);
    let fresh = || Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let memory = earlier.unwrap_or_else(fresh);
    let clean = CleanBlocks::Keep;
    let shared = Shared::take_over(ram.limits(), geometry, settings, 7, memory.clone(), clean);
    let shared = shared.expect("a fresh arena, or the earlier scene's");
    let seen = Rc::new(Seen::default());
    let free_at = RefCell::new(vec![0; SERVERS]);
    let slow = Slow { ram, lane: lane.clone(), free_at, seen: seen.clone() };
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, slow));
    let stack = Stack::new(&lane, cache.clone());
    Scene { world, lane, cache, stack, shared, memory, seen }
}

fn list(entries: Vec<Entry>) -> HotList {
    let of = Description { identity: "1".into(), volume_blocks: BLOCKS, saved_s: 0 };
    HotList::parse(&encode(&of, entries)).expect("a list")
}

fn start_list(starts: Vec<Vec<u64>>) -> StartList {
    let of = Description { identity: "1".into(), volume_blocks: BLOCKS, saved_s: 0 };
    StartList::parse(&encode_start(&of, starts)).expect("a list")
}

/// Blocks in no order, each once.
fn shuffled(count: u64) -> Vec<u64> {
    (0..count).map(|at| at * 7919 % BLOCKS).collect()
}

fn listed(blocks: impl IntoIterator<Item = u64>) -> HotList {
    list(blocks.into_iter().map(|block| Entry::new(block, 0)).collect())
}

fn read(first: u64, blocks: u32) -> Request {
    Request::Read { at: Extent::new(first * 8, blocks * 8), into: Buf::new(blocks * 8, GRAIN) }
}

impl Scene {
    /// Runs a future on the lane to its end.
    fn run<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let work = async move { *place.borrow_mut() = Some(work.await) };
        self.lane.spawn(work).expect("room");
        self.world.run_until(|| result.borrow().is_some());
        result.take().expect("it has ended")
    }

    fn send(&mut self, requests: Vec<Request>) {
        let stack = self.stack.clone();
        self.run(async move {
            for request in requests {
                match stack.try_now(&request) {
                    Some(result) => result.expect("no errors"),
                    None => stack.run(request).await.expect("no errors"),
                }
            }
        });
    }

    /// Lets time pass.
    fn pass(&mut self, ns: u64) {
        let (lane, until) = (self.lane.clone(), self.lane.now() + ns);
        self.run(async move { lane.sleep_until(until).await });
    }

    fn counters(&self) -> Counters {
        self.shared.check();
        self.shared.counters(self.lane.now())
    }

    fn warm(&mut self, list: HotList) {
        self.shared.warm(list, self.lane.now());
    }

    fn follow(&mut self, starts: Vec<Vec<u64>>) {
        self.shared.begin_start_up();
        self.shared.follow_start_up(start_list(starts));
    }

    /// Reads these blocks one after the other, with pauses as a guest makes them.
    fn boot(&mut self, blocks: &[u64]) {
        for block in blocks {
            self.send(vec![read(*block, 1)]);
            self.pass(READ_NS / 2);
        }
    }

    fn hot_blocks(&mut self) -> Vec<Entry> {
        let cache = self.cache.clone();
        self.run(async move { cache.hot_blocks().await })
    }
}

#[test]
fn a_list_is_read_back_in_large_reads_and_its_first_reads_are_hits() {
    let mut scene = scene(settings(), SLOTS);
    scene.warm(listed((0..1024).chain((4096..8192).step_by(16))));
    assert!(scene.shared.is_warming());
    scene.pass(1_000_000_000);
    assert!(!scene.shared.is_warming());
    let counters = scene.counters();
    assert_eq!((counters.warm_listed, counters.warm_cached), (1280, 1280));
    assert_eq!(counters.blocks_held, 1280);
    assert!(scene.seen.reads.get() <= 16 + 256, "{} reads", scene.seen.reads.get());
    let untouched = Counters {
        warm_listed: 1280,
        warm_cached: 1280,
        warm_ns: counters.warm_ns,
        blocks_held: 1280,
        ..scene.shared.counters(scene.lane.now())
    };
    assert_eq!(counters, untouched, "neither hits nor accesses");
    assert_eq!((counters.block_accesses, counters.read_hits, counters.read_misses), (0, 0, 0));
    let before = scene.seen.reads.get();
    scene.send((0..1024).map(|block| read(block, 1)).collect());
    let counters = scene.counters();
    assert_eq!((counters.read_hits, counters.read_misses), (1024, 0));
    assert_eq!((counters.warm_used, counters.warm_wasted), (1024, 0));
    assert_eq!(scene.seen.reads.get(), before);
    scene.send((0..1024).map(|block| read(block, 1)).collect());
    assert_eq!(scene.counters().warm_used, 1024, "each is used once");
}

#[test]
fn hotter_blocks_are_read_first_and_the_coldest_are_evicted_first() {
    let mut scene = scene(settings(), SLOTS);
    let entry = |block: u64| Entry::new(block, 7 - (block * 8 / 8192) as u32);
    // Twice the memory: only the hotter half fits.
    scene.warm(list((0..8192).map(entry).collect()));
    scene.pass(2_000_000_000);
    let counters = scene.counters();
    assert_eq!((counters.warm_cached, counters.blocks_held), (u64::from(SLOTS), SLOTS.into()));
    let cached = |scene: &mut Scene| -> BTreeSet<u64> {
        scene.hot_blocks().iter().map(|entry| entry.block()).collect()
    };
    assert!(cached(&mut scene) == (4096..8192).collect(), "the hotter half is not cached");
    // Clients' misses evict the coldest of them.
    scene.send((0..100).map(|at| read(20_000 + at * at * 3, 1)).collect());
    let left = cached(&mut scene);
    let gone: Vec<u64> = (4096..8192).filter(|block| !left.contains(block)).collect();
    assert_eq!(gone.len(), 100);
    assert!(gone.iter().all(|block| *block < 4096 + 1024), "{gone:?}");
    assert_eq!(scene.counters().warm_wasted, 100);
}

#[test]
fn writes_zeroes_and_discards_in_between_win() {
    for gap in [1, 3] {
        let mut scene = scene(settings(), SLOTS);
        scene.warm(listed((0..2048).step_by(gap)));
        let fill = |block: u64| {
            let from = Buf::new(8, GRAIN);
            from.write(&[block as u8 | 1; 8 * GRAIN as usize]);
            Request::Write { at: Extent::new(block * 8, 8), from, fua: block.is_multiple_of(5) }
        };
        scene.send((0..2048).step_by(7).map(fill).collect());
        scene.send(vec![Request::Flush]);
        scene.pass(1_000_000_000);
        assert!(!scene.shared.is_warming());
        scene.shared.check();
        for block in (0..2048).step_by(7) {
            let into = Buf::new(8, GRAIN);
            let at = Extent::new(block * 8, 8);
            scene.send(vec![Request::Read { at, into: into.clone() }]);
            let mut bytes = vec![0; 8 * GRAIN as usize];
            into.read(&mut bytes);
            assert!(bytes.iter().all(|byte| *byte == block as u8 | 1), "block {block}");
        }
    }
}

#[test]
fn it_waits_while_clients_use_the_backing_and_goes_on_afterwards() {
    let mut scene = scene(settings(), SLOTS);
    // More reads in flight than the backing serves in parallel.
    let left = Rc::new(Cell::new(16));
    for client in 0..16u64 {
        let (stack, left) = (scene.stack.clone(), left.clone());
        let reads = async move {
            for at in 0..50 {
                let request = read(32_768 + client * 1024 + at * at * at * 37 % 1021, 1);
                stack.run(request).await.expect("no errors");
            }
            left.set(left.get() - 1);
        };
        scene.lane.spawn(reads).expect("room");
    }
    let seen = scene.seen.clone();
    scene.world.run_until(|| seen.reads.get() >= 16);
    scene.warm(listed(0..1024));
    scene.world.run_until(|| left.get() < 16);
    let beside = scene.counters().warm_cached;
    assert!(beside <= 64, "{beside} blocks while every place of the backing was taken");
    scene.world.run_until(|| left.get() == 0);
    scene.pass(1_000_000_000);
    assert_eq!(scene.counters().warm_cached, 1024);
}

#[test]
fn an_error_ends_it_and_is_no_clients_error() {
    let mut scene = scene(settings(), SLOTS);
    scene.seen.fails.set(Some(700));
    scene.warm(listed(0..2048));
    scene.pass(1_000_000_000);
    let counters = scene.counters();
    assert_eq!((counters.warm_state, counters.errors_read), (2, 1));
    assert!(counters.warm_cached < 1024, "{}", counters.warm_cached);
    assert!(!scene.shared.has_failed());
}

#[test]
fn a_guard_that_bypasses_reads_and_the_setting_hold_it() {
    let mut scene = scene(settings(), SLOTS);
    scene.shared.force_bypass(true, false, 0);
    scene.warm(listed(0..256));
    scene.pass(100_000_000);
    assert_eq!(scene.seen.reads.get(), 0);
    scene.shared.force_bypass(false, false, 0);
    let cache = scene.cache.clone();
    let off = Changes { warm: Some(Warm::Off), ..Changes::default() };
    scene.run(async move { cache.set(&off).await.expect("no error") });
    // A miss wakes the task, which finds that it must not read.
    scene.send(vec![read(5000, 1)]);
    scene.pass(100_000_000);
    assert_eq!(scene.counters().warm_cached, 0);
    let cache = scene.cache.clone();
    let on = Changes { warm: Some(Warm::List), ..Changes::default() };
    scene.run(async move { cache.set(&on).await.expect("no error") });
    scene.send(vec![read(6000, 1)]);
    scene.pass(100_000_000);
    assert_eq!(scene.counters().warm_cached, 256);
}

#[test]
fn the_ranking_has_every_block_once_and_recent_ones_are_hotter() {
    let mut scene = scene(settings(), SLOTS);
    scene.send((0..2000).map(|block| read(block * 3, 1)).collect());
    let blocks: Vec<u64> = (1500..2000).map(|block| block * 3).collect();
    scene.send(blocks.iter().rev().map(|block| read(*block, 1)).collect());
    let from = Buf::new(8, GRAIN);
    scene.send(vec![Request::Write { at: Extent::new(8, 8), from, fua: false }]);
    let ranked = scene.hot_blocks();
    let named: BTreeSet<u64> = ranked.iter().map(|entry| entry.block()).collect();
    assert_eq!(named.len(), ranked.len());
    let expected: BTreeSet<u64> = (0..2000).map(|block| block * 3).chain([1]).collect();
    assert_eq!(named, expected);
    let class = |block: u64| ranked.iter().find(|one| one.block() == block).expect("named").class();
    let mean = |blocks: std::ops::Range<u64>| {
        let length = blocks.end - blocks.start;
        blocks.map(|block| u64::from(class(block * 3))).sum::<u64>() as f64 / length as f64
    };
    assert!(mean(1500..2000) < 1.0 && mean(0..500) > 5.0, "{} {}", mean(1500..2000), mean(0..500));
    assert_eq!(class(1), 0, "a dirty block was accessed last");
}

#[test]
fn blocks_that_were_taken_over_are_evicted_in_the_order_of_the_list() {
    let hot_left = |uses_list: bool| -> usize {
        let mut first = scene(settings(), SLOTS);
        first.send((0..u64::from(SLOTS)).map(|block| read(block, 1)).collect());
        first.send((0..1024).map(|block| read(block, 1)).collect());
        let saved = list(first.hot_blocks());
        let memory = first.memory.clone();
        drop(first);
        let mut scene = scene_over(settings(), SLOTS, Some(memory));
        let retained = scene.counters().blocks_retained;
        assert!(retained > u64::from(SLOTS) * 9 / 10, "{retained} were taken over");
        if uses_list {
            let cache = scene.cache.clone();
            scene.run(async move { cache.order_retained(&saved).await });
        }
        assert_eq!(scene.counters().block_accesses, 0, "the order is no access");
        scene.send((0..1024).map(|at| read(10_000 + at * 7, 1)).collect());
        scene.hot_blocks().iter().filter(|entry| entry.block() < 1024).count()
    };
    // A quarter of the blocks is evicted; in the order of slots, of the hot ones as of the others.
    let (with_list, without) = (hot_left(true), hot_left(false));
    assert!(with_list > 1000 && without < 900, "{with_list} with the list, {without} without it");
}

#[test]
fn a_part_of_a_block_at_the_volumes_end_is_in_no_list() {
    let mut scene = scene(settings(), SLOTS);
    let at = Extent::new((BLOCKS - 1) * 8, 8 + REST as u32);
    scene.send(vec![Request::Read { at, into: Buf::new(at.count, GRAIN) }]);
    assert_eq!(scene.counters().blocks_held, 2);
    let ranked = scene.hot_blocks();
    let named: Vec<u64> = ranked.iter().map(|entry| entry.block()).collect();
    assert_eq!(named, [BLOCKS - 1]);
    // A list of more blocks than its volume has cannot be written.
    assert_eq!(list(ranked).len(), 1);
}

#[test]
fn a_ranking_beside_requests_misses_few_blocks_and_names_none_twice() {
    let mut scene = scene(settings(), SLOTS);
    scene.send((0..4000).map(|block| read(block, 1)).collect());
    let done = Rc::new(Cell::new(false));
    for client in 0..4u64 {
        let (stack, done, lane) = (scene.stack.clone(), done.clone(), scene.lane.clone());
        let reads = async move {
            let mut block = client * 977;
            while !done.get() {
                block = (block * 1_103_515_245 + 12345) % 4000;
                let request = read(block, 1);
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("no errors");
                }
                lane.rest().await;
            }
        };
        scene.lane.spawn(reads).expect("room");
    }
    let ranked = scene.hot_blocks();
    done.set(true);
    let named: BTreeSet<u64> = ranked.iter().map(|entry| entry.block()).collect();
    assert_eq!(named.len(), ranked.len());
    assert!(ranked.len() > 3900, "{} of 4000", ranked.len());
}

#[test]
fn first_reads_are_noted_in_order_and_fetched_ahead_at_the_next_start() {
    let blocks = shuffled(1500);
    let mut first = scene(settings(), SLOTS);
    assert_eq!(first.shared.start_up_began().0, None);
    first.shared.begin_start_up();
    for some in blocks.chunks(100) {
        first.boot(some);
        // Hits, and parts of larger reads that are known already.
        first.boot(&some[..50]);
        first.send(vec![read(some[0] & !7, 8)]);
    }
    assert!(first.shared.start_up_began().0.is_some());
    let noted = first.shared.end_start_up().expect("it was noted");
    let mut known = BTreeSet::new();
    let expected: Vec<u64> = blocks
        .chunks(100)
        .flat_map(|some| some.iter().copied().chain((some[0] & !7)..(some[0] & !7) + 8))
        .filter(|block| known.insert(*block))
        .collect();
    assert_eq!(noted, expected);
    assert_eq!(first.shared.end_start_up(), None, "it is over");

    let mut second = scene(settings(), SLOTS);
    second.follow(vec![noted.clone()]);
    second.boot(&blocks);
    let counters = second.counters();
    assert_eq!(counters.start_listed, noted.len() as u64);
    assert!(counters.read_misses < 100, "{} misses of 1500", counters.read_misses);
    assert!(counters.start_used > 1400, "{} of {}", counters.start_used, counters.start_cached);
    assert!(counters.start_ns > 0 && counters.start_state == 1);
    // Read from the list's slots, they are noted as before.
    let again = second.shared.end_start_up().expect("it was noted");
    assert_eq!(again, blocks);
    assert_eq!(second.counters().start_state, 0);
}

#[test]
fn the_start_up_list_stays_a_window_ahead_of_the_guest() {
    let mut scene = scene(settings(), SLOTS);
    let blocks = shuffled(4000);
    scene.follow(vec![blocks.clone()]);
    scene.pass(1_000_000_000);
    let window = u64::from(SLOTS / 8);
    let cached = |scene: &Scene| scene.counters().start_cached;
    assert!((window..window + 64).contains(&cached(&scene)), "{}", cached(&scene));
    // The guest does something else.
    let known: BTreeSet<u64> = blocks.iter().copied().collect();
    scene.boot(&(0..400).map(|at| at * 5).filter(|at| !known.contains(at)).collect::<Vec<_>>());
    assert!(cached(&scene) < window + 64, "{}", cached(&scene));
    scene.boot(&blocks[..200]);
    scene.pass(1_000_000_000);
    assert!((window + 200..window + 264).contains(&cached(&scene)), "{}", cached(&scene));
    scene.shared.end_start_up();
    scene.boot(&blocks[200..400]);
    assert!(cached(&scene) < window + 264, "the first minutes are over");
}

#[test]
fn the_start_up_list_goes_first_and_takes_the_slots_of_hot_blocks() {
    let mut scene = scene(settings(), SLOTS);
    let blocks = shuffled(2000);
    scene.follow(vec![blocks.clone()]);
    scene.warm(listed(BLOCKS / 2..BLOCKS / 2 + 2 * u64::from(SLOTS)));
    scene.pass(2_000_000_000);
    let counters = scene.counters();
    assert!(counters.blocks_held > u64::from(SLOTS) - 64, "memory is full");
    assert!(counters.start_cached >= u64::from(SLOTS / 8), "{}", counters.start_cached);
    let before = counters.read_misses;
    scene.boot(&blocks);
    let counters = scene.counters();
    assert!(counters.read_misses - before < 100, "{} misses", counters.read_misses - before);
    // Some blocks are in both lists.
    assert!(counters.start_used > 1700 && counters.start_wasted == 0, "{counters:?}");
    assert!(counters.warm_wasted > 1000, "{} hot blocks made room", counters.warm_wasted);
}

#[test]
fn changes_win_over_the_start_up_list_and_an_error_ends_it() {
    let mut scene = scene(settings(), SLOTS);
    let blocks: Vec<u64> = (0..2000).collect();
    scene.follow(vec![blocks]);
    let fill = |block: u64| {
        let from = Buf::new(8, GRAIN);
        from.write(&[block as u8 | 1; 8 * GRAIN as usize]);
        Request::Write { at: Extent::new(block * 8, 8), from, fua: block.is_multiple_of(5) }
    };
    scene.send((0..2000).step_by(7).map(fill).collect());
    scene.boot(&(0..500).collect::<Vec<_>>());
    for block in (0..2000).step_by(7) {
        let into = Buf::new(8, GRAIN);
        scene.send(vec![Request::Read { at: Extent::new(block * 8, 8), into: into.clone() }]);
        let mut bytes = vec![0; 8 * GRAIN as usize];
        into.read(&mut bytes);
        assert!(bytes.iter().all(|byte| *byte == block as u8 | 1), "block {block}");
    }
    scene.seen.fails.set(Some(1999));
    scene.boot(&(500..1900).collect::<Vec<_>>());
    let counters = scene.counters();
    assert_eq!((counters.start_state, counters.errors_read), (2, 1));
    assert!(!scene.shared.has_failed());
}
