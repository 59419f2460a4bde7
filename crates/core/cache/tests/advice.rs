//! Blocks that a client says it will need are fetched and cached, without harm to other requests.

use block::{
    Advice, Block, Buf, Durability, Error, Extent, Kind, Limits, Memory, Ram, Request, Result,
    Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 4096;

/// The requests that the backing has received.
#[derive(Default)]
struct Seen {
    /// The blocks of each read.
    reads: RefCell<Vec<(u64, u32)>>,
    /// Reads in flight, and their maximum number at a time.
    running: Cell<u32>,
    running_max: Cell<u32>,
    /// The number of the next reads that fail.
    fails: Cell<u32>,
}

/// RAM that takes 20 us for a request.
struct Slow {
    ram: Ram,
    lane: Lane,
    seen: Rc<Seen>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let Request::Read { at, .. } = &request else { return self.ram.run(request).await };
        let seen = &self.seen;
        seen.reads.borrow_mut().push((at.first / 8, at.count / 8));
        seen.running.set(seen.running.get() + 1);
        seen.running_max.set(seen.running_max.get().max(seen.running.get()));
        let fails = seen.fails.replace(seen.fails.get().saturating_sub(1)) > 0;
        self.lane.sleep_until(self.lane.now() + 20_000).await;
        seen.running.set(seen.running.get() - 1);
        if fails { Err(Error::new(Kind::Io, "test")) } else { self.ram.run(request).await }
    }
}

struct Scene {
    world: World,
    stack: Stack,
    seen: Rc<Seen>,
    shared: Arc<Shared>,
}

fn scene(write: WriteMode) -> Scene {
    let geometry = Geometry {
        slots: 1024,
        shards: 2,
        region_blocks: 64,
        extents: 4,
        fills: 64,
        run_blocks: 16,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    };
    let settings = Settings {
        write,
        durability: Durability::Flush,
        dirty_blocks_max: 64,
        dirty_age_ns: 10_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 1_000_000,
        stall_time_ns: 0,
        workers: 2,
        absorb_blocks_max: 8,
        fill_cost_ns: 0,
        ..Settings::default()
    };
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(ram.limits(), geometry, settings, 7, memory).expect("a fresh arena");
    let seen = Rc::new(Seen::default());
    let below = Stack::new(&lane, Slow { ram, lane: lane.clone(), seen: seen.clone() });
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
    Scene { world, stack, seen, shared }
}

fn advise(first: u64, blocks: u32) -> Request {
    Request::Advise { at: Extent::new(first * 8, blocks * 8), advice: Advice::WillNeed }
}

fn read(first: u64, blocks: u32) -> Request {
    Request::Read { at: Extent::new(first * 8, blocks * 8), into: Buf::new(blocks * 8, GRAIN) }
}

impl Scene {
    /// Returns the answers to requests that are sent together.
    fn ask(&mut self, requests: Vec<Request>) -> Vec<Result> {
        let answers = Rc::new(RefCell::new(vec![None; requests.len()]));
        for (number, request) in requests.into_iter().enumerate() {
            let (stack, answers) = (self.stack.clone(), answers.clone());
            let task = async move {
                let answer = stack.run(request).await;
                answers.borrow_mut()[number] = Some(answer);
            };
            self.stack.lane().spawn(task).expect("a lane has room");
        }
        assert!(self.world.run_until(|| answers.borrow().iter().all(Option::is_some)), "no answer");
        answers.take().into_iter().map(|answer| answer.expect("all are there")).collect()
    }

    /// Returns the reads of the backing since the last call.
    fn reads(&self) -> Vec<(u64, u32)> {
        self.seen.reads.take()
    }
}

#[test]
fn what_will_be_needed_is_fetched_once_and_kept() {
    let mut scene = scene(WriteMode::Through);
    // Over the border of a region, and larger than a read that is admitted.
    assert_eq!(scene.ask(vec![advise(50, 30)]), [Ok(())]);
    assert_eq!(scene.reads(), [(50, 8), (58, 6), (64, 8), (72, 8)]);
    for block in 50..80 {
        assert_eq!(scene.stack.try_now(&read(block, 1)), Some(Ok(())), "block {block}");
    }
    assert_eq!(scene.ask(vec![advise(50, 30)]), [Ok(())]);
    assert_eq!(scene.reads(), [], "nothing is missing");
}

#[test]
fn only_what_is_missing_is_fetched() {
    let mut scene = scene(WriteMode::Through);
    assert_eq!(scene.ask(vec![read(8, 2), read(15, 1)]), [Ok(()), Ok(())]);
    scene.reads();
    assert_eq!(scene.ask(vec![advise(8, 8)]), [Ok(())]);
    assert_eq!(scene.reads(), [(10, 5)]);
}

#[test]
fn a_lane_follows_little_advice_at_a_time_and_all_of_it_in_the_end() {
    let mut scene = scene(WriteMode::Through);
    let all = (0..20).map(|number| advise(number * 32, 16)).collect();
    assert_eq!(scene.ask(all), vec![Ok(()); 20]);
    assert_eq!(scene.seen.running_max.get(), 4);
    assert_eq!(scene.reads().iter().map(|read| read.1).sum::<u32>(), 20 * 16);
}

#[test]
fn its_error_is_reported_to_the_adviser_alone() {
    let mut scene = scene(WriteMode::Through);
    scene.seen.fails.set(1);
    let answers = scene.ask(vec![advise(3, 2), read(3, 2)]);
    assert_eq!(answers[0].map_err(|error| error.kind), Err(Kind::Io));
    assert_eq!(answers[1], Ok(()), "it had joined, and looked again");
    assert_eq!(scene.reads(), [(3, 2), (3, 2)]);
}

#[test]
fn without_copies_there_is_nothing_to_fetch() {
    let mut scene = scene(WriteMode::None);
    assert_eq!(scene.ask(vec![advise(0, 64)]), [Ok(())]);
    assert_eq!(scene.reads(), []);
}

#[test]
fn what_is_sure_to_be_read_is_kept_where_other_reads_are_not() {
    let mut scene = scene(WriteMode::Through);
    scene.shared.force_bypass(true, false, 0);
    assert_eq!(scene.ask(vec![read(0, 8), advise(16, 8)]), [Ok(()), Ok(())]);
    assert_eq!(scene.stack.try_now(&read(0, 1)), None, "it was not kept");
    assert_eq!(scene.stack.try_now(&read(16, 1)), Some(Ok(())));
    // Where a hit saves nothing, advice is not followed either.
    scene.shared.force_bypass(true, true, 0);
    scene.reads();
    assert_eq!(scene.ask(vec![advise(32, 8)]), [Ok(())]);
    assert_eq!(scene.reads(), []);
}
