//! How many runs the crew has under way beside others, and what it leaves alone, in virtual time: the
//! backing takes a millisecond for whatever it is asked, as many at a time as one likes.

use block::{
    Block, Buf, Durability, Error, Extent, Kind, Limits, Memory, Ram, Request, Result, Stack,
    WriteMode,
};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 16_384;
const MS: u64 = 1_000_000;
/// How long a request of [`Parallel`] takes.
const SERVICE_NS: u64 = MS;

/// What the backing sees and does.
#[derive(Default)]
struct State {
    /// Writes that are under way, all that have been, and the most at a time since somebody looked.
    writes: Cell<u32>,
    writes_sent: Cell<u32>,
    writes_most: Cell<u32>,
    flushes: Cell<u32>,
    /// What is of this kind is never answered ...
    hangs: Cell<Option<fn(&Request) -> bool>>,
    /// ... and this fails.
    fails: Cell<Option<fn(&Request) -> bool>>,
}

struct Parallel {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    state: Rc<State>,
}

impl Block for Parallel {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let State { writes, writes_sent, writes_most, flushes, hangs, fails } = &*self.state;
        if hangs.get().is_some_and(|hangs| hangs(&request)) {
            std::future::pending::<()>().await;
        }
        let counts = is_write(&request);
        if counts {
            writes.set(writes.get() + 1);
            writes_sent.set(writes_sent.get() + 1);
            writes_most.set(writes_most.get().max(writes.get()));
        }
        flushes.set(flushes.get() + u32::from(matches!(request, Request::Flush)));
        self.lane.sleep_until(self.lane.now() + SERVICE_NS).await;
        writes.set(writes.get() - u32::from(counts));
        if fails.get().is_some_and(|fails| fails(&request)) {
            return Err(Error::new(Kind::Io, "test"));
        }
        self.ram.run(request).await
    }
}

struct Scene {
    world: World,
    lane: Lane,
    shared: Arc<Shared>,
    cache: Cache,
    stack: Stack,
    state: Rc<State>,
}

fn settings() -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: 8192,
        dirty_age_ns: 2000 * MS,
        flush_target_ns: 0,
        retry_time_ns: 100 * MS,
        stall_time_ns: 0,
        crew: 16,
        absorb_blocks_max: 32,
        fill_cost_ns: 0,
    }
}

fn scene(settings: Settings) -> Scene {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let geometry = Geometry {
        slots: 16_384,
        shards: 1,
        region_blocks: 64,
        extents: 4,
        fills: 8,
        run_blocks: 8,
    };
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(&limits, geometry, settings, 7, memory).expect("a fresh arena");
    let state = Rc::new(State::default());
    let backing = Parallel { ram, lane: lane.clone(), limits, state: state.clone() };
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, backing));
    let stack = Stack::new(&lane, cache.clone());
    Scene { world, lane, shared, cache, stack, state }
}

fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. })
}

fn write(block: u64, fua: bool) -> Request {
    Request::Write { at: Extent::new(block * 8, 8), from: Buf::new(8, GRAIN), fua }
}

impl Scene {
    fn begin(&self, request: Request) -> Rc<RefCell<Option<Result>>> {
        let answer = Rc::new(RefCell::new(None));
        let (stack, into) = (self.stack.clone(), answer.clone());
        let task = async move { *into.borrow_mut() = Some(stack.run(request).await) };
        self.lane.spawn(task).expect("a lane has room");
        answer
    }

    fn ask(&mut self, request: Request) -> Result {
        let answer = self.begin(request);
        assert!(self.world.run_until(|| answer.borrow().is_some()), "no answer");
        answer.take().expect("it is there")
    }

    /// Lets so much virtual time pass.
    fn pass_ns(&mut self, ns: u64) {
        let over = Rc::new(Cell::new(false));
        let (lane, end) = (self.lane.clone(), over.clone());
        let until = lane.now() + ns;
        let task = async move {
            lane.sleep_until(until).await;
            end.set(true);
        };
        self.lane.spawn(task).expect("a lane has room");
        assert!(self.world.run_until(|| over.get()));
    }

    /// Makes so many blocks dirty, of which no two can be one run.
    fn fill(&mut self, blocks: u64) {
        for block in 0..blocks {
            assert_eq!(self.ask(write(2 * block, false)), Ok(()));
        }
    }

    /// The most writes that were under way at a time, since this was asked before.
    fn most(&self) -> u32 {
        self.state.writes_most.replace(self.state.writes.get())
    }

    fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }

    /// Somebody reads what is not in memory, and gets no answer.
    fn keep_reading(&mut self) {
        self.state.hangs.set(Some(|request| matches!(request, Request::Read { .. })));
        let at = Extent::new((BLOCKS - 1) * 8, 8);
        self.begin(Request::Read { at, into: Buf::new(8, GRAIN) });
        self.pass_ns(1000);
    }

    /// Somebody's write goes past the cache, and gets no answer.
    fn keep_passing(&mut self) {
        fn is_last(request: &Request) -> bool {
            let at = request.extent().map(|at| at.first);
            request.is_change() && at == Some((BLOCKS - 1) * 8)
        }
        self.state.hangs.set(Some(is_last));
        self.begin(write(BLOCKS - 1, true));
        self.pass_ns(1000);
    }
}

#[test]
fn the_crew_makes_way_for_readers_and_more_so_for_changes_that_pass() {
    let most = |before: fn(&mut Scene)| {
        let mut scene = scene(settings());
        before(&mut scene);
        scene.fill(100);
        // Half of `dirty_age` is over: all of it is written out, but not in haste.
        scene.most();
        scene.pass_ns(1100 * MS);
        assert!(scene.counters().runs_written > 50, "{}", scene.counters().runs_written);
        scene.most()
    };
    let alone = most(|_| ());
    let reading = most(Scene::keep_reading);
    assert!(reading > 1 && reading <= alone / 2, "{reading} beside a reader, {alone} alone");
    assert_eq!(most(Scene::keep_passing), 1, "beside a change that passes");
    let both = |scene: &mut Scene| {
        scene.keep_reading();
        scene.keep_passing();
    };
    assert_eq!(most(both), 1);
}

#[test]
fn whoever_waits_for_a_flush_is_kept_waiting_for_nobody() {
    for before in [Scene::keep_reading, Scene::keep_passing] {
        let mut scene = scene(settings());
        before(&mut scene);
        scene.fill(64);
        let flush = scene.begin(Request::Flush);
        scene.pass_ns(10 * MS);
        assert!(scene.most() >= 4, "{}", scene.most());
        scene.pass_ns(20 * MS);
        assert_eq!(flush.take(), Some(Ok(())));
    }
}

#[test]
fn what_becomes_too_old_is_written_out_whoever_else_waits() {
    let mut scene = scene(settings());
    scene.keep_passing();
    scene.fill(2000);
    scene.pass_ns(1400 * MS);
    assert_eq!(scene.most(), 1, "half of its age is over");
    let written = scene.counters().runs_written;
    assert!(written > 0);
    scene.pass_ns(200 * MS);
    assert!(scene.most() >= 4, "three quarters are");
}

#[test]
fn a_buffer_that_fills_up_is_emptied_whoever_reads() {
    let mut scene = scene(Settings { dirty_blocks_max: 128, ..settings() });
    scene.keep_reading();
    // Half of it is for the open epoch; from three eighths of all on the crew writes early.
    for block in 0..64 {
        scene.begin(write(2 * block, false));
    }
    scene.pass_ns(2 * MS);
    assert!(scene.most() >= 4);
}

#[test]
fn flushes_of_a_volume_on_which_nothing_happens_cost_nothing() {
    let settings = Settings { durability: Durability::Ordered, ..settings() };
    let mut scene = scene(settings);
    scene.fill(3);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.pass_ns(100 * MS);
    let (before, flushes) = (scene.counters(), scene.state.flushes.get());
    assert_eq!((scene.shared.dirty_blocks(), before.epochs_closed), (0, 0));
    for _ in 0..5 {
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        scene.pass_ns(100 * MS);
    }
    let after = scene.counters();
    assert_eq!((after.epochs, scene.state.flushes.get()), (before.epochs, flushes));
    assert_eq!(after.flushes, before.flushes + 5);
    // What has only passed is something.
    assert_eq!(scene.ask(write(9, true)), Ok(()));
    scene.pass_ns(100 * MS);
    assert!(scene.counters().epochs > after.epochs);
}

#[test]
fn errors_of_the_backing_are_counted_by_their_kind() {
    let mut scene = scene(settings());
    let kinds: [fn(&Request) -> bool; 2] = [is_write, |it| matches!(it, Request::Flush)];
    for (kind, fails) in kinds.into_iter().enumerate() {
        let before = scene.counters();
        scene.fill(2);
        scene.state.fails.set(Some(fails));
        let flush = scene.begin(Request::Flush);
        scene.pass_ns(20 * MS);
        scene.state.fails.set(None);
        scene.pass_ns(60 * MS);
        assert_eq!(flush.take(), Some(Ok(())), "within `retry_time`");
        let after = scene.counters();
        let new =
            [after.errors_write - before.errors_write, after.errors_flush - before.errors_flush];
        assert!(new[kind] > 0 && new[1 - kind] == 0, "{new:?}");
        assert_eq!(after.errors_read, 0);
    }
}

#[test]
fn a_backing_that_fails_is_asked_again_and_again_but_ever_less_often() {
    let mut scene = scene(Settings { retry_time_ns: 20_000 * MS, crew: 1, ..settings() });
    scene.fill(1);
    for fails in [is_write as fn(&Request) -> bool, |it| matches!(it, Request::Flush)] {
        scene.state.fails.set(Some(fails));
        let before = (scene.state.writes_sent.get(), scene.state.flushes.get());
        let flush = scene.begin(Request::Flush);
        scene.pass_ns(1300 * MS);
        let early = scene.state.writes_sent.get() - before.0;
        assert!((6..=10).contains(&early), "{early}: pauses of 5, 10, 20, ... 640 ms");
        scene.pass_ns(10_000 * MS);
        let late = scene.state.writes_sent.get() - before.0 - early;
        assert!((18..=22).contains(&late), "{late}: one every half of a second");
        scene.state.fails.set(None);
        scene.pass_ns(600 * MS);
        assert_eq!(flush.take(), Some(Ok(())));
        scene.fill(1);
    }
}

#[test]
fn a_backing_that_takes_many_at_a_time_gets_as_many_as_there_are_members() {
    let mut scene = scene(settings());
    scene.fill(4000);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert!((12..=16).contains(&scene.most()), "{}", scene.most());
    let counters = scene.counters();
    assert!((12..=16).contains(&counters.drain_window), "{}", counters.drain_window);
    // Each takes a millisecond, up to sixteen at a time.
    let rate = counters.drain_blocks_per_second;
    assert!((8_000..=17_000).contains(&rate), "{rate}");
}

#[test]
fn what_fails_and_what_takes_several_writes_measures_nothing() {
    let unmeasured = |scene: &Scene| {
        let counters = scene.counters();
        assert_eq!((counters.drain_blocks_per_second, counters.drain_window), (0, 4));
    };
    let mut scene = scene(Settings { retry_time_ns: 20_000 * MS, ..settings() });
    for block in 0..1000 {
        for first in [0, 5] {
            let at = Extent::new(block * 16 + first, 1);
            let from = Buf::new(1, GRAIN);
            assert_eq!(scene.ask(Request::Write { at, from, fua: false }), Ok(()));
        }
    }
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.counters().runs_written, 1000);
    unmeasured(&scene);
    scene.fill(1000);
    scene.state.fails.set(Some(is_write));
    scene.begin(Request::Flush);
    scene.pass_ns(8_000 * MS);
    assert!(scene.counters().errors_write > 256, "{}", scene.counters().errors_write);
    unmeasured(&scene);
}

#[test]
fn the_flush_for_what_was_written_early_is_tried_again_ever_less_often_and_nothing_is_clean_before()
{
    let settings = Settings {
        dirty_blocks_max: 64,
        dirty_age_ns: 100_000 * MS,
        retry_time_ns: 20_000 * MS,
        crew: 1,
        ..settings()
    };
    let mut scene = scene(settings);
    // The first flush of a process may not fail.
    scene.fill(1);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    let before = (scene.counters().epochs, scene.state.flushes.get());
    scene.state.fails.set(Some(|request| matches!(request, Request::Flush)));
    scene.fill(30);
    scene.pass_ns(1300 * MS);
    let early = scene.state.flushes.get() - before.1;
    assert!((6..=10).contains(&early), "{early}: pauses of 5, 10, 20, ... 640 ms");
    scene.pass_ns(10_000 * MS);
    let late = scene.state.flushes.get() - before.1 - early;
    assert!((18..=22).contains(&late), "{late}: one every half of a second");
    assert!(scene.counters().blocks_early > 0);
    assert_eq!(scene.shared.dirty_blocks(), 30);
    scene.state.fails.set(None);
    scene.pass_ns(1000 * MS);
    let left = scene.shared.dirty_blocks();
    assert!((1..=16).contains(&left), "{left}: a quarter of what may be dirty stays");
    assert_eq!(scene.counters().epochs, before.0, "no epoch is closed by that");
}

#[test]
fn the_debt_is_what_writing_and_flushing_take() {
    // Written out by a flush, and early.
    for (dirty_blocks_max, blocks) in [(8192, 1000), (64, 30)] {
        let mut scene =
            scene(Settings { dirty_blocks_max, dirty_age_ns: 100_000 * MS, ..settings() });
        scene.pass_ns(5_000 * MS);
        scene.fill(blocks);
        if blocks == 1000 {
            assert_eq!(scene.ask(Request::Flush), Ok(()));
        }
        scene.pass_ns(100 * MS);
        assert!(scene.state.flushes.get() > 0);
        let left = u64::from(scene.shared.dirty_blocks());
        let predicted_ns = scene.counters().flush_predicted_ns;
        let write_ns = left * SERVICE_NS;
        assert!((SERVICE_NS..=2 * SERVICE_NS + write_ns).contains(&predicted_ns), "{predicted_ns}");
    }
}

#[test]
fn a_flush_after_which_nothing_was_written_sends_nothing() {
    let mut scene = scene(settings());
    scene.fill(3);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    let flushes = scene.state.flushes.get();
    assert!(flushes > 0);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.state.flushes.get(), flushes);
    assert_eq!(scene.ask(write(9, false)), Ok(()));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.state.flushes.get(), flushes + 1);
}

#[test]
fn much_more_than_one_section_does_is_written_out_tainted_and_discarded() {
    let mut scene = scene(settings());
    scene.fill(1);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    let fails_flushes = |request: &Request| matches!(request, Request::Flush);
    for blocks in [256, 257, 1000] {
        // All of it is written, and then again, because the flush after it failed.
        scene.state.fails.set(Some(fails_flushes));
        scene.fill(blocks);
        let before = scene.counters().blocks_written;
        let flush = scene.begin(Request::Flush);
        let state = scene.state.clone();
        let flushes = state.flushes.get();
        assert!(scene.world.run_until(|| state.flushes.get() > flushes));
        scene.pass_ns(2 * MS);
        scene.state.fails.set(None);
        assert!(scene.world.run_until(|| flush.borrow().is_some()));
        assert_eq!(flush.take(), Some(Ok(())));
        assert_eq!(scene.counters().blocks_written - before, 2 * blocks);
        assert_eq!(scene.shared.dirty_blocks(), 0);
        scene.shared.check();
    }
    for blocks in [256, 257, 1000] {
        scene.fill(blocks);
        scene.state.fails.set(Some(Request::is_change));
        assert!(scene.ask(Request::Flush).is_err());
        assert!(scene.shared.has_failed());
        let (cache, discarded) = (scene.cache.clone(), Rc::new(Cell::new(None)));
        let into = discarded.clone();
        let discard = async move { into.set(Some(cache.discard_dirty().await)) };
        scene.lane.spawn(discard).expect("a lane has room");
        assert!(scene.world.run_until(|| discarded.get().is_some()));
        assert_eq!(discarded.get(), Some(Ok(blocks)));
        assert_eq!(scene.shared.dirty_blocks(), 0);
        scene.state.fails.set(None);
    }
}
