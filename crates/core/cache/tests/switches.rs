//! Switches under load, in virtual time: the guard begins and ends the bypass 1,000 times per
//! second, and an operator changes settings, while a client verifies every byte.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Changes, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const SECTORS: u64 = 512 * 8;
const GRAIN: u32 = 16;
const SECOND_NS: u64 = 1_000_000_000;

/// RAM with a latency of 20 to 80 us.
struct Slow {
    ram: Ram,
    lane: Lane,
    random: RefCell<Random>,
    limits: Limits,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let delay = 10_000 + self.random.borrow_mut().below(30_000);
        self.lane.sleep_until(self.lane.now() + delay).await;
        let result = self.ram.run(request).await;
        self.lane.sleep_until(self.lane.now() + delay).await;
        result
    }
}

/// A volume in a separate world.
struct Scene {
    world: World,
    lane: Lane,
    ram: Ram,
    cache: Cache,
    model: Rc<RefCell<Vec<u8>>>,
    over: Rc<Cell<bool>>,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let ram = Ram::new(SECTORS, GRAIN);
        let geometry = Geometry { slots: 128, region_blocks: 64, ..Geometry::default() };
        let settings = Settings {
            write: WriteMode::BackNow,
            durability: Durability::Flush,
            dirty_blocks_max: 48,
            dirty_age_ns: 20_000_000,
            flush_target_ns: 0,
            retry_time_ns: SECOND_NS,
            workers: 4,
            absorb_blocks_max: 16,
            ..Settings::default()
        };
        let limits = Limits { flush_needed: true, ..ram.limits().clone() };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let shared = Shared::new(&limits, geometry, settings, 7, memory).expect("a fresh arena");
        let slow = Slow {
            ram: ram.clone(),
            lane: lane.clone(),
            random: RefCell::new(Random::new(seed)),
            limits,
        };
        let cache = Cache::attach(&shared, &lane, Stack::new(&lane, slow));
        let model = Rc::new(RefCell::new(vec![0; SECTORS as usize * GRAIN as usize]));
        Scene { world, lane, ram, cache, model, over: Rc::default() }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.lane.spawn(task).expect("a slot is free");
    }

    /// Runs to the end; then the backing has exactly the written data.
    fn play(mut self) -> cache::Counters {
        let over = self.over.clone();
        assert!(self.world.run_until(|| over.get()), "the client hangs");
        self.cache.shared().check();
        let all = Buf::new(SECTORS as u32, GRAIN);
        let read = Request::Read { at: Extent::new(0, SECTORS as u32), into: all.clone() };
        assert_eq!(self.ram.try_now(&read), Some(Ok(())));
        assert!(all.to_vec() == *self.model.borrow(), "the drained volume differs");
        self.cache.shared().counters(self.world.now())
    }
}

/// Reads and writes, and compares, until `until_ns`; then drains.
async fn client(cache: Cache, mut random: Random, until_ns: u64, model: Rc<RefCell<Vec<u8>>>) {
    let lane = cache.lane();
    let stack = Stack::new(&lane, cache.clone());
    let grain = GRAIN as usize;
    let mut requests = 0u64;
    while lane.now() < until_ns {
        lane.turn().await;
        requests += 1;
        let count = 1 + random.below(24) as u32;
        // Half of it is hot: dirty blocks are overlapped repeatedly.
        let reach = if random.one_in(2) { SECTORS / 16 } else { SECTORS };
        let first = random.below(reach - u64::from(count));
        let at = Extent::new(first, count);
        let span = first as usize * grain..at.end() as usize * grain;
        if random.one_in(2) {
            let into = Buf::new(count, GRAIN);
            serve(&stack, Request::Read { at, into: into.clone() }).await;
            assert!(into.to_vec() == model.borrow()[span], "request {requests}, read {at:?}");
            continue;
        }
        let bytes: Vec<u8> = (0..count as usize * grain).map(|_| random.next_u64() as u8).collect();
        let from = Buf::new(count, GRAIN);
        from.write(&bytes);
        serve(&stack, Request::Write { at, from, fua: random.one_in(16) }).await;
        model.borrow_mut()[span].copy_from_slice(&bytes);
        if random.one_in(20) {
            serve(&stack, Request::Flush).await;
        }
    }
    assert!(requests > 1_000, "only {requests} requests: this proves nothing");
    cache.drain().await.expect("RAM does not fail");
}

async fn serve(stack: &Stack, request: Request) {
    if stack.try_now(&request).is_none() {
        stack.lane().turn().await;
        stack.run(request).await.expect("RAM does not fail");
    }
}

#[test]
fn a_guard_that_switches_1000_times_a_second_breaks_nothing() {
    for seed in 0..4 {
        let scene = Scene::new(seed);
        let mut random = Random::new(seed);
        let (cache, model, over) = (scene.cache.clone(), scene.model.clone(), scene.over.clone());
        let task = client(cache, random.fork(), SECOND_NS, model);
        let finished = over.clone();
        scene.spawn(async move {
            task.await;
            finished.set(true);
        });
        let (cache, switches) = (scene.cache.clone(), Rc::new(Cell::new(0)));
        let counted = switches.clone();
        scene.spawn(async move {
            let lane = cache.lane();
            while !over.get() {
                let (reads, writes) = (random.one_in(2), random.one_in(2));
                cache.shared().force_bypass(reads, writes, lane.now());
                counted.set(counted.get() + 1);
                lane.sleep_until(lane.now() + 1_000_000).await;
            }
        });
        let counters = scene.play();
        assert!(switches.get() >= 1_000, "{} switches", switches.get());
        assert!(counters.writes_through_guard > 100 && counters.bypass_guard > 100, "{counters:?}");
        assert!(counters.blocks_absorbed > 100 && counters.blocks_filled > 100, "{counters:?}");
    }
}

#[test]
fn settings_change_under_load_and_are_in_force_when_that_is_answered() {
    for seed in 0..4 {
        let scene = Scene::new(seed);
        let mut random = Random::new(seed);
        let (cache, model, over) = (scene.cache.clone(), scene.model.clone(), scene.over.clone());
        let task = client(cache, random.fork(), SECOND_NS / 2, model);
        let finished = over.clone();
        scene.spawn(async move {
            task.await;
            finished.set(true);
        });
        let cache = scene.cache.clone();
        scene.spawn(async move {
            let lane = cache.lane();
            while !over.get() {
                change(&cache, &mut random).await;
                lane.sleep_until(lane.now() + random.below(10_000_000)).await;
            }
        });
        scene.play();
    }
}

async fn change(cache: &Cache, random: &mut Random) {
    let durabilities = [Durability::Flush, Durability::Ordered, Durability::Scratch];
    let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::Through, WriteMode::None];
    let durability = durabilities[random.below(3) as usize];
    let write = modes[random.below(4) as usize];
    let blocks = 8 + random.below(60) as u32;
    let changes = Changes {
        durability: Some(durability),
        write: Some(write),
        dirty_blocks_max: Some(blocks),
        ..Changes::default()
    };
    cache.set(&changes).await.expect("RAM does not fail");
    let shared = cache.shared();
    let settings = shared.settings();
    assert_eq!((settings.durability, settings.write), (durability, write));
    assert_eq!(settings.dirty_blocks_max, blocks);
    assert!(shared.dirty_blocks() <= blocks, "{} dirty", shared.dirty_blocks());
}

#[test]
fn no_order_is_promised_while_clients_are_to_learn_of_a_loss() {
    let scene = Scene::new(1);
    scene.cache.shared().begin_doubt();
    let (cache, over) = (scene.cache.clone(), scene.over.clone());
    scene.spawn(async move {
        let before = cache.shared().settings();
        let durability =
            |durability| Changes { durability: Some(durability), ..Changes::default() };
        let ordered = Changes { dirty_blocks_max: Some(7), ..durability(Durability::Ordered) };
        assert!(cache.set(&ordered).await.is_err());
        assert_eq!(cache.shared().settings(), before);
        for other in [Durability::Scratch, Durability::Flush] {
            cache.set(&durability(other)).await.expect("it promises no order");
        }
        over.set(true);
    });
    scene.play();
}
