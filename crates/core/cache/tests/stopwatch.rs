//! The times that the engine measures with a clock that advances within a step: copies, and a
//! backing that answers immediately.

use block::{Block, Buf, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Pressure, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 512;
const BLOCKS: u64 = 1 << 14;

thread_local! {
    /// The clock.
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    /// The advance of the clock with each read.
    static LOOK_NS: Cell<u64> = const { Cell::new(0) };
}

fn look() -> u64 {
    NOW_NS.set(NOW_NS.get() + LOOK_NS.get());
    NOW_NS.get()
}

/// RAM that answers immediately, unless that is switched off, and takes a while for it.
struct Prompt {
    ram: Ram,
    is_prompt: Rc<Cell<bool>>,
    takes_ns: Rc<Cell<u64>>,
}

impl Block for Prompt {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        if !self.is_prompt.get() {
            return None;
        }
        NOW_NS.set(NOW_NS.get() + self.takes_ns.get());
        self.ram.try_now(request)
    }

    async fn run(&self, request: Request) -> Result {
        self.ram.run(request).await
    }
}

struct Scene {
    world: World,
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
    is_prompt: Rc<Cell<bool>>,
    takes_ns: Rc<Cell<u64>>,
}

fn scene() -> Scene {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    NOW_NS.set(1);
    LOOK_NS.set(0);
    lane.set_stopwatch(look);
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let geometry = Geometry { slots: 4096, shards: 1, run_blocks: 128, ..Geometry::SMALLEST };
    let settings = Settings {
        write: WriteMode::BackNow,
        readahead: false,
        fill_cost_ns: 400,
        ..Settings::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(ram.limits(), geometry, settings, 7, memory).expect("a fresh arena");
    let (is_prompt, takes_ns) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
    let prompt = Prompt { ram, is_prompt: is_prompt.clone(), takes_ns: takes_ns.clone() };
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, Stack::new(&lane, prompt)));
    Scene { world, lane, stack, shared, is_prompt, takes_ns }
}

fn read(first: u64, blocks: u32) -> Request {
    Request::Read { at: Extent::new(first * 8, blocks * 8), into: Buf::new(blocks * 8, GRAIN) }
}

impl Scene {
    fn run(&mut self, request: Request) {
        let (stack, done) = (self.stack.clone(), Rc::new(Cell::new(false)));
        let ended = done.clone();
        let client = async move {
            stack.run(request).await.expect("RAM does not fail");
            ended.set(true);
        };
        self.lane.spawn(client).expect("a lane has room");
        assert!(self.world.run_until(|| done.get()), "no answer");
    }
}

#[test]
fn a_backing_that_answers_at_once_again_is_asked_at_once_again() {
    let mut scene = scene();
    scene.shared.force_bypass(true, true, 0);
    let answers = |scene: &Scene, block| scene.stack.try_now(&read(block, 1)).is_some();
    assert!((0..10).all(|block| answers(&scene, block)));
    scene.is_prompt.set(false);
    assert!((10..20).all(|block| !answers(&scene, block)));
    scene.run(read(10, 1));
    assert!((20..30).all(|block| !answers(&scene, block)));
    scene.is_prompt.set(true);
    scene.run(read(20, 1));
    assert!((30..40).all(|block| answers(&scene, block)));
}

#[test]
fn a_backing_that_answers_at_once_and_becomes_slow_is_kept_again() {
    let mut scene = scene();
    let (mut block, mut number) = (0, 0);
    let mut is_out_after = |windows: u64, takes_ns: u64| {
        scene.takes_ns.set(takes_ns);
        for _ in 0..windows {
            for _ in 0..200 {
                block = (block + 7919) % BLOCKS;
                if scene.stack.try_now(&read(block, 1)).is_none() {
                    scene.run(read(block, 1));
                }
            }
            number += 1;
            scene.shared.guard(number * 50_000_000, Pressure { waited: 0, wanted: 500 });
        }
        scene.shared.guard_state(0).bypass.reads.is_some()
    };
    assert!(is_out_after(40, 100), "what is as fast as memory is not kept");
    assert!(!is_out_after(40, 1_000_000), "and what has become slow is");
}

#[test]
fn long_fetches_measure_what_keeping_takes_too() {
    let mut scene = scene();
    LOOK_NS.set(3000);
    for number in 0..64 {
        scene.run(read(number * 128, 100));
    }
    let counters = scene.shared.counters(0);
    assert!(counters.blocks_filled > 1000 && counters.keep_ns > 0, "{counters:?}");
}
