//! Hints about files: a served cache follows them as the simulation does, they are replaced while
//! it serves, and no data depends on them.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, HeldBlock, Settings, Shared};
use lane::{Lane, Random, World};
use policy::{ClassExtent, ClassMap, HintedSimulation, Hints, Kind, Treatments, class_by_name};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 4096;
const SLOTS: u32 = 256;

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

fn class(name: &str) -> u8 {
    class_by_name(name).expect("it is in the table")
}

/// Metadata, free space, big media, and documents, a quarter of the volume each.
fn hints() -> Arc<Hints> {
    let quarter = BLOCKS as u32 / 4;
    let names = ["metadata", "free-space", "big-media", "documents"];
    let extents = (0..).zip(names).map(|(at, name)| ClassExtent {
        first: at * u64::from(quarter),
        blocks: quarter,
        class: class(name),
    });
    let map = ClassMap::new(extents, BLOCKS).expect("sorted");
    Arc::new(Hints { map, treatments: Treatments::default() })
}

const FREE: u64 = BLOCKS / 4;
const MEDIA: u64 = BLOCKS / 2;

/// A volume without readahead.
struct Volume {
    world: World,
    cache: Cache,
    shared: Arc<Shared>,
}

impl Volume {
    fn new(settings: Settings) -> Volume {
        let mut world = World::timed(lane::Prices::default());
        let lane = world.lane();
        let ram = Ram::new(BLOCKS * 8, GRAIN);
        let geometry =
            Geometry { slots: SLOTS, shards: 1, fills: 16, run_blocks: 8, ..Geometry::SMALLEST };
        let settings = Settings { stream_blocks_max: u32::MAX, ..settings };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let shared = Shared::new(ram.limits(), geometry, settings, 7, memory).expect("fresh");
        let below = Stack::new(&lane, Slow { ram, lane: lane.clone() });
        let cache = Cache::attach(&shared, &lane, below);
        Volume { world, cache, shared }
    }

    /// Runs a task to its end.
    fn run<R: 'static>(&mut self, task: impl AsyncFnOnce(Cache) -> R + 'static) -> R {
        let result = Rc::new(RefCell::new(None));
        let (into, cache) = (result.clone(), self.cache.clone());
        let future: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            let value = task(cache).await;
            *into.borrow_mut() = Some(value);
        });
        self.cache.lane().spawn(future).expect("a slot is free");
        assert!(self.world.run_until(|| result.borrow().is_some()), "the task hangs");
        self.shared.check();
        let value = result.borrow_mut().take();
        value.expect("it has ended")
    }
}

async fn read(cache: &Cache, block: u64) -> Buf {
    let buf = Buf::new(8, GRAIN);
    let request = Request::Read { at: Extent::new(block * 8, 8), into: buf.clone() };
    if cache.try_now(&request).is_none() {
        cache.lane().turn().await;
        cache.run(request).await.expect("RAM does not fail");
    }
    buf
}

async fn write(cache: &Cache, block: u64, byte: u8) {
    let buf = Buf::new(8, GRAIN);
    buf.write(&[byte; 8 * GRAIN as usize]);
    let request = Request::Write { at: Extent::new(block * 8, 8), from: buf, fua: false };
    if cache.try_now(&request).is_none() {
        cache.lane().turn().await;
        cache.run(request).await.expect("RAM does not fail");
    }
}

fn through(policy: Kind) -> Settings {
    Settings {
        policy,
        write: WriteMode::Through,
        durability: Durability::Flush,
        dirty_blocks_max: 0,
        absorb_blocks_max: 32,
        readahead: false,
        ..Settings::default()
    }
}

/// Reads of all classes: popular metadata and documents, media in order and at random.
fn blocks(seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut media = 0;
    let mut block = |number: u64| match number % 8 {
        0 => {
            media = (media + 1) % 1024;
            MEDIA + media
        }
        1 => MEDIA + random.below(1024),
        2 => FREE + random.below(1024),
        3..=5 => 3 * BLOCKS / 4 + random.below(300).min(random.below(300)),
        _ => random.below(200),
    };
    (0..6000).map(&mut block).collect()
}

#[test]
fn reads_miss_where_the_simulation_with_hints_does() {
    for policy in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
        for seed in 0..3 {
            let (hints, blocks) = (hints(), blocks(seed));
            let mut simulated = HintedSimulation::new(policy, SLOTS, 1, &hints);
            let misses = blocks.iter().filter(|block| !simulated.read(**block)).count() as u64;
            let mut volume = Volume::new(through(policy));
            volume.run(async move |cache| {
                cache.set_hints(Some(hints)).await;
                for block in blocks {
                    let _ = read(&cache, block).await;
                }
            });
            let counters = volume.shared.counters(0);
            assert_eq!(counters.block_misses, misses, "{policy:?}, seed {seed}");
            let report = volume.shared.hints(0).expect("they are set");
            let classes = report.classes.map(|class| class.accesses);
            assert_eq!(classes, simulated.classes(), "{policy:?}, seed {seed}");
            assert_eq!(report.are_followed, simulated.follows_hints());
            assert_eq!(report.extents, 4);
        }
    }
}

#[test]
fn without_a_map_there_is_no_report_and_a_removed_one_has_no_effect() {
    let mut volume = Volume::new(through(Kind::Adaptive));
    assert_eq!(volume.shared.hints(0), None);
    volume.run(async |cache| {
        cache.set_hints(Some(hints())).await;
        let _ = read(&cache, FREE).await;
        let _ = read(&cache, FREE).await;
        assert_eq!(cache.shared().counters(0).block_misses, 2, "free space is not admitted");
        cache.set_hints(None).await;
        let _ = read(&cache, FREE).await;
        let _ = read(&cache, FREE).await;
        assert_eq!(cache.shared().counters(0).block_misses, 3);
    });
    assert_eq!(volume.shared.hints(0), None);
}

#[test]
fn a_replaced_map_continues_the_figures_and_has_a_new_age() {
    let mut volume = Volume::new(through(Kind::Lru));
    let shared = volume.shared.clone();
    volume.run(async move |cache| {
        let age = || shared.hints(cache.lane().now()).expect("set").age_ns;
        cache.set_hints(Some(hints())).await;
        let _ = read(&cache, MEDIA).await;
        let before = age();
        assert!(before >= 20_000, "{before}");
        cache.set_hints(Some(hints())).await;
        assert!(age() < before);
        let _ = read(&cache, MEDIA).await;
        assert_eq!(cache.shared().counters(0).block_misses, 2);
        let _ = read(&cache, MEDIA).await;
        assert_eq!(cache.shared().counters(0).block_misses, 2, "the first access was remembered");
        let media = shared.hints(0).expect("set").classes[usize::from(class("big-media"))];
        assert_eq!((media.accesses.counts.misses, media.accesses.counts.skipped), (2, 1));
        assert_eq!(media.accesses.hits, 1);
    });
}

/// Returns the blocks that are held, sorted.
async fn held(cache: &Cache) -> Vec<HeldBlock> {
    let mut all = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        next = cache.list_held_blocks(from, &mut all).await;
    }
    all.sort_unstable_by_key(|held| held.block);
    all
}

#[test]
fn writes_of_metadata_are_noted_when_they_reach_the_backing() {
    let buffered = Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: 200,
        dirty_age_ns: 1 << 40,
        absorb_blocks_max: 32,
        ..Settings::default()
    };
    let through = Settings { write: WriteMode::Through, ..Settings::default() };
    let bypassed = Settings { write: WriteMode::None, ..Settings::default() };
    for settings in [buffered, through, bypassed] {
        let mut volume = Volume::new(settings);
        volume.run(async |cache| {
            let shared = cache.shared().clone();
            let is_noted_after_write = async |block: u64| {
                write(&cache, block, 7).await;
                cache.run(Request::Flush).await.expect("no errors");
                shared.map_writes().take()
            };
            assert!(!is_noted_after_write(5).await, "without hints");
            cache.set_hints(Some(hints())).await;
            for block in [FREE, MEDIA, MEDIA + 1] {
                assert!(!is_noted_after_write(block).await);
            }
            let seen = shared.map_writes().noted().seen();
            assert!(is_noted_after_write(5).await);
            assert_ne!(shared.map_writes().noted().seen(), seen);
            assert!(!shared.map_writes().take(), "taken already");
            // A run that begins with free space and ends with metadata counts, too.
            write(&cache, FREE, 8).await;
            assert!(is_noted_after_write(FREE - 1).await);
            cache.set_hints(None).await;
            assert!(!is_noted_after_write(5).await, "no hints any more");
        });
    }
}

#[test]
fn a_write_of_free_space_is_kept_until_it_is_durable_and_leaves_first() {
    let mut volume = Volume::new(Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: 200,
        dirty_age_ns: 1 << 40,
        absorb_blocks_max: 32,
        readahead: false,
        ..Settings::default()
    });
    volume.run(async |cache| {
        cache.set_hints(Some(hints())).await;
        // The cache is full of metadata: a block that enters evicts another.
        for block in 0..u64::from(SLOTS) {
            let _ = read(&cache, block).await;
        }
        for block in FREE..FREE + 64 {
            write(&cache, block, 7).await;
        }
        let dirty: Vec<u64> =
            held(&cache).await.iter().filter(|held| held.is_dirty).map(|held| held.block).collect();
        assert_eq!(dirty, (FREE..FREE + 64).collect::<Vec<_>>());
        for block in FREE..FREE + 64 {
            assert_eq!(read(&cache, block).await.to_vec(), [7; 8 * GRAIN as usize]);
        }
        cache.lane().turn().await;
        cache.run(Request::Flush).await.expect("RAM does not fail");
        assert!(held(&cache).await.iter().all(|held| !held.is_dirty));
        let before = cache.shared().counters(0).evictions;
        // They give their slots to others, and evict none of the policy's blocks.
        for block in 0..40 {
            let _ = read(&cache, 3 * BLOCKS / 4 + block).await;
        }
        assert_eq!(cache.shared().counters(0).evictions, before);
        let free = (FREE..FREE + 64).collect::<Vec<_>>();
        let still = held(&cache).await.iter().filter(|held| free.contains(&held.block)).count();
        assert!(still <= 64 - 40 + 8, "{still}");
        // Nothing was discarded.
        for block in free {
            assert_eq!(read(&cache, block).await.to_vec(), [7; 8 * GRAIN as usize]);
        }
    });
}

/// Returns the misses of the hot set after a film was read in order, and the blocks of the film
/// that were read ahead.
fn after_a_film(hints: Option<Arc<Hints>>) -> (u64, u64) {
    let mut volume = Volume::new(Settings { readahead: true, readers: 1, ..through(Kind::Lru) });
    volume.run(async |cache| {
        cache.set_hints(hints).await;
        let hot = || (0..200).map(|block| block * 5 % 1024);
        for block in hot() {
            let _ = read(&cache, block).await;
        }
        for block in MEDIA..MEDIA + 1024 {
            let _ = read(&cache, block).await;
        }
        let before = cache.shared().counters(0);
        for block in hot() {
            let _ = read(&cache, block).await;
        }
        let misses = cache.shared().counters(0).block_misses - before.block_misses;
        (misses, before.readahead_used)
    })
}

#[test]
fn a_film_is_read_ahead_and_evicts_nothing() {
    let (misses, ahead) = after_a_film(None);
    assert!(misses > 150 && ahead > 700, "{misses} misses, {ahead} read ahead");
    let (misses, with_hints) = after_a_film(Some(hints()));
    assert!(misses < 20, "{misses} misses");
    assert!(with_hints >= ahead * 9 / 10, "{with_hints} read ahead, {ahead} without hints");
}

#[test]
fn the_blocks_that_are_held_are_those_that_hit() {
    let mut volume = Volume::new(through(Kind::Adaptive));
    let blocks = blocks(9);
    let found = Rc::new(Cell::new(0));
    let count = found.clone();
    volume.run(async move |cache| {
        for block in blocks {
            let _ = read(&cache, block).await;
        }
        let held = held(&cache).await;
        count.set(held.len());
        let before = cache.shared().counters(0).block_misses;
        for one in held {
            assert!(!one.is_dirty);
            let _ = read(&cache, one.block).await;
        }
        assert_eq!(cache.shared().counters(0).block_misses, before);
    });
    assert_eq!(found.get(), SLOTS as usize);
}
