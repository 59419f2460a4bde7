//! Writers that wait for their turn: what they wait for, and what they must not wait for. In virtual time, on
//! a backing that answers when the test says so.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCK: u64 = 8;
const BLOCKS: u64 = 4096;
const REGION: u64 = 64;

/// How long the backing takes, in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    write: u64,
    zero: u64,
    flush: u64,
}

#[derive(Clone)]
struct Backing {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    times: Times,
}

impl Block for Backing {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let times = self.times;
        let takes_ns = match request {
            Request::Read { .. } => 10_000,
            Request::Write { .. } => times.write,
            Request::Zero { .. } | Request::Discard { .. } => times.zero,
            Request::Flush => times.flush,
        };
        self.lane.sleep_until(self.lane.now() + takes_ns).await;
        self.ram.run(request).await
    }
}

struct Scene {
    world: World,
    lane: Lane,
    shared: Arc<Shared>,
    stack: Stack,
    /// When each write was sent and answered.
    answers: Rc<RefCell<Vec<(u64, u64)>>>,
}

fn settings() -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: 1024,
        dirty_age_ns: 1_000_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 1_000_000_000,
        stall_time_ns: 0,
        crew: 16,
        absorb_blocks_max: 32,
        fill_cost_ns: 0,
    }
}

fn scene(settings: Settings, times: Times) -> Scene {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let geometry = Geometry {
        slots: 2048,
        shards: 2,
        region_blocks: REGION as u32,
        extents: 4,
        fills: 8,
        run_blocks: 8,
    };
    let ram = Ram::new(BLOCKS * BLOCK, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let backing = Backing { ram, lane: lane.clone(), limits, times };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(&backing.limits, geometry, settings, 7, memory).expect("fresh");
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, backing));
    let stack = Stack::new(&lane, cache);
    Scene { world, lane, shared, stack, answers: Rc::default() }
}

impl Scene {
    fn counters(&self) -> Counters {
        self.shared.counters(self.world.now())
    }

    fn run_for(&mut self, ns: u64) {
        let until = self.world.now() + ns;
        let (lane, reached) = (self.lane.clone(), Rc::new(Cell::new(false)));
        let there = reached.clone();
        let clock = async move {
            lane.sleep_until(until).await;
            there.set(true);
        };
        self.lane.spawn(clock).expect("room for a task");
        self.world.run_until(|| reached.get());
    }

    fn send(&self, request: Request) {
        let (stack, lane, answers) = (self.stack.clone(), self.lane.clone(), self.answers.clone());
        let task = async move {
            let sent = lane.now();
            stack.run(request).await.expect("the backing is well");
            answers.borrow_mut().push((sent, lane.now()));
        };
        self.lane.spawn(task).expect("room for a task");
    }

    /// Writes these blocks, one a request, all at once.
    fn write(&self, blocks: impl IntoIterator<Item = u64>) {
        for block in blocks {
            let at = Extent::new(block * BLOCK, BLOCK as u32);
            self.send(Request::Write { at, from: Buf::new(BLOCK as u32, GRAIN), fua: false });
        }
    }

    /// The blocks of one shard.
    fn blocks_of(&self, shard: usize) -> Vec<u64> {
        (0..BLOCKS).filter(|&block| self.shared.shard_of(block) == shard).collect()
    }

    fn longest_wait_ns(&self) -> u64 {
        self.answers.borrow().iter().map(|(sent, answered)| answered - sent).max().unwrap_or(0)
    }
}

#[test]
fn what_is_under_way_early_still_waits_to_be_written_out() {
    // 12 800 blocks a second, as is assumed: 128 of them in ten milliseconds.
    let settings = Settings { flush_target_ns: 10_000_000, ..settings() };
    let hour = 3_600_000_000_000;
    let mut scene = scene(settings, Times { write: hour, zero: hour, flush: hour });
    let blocks: Vec<u64> = (0..BLOCKS).collect();
    for some in blocks.chunks(16).take(40) {
        scene.write(some.iter().copied());
        scene.run_for(100_000_000);
    }
    let counters = scene.counters();
    assert_eq!(counters.allowance_blocks, 128);
    assert!(counters.changes > 128 && counters.blocks_written == 0);
    // Nothing has been written out, so all that is dirty is what a flush would have to wait for.
    assert!(counters.blocks_dirty <= 128, "{} blocks are dirty", counters.blocks_dirty);
}

#[test]
fn nobody_waits_for_a_range_of_zeros_that_is_under_way_alone() {
    let second = 1_000_000_000;
    let mut scene = scene(settings(), Times { write: 100_000, zero: second, flush: 100_000 });
    let (zeros, mine) = (scene.blocks_of(0), scene.blocks_of(1));
    let at = Extent::new(zeros[0] * BLOCK, (REGION * BLOCK) as u32);
    scene.send(Request::Zero { at, fua: false, may_unmap: true });
    scene.write(mine[..64].iter().copied());
    scene.run_for(50_000_000);
    scene.answers.borrow_mut().clear();
    // The write-out of both begins; the blocks are there soon, the zeros are not.
    let stack = scene.stack.clone();
    scene.lane.spawn(async move { stack.run(Request::Flush).await.expect("well") }).expect("room");
    scene.run_for(50_000_000);
    let counters = scene.counters();
    assert_eq!((counters.blocks_written, counters.zeroes_written), (64, 0));
    for some in mine[64..600].chunks(4) {
        scene.write(some.iter().copied());
        scene.run_for(500_000);
    }
    scene.run_for(100_000_000);
    assert_eq!(scene.counters().zeroes_written, 0, "they are still under way");
    assert!(scene.counters().changes_slowed > 0);
    assert_eq!(scene.answers.borrow().len(), 536, "somebody waits for the zeros");
}

#[test]
fn in_order_nobody_waits_much_longer_than_for_the_backing_s_flushes() {
    let flush = 10_000_000;
    let settings = Settings { durability: Durability::Ordered, ..settings() };
    let mut scene = scene(settings, Times { write: 50_000, zero: 50_000, flush });
    let stack = scene.stack.clone();
    let client = async move { stack.run(Request::Flush).await.expect("well") };
    // The first epochs show how long a flush takes.
    scene.write(0..8);
    scene.run_for(1_000_000);
    scene.lane.spawn(client).expect("room");
    scene.run_for(100_000_000);
    // One small epoch is closed, and the open one fills up behind it.
    scene.write(8..9);
    scene.run_for(10_000);
    let stack = scene.stack.clone();
    let client = async move { stack.run(Request::Flush).await.expect("well") };
    scene.lane.spawn(client).expect("room");
    scene.run_for(200_000);
    scene.answers.borrow_mut().clear();
    scene.write(100..540);
    scene.run_for(2_000_000_000);
    assert!(scene.counters().changes_slowed > 0);
    assert_eq!(scene.answers.borrow().len(), 440);
    let longest = scene.longest_wait_ns();
    assert!(longest < 5 * flush, "{longest} ns, {flush} for a flush");
}
