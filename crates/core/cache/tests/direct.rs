//! Writes that bypass the whole cache: when they do, and what they leave for flushes and counters.

use block::{
    Block, Buf, Discard, Durability, Error, Extent, Kind, Limits, Memory, Ram, Request, Result,
    Stack, WriteMode,
};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const SECTORS: u64 = 64 * 8;
const WAIT_NS: u64 = 20_000;

/// The behaviour of the backing, and the requests that it has received.
#[derive(Default)]
struct Seen {
    /// Writes wait, too.
    is_slow: Cell<bool>,
    fails_writes: Cell<bool>,
    /// The number of flushes that fail from now on.
    failing_flushes: Cell<u32>,
    flushes: Cell<u32>,
    /// Requests that wait.
    under_way: Cell<u32>,
    /// The cache's memory, of which each immediate write leaves a copy ...
    memory: RefCell<Option<Arc<Memory>>>,
    /// ... as a kill would leave it between the write and its answer.
    killed: RefCell<Option<Arc<Memory>>>,
}

fn copy_of(memory: &Memory) -> Arc<Memory> {
    let mut bytes = vec![0; memory.bytes()];
    memory.read(0, &mut bytes);
    let copy = Arc::new(Memory::heap(bytes.len()));
    copy.write(0, &bytes);
    copy
}

/// RAM that answers writes immediately, and takes [`WAIT_NS`] for everything else.
struct Backing {
    ram: Ram,
    limits: Limits,
    lane: Lane,
    seen: Rc<Seen>,
}

impl Backing {
    fn fails(&self, request: &Request) -> bool {
        match request {
            Request::Write { .. } => self.seen.fails_writes.get(),
            Request::Flush => {
                let left = self.seen.failing_flushes.get();
                self.seen.failing_flushes.set(left.saturating_sub(1));
                left > 0
            }
            _ => false,
        }
    }
}

impl Block for Backing {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        let is_plain = matches!(request, Request::Write { fua: false, .. });
        if !is_plain || self.seen.is_slow.get() {
            return None;
        }
        if self.fails(request) {
            return Some(Err(Error::new(Kind::Io, "test")));
        }
        let result = self.ram.try_now(request);
        let killed = self.seen.memory.borrow().as_deref().map(copy_of);
        self.seen.killed.replace(killed);
        result
    }

    async fn run(&self, request: Request) -> Result {
        if let Some(result) = self.try_now(&request) {
            return result;
        }
        let is_flush = matches!(request, Request::Flush);
        self.seen.flushes.set(self.seen.flushes.get() + u32::from(is_flush));
        let fails = self.fails(&request);
        // The data is read first, and arrives later.
        let result = self.ram.run(request).await;
        self.seen.under_way.set(self.seen.under_way.get() + 1);
        self.lane.sleep_until(self.lane.now() + WAIT_NS).await;
        self.seen.under_way.set(self.seen.under_way.get() - 1);
        if fails { Err(Error::new(Kind::Io, "test")) } else { result }
    }
}

struct Scene {
    world: World,
    stack: Stack,
    ram: Ram,
    seen: Rc<Seen>,
    shared: Arc<Shared>,
    memory: Arc<Memory>,
}

/// Settings under which no copy of a write-through is held.
fn settings(write: WriteMode) -> Settings {
    Settings { write, fill_cost_ns: 1_000_000_000, retry_time_ns: 0, ..Settings::default() }
}

fn filled(byte: u8, sectors: u32) -> Buf {
    let buf = Buf::new(sectors, GRAIN);
    buf.write(&vec![byte; buf.bytes()]);
    buf
}

fn write_of(first: u64, sectors: u32, byte: u8) -> Request {
    let at = Extent::new(first, sectors);
    Request::Write { at, from: filled(byte, sectors), fua: false }
}

impl Scene {
    /// A volume whose cache is bypassed for reads and writes, over a backing whose first write has
    /// shown that it answers immediately.
    fn new(settings: Settings) -> Scene {
        let geometry = Geometry { slots: 64, fills: 8, run_blocks: 16, ..Geometry::SMALLEST };
        let settings = Settings { absorb_blocks_max: 4, readers: 0, ..settings };
        let mut world = World::timed(Prices::default());
        let (lane, ram) = (world.lane(), Ram::new(SECTORS, GRAIN));
        let limits =
            Limits { flush_needed: true, discard: Discard::Zeroes, ..ram.limits().clone() };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let shared = Shared::new(&limits, geometry, settings, 7, memory.clone());
        let shared = shared.expect("a fresh arena");
        let seen = Rc::new(Seen::default());
        let backing = Backing { ram: ram.clone(), limits, lane: lane.clone(), seen: seen.clone() };
        let cache = Cache::attach(&shared, &lane, Stack::new(&lane, backing));
        let stack = Stack::new(&lane, cache);
        let mut scene = Scene { world, stack, ram, seen, shared, memory };
        scene.shared.force_bypass(true, true, 0);
        assert_eq!(scene.now(&write_of(SECTORS - 8, 8, 9)), None, "nothing is known yet");
        scene.ask(write_of(SECTORS - 8, 8, 9)).expect("it is written");
        scene
    }

    fn now(&self, request: &Request) -> Option<Result> {
        self.stack.try_now(request)
    }

    /// Sends a request as a task, whose answer appears in the cell.
    fn send(&self, request: Request) -> Rc<RefCell<Option<Result>>> {
        let answer = Rc::new(RefCell::new(None));
        let (stack, theirs) = (self.stack.clone(), answer.clone());
        let task = async move { *theirs.borrow_mut() = Some(stack.run(request).await) };
        self.stack.lane().spawn(task).expect("a lane has room");
        answer
    }

    fn wait_for(&mut self, answer: &Rc<RefCell<Option<Result>>>) -> Result {
        assert!(self.world.run_until(|| answer.borrow().is_some()), "no answer");
        answer.take().expect("it is there")
    }

    fn ask(&mut self, request: Request) -> Result {
        let answer = self.send(request);
        self.wait_for(&answer)
    }

    fn read(&mut self, first: u64) -> u8 {
        let into = Buf::new(1, GRAIN);
        let request = Request::Read { at: Extent::new(first, 1), into: into.clone() };
        self.ask(request).expect("it can be read");
        into.to_vec()[0]
    }

    /// Returns the first byte of a sector of the backing.
    fn below(&self, first: u64) -> u8 {
        let into = Buf::new(1, GRAIN);
        let request = Request::Read { at: Extent::new(first, 1), into: into.clone() };
        assert_eq!(self.ram.try_now(&request), Some(Ok(())));
        into.to_vec()[0]
    }

    /// Returns the cache of the next process, after a kill.
    fn take_over(&self) -> Arc<Shared> {
        self.take_over_from(self.memory.clone())
    }

    /// Returns the cache of a process that finds this memory.
    fn take_over_from(&self, memory: Arc<Memory>) -> Arc<Shared> {
        let (limits, geometry) = (self.stack.limits(), *self.shared.geometry());
        let settings = self.shared.settings();
        let shared = Shared::new(limits, geometry, settings, 7, memory);
        shared.expect("the memory of the process before")
    }

    fn counters(&self) -> Counters {
        self.shared.counters(self.world.now())
    }
}

/// Every mode in which a write bypasses the whole cache.
const MODES: [WriteMode; 4] =
    [WriteMode::BackNow, WriteMode::Back, WriteMode::Through, WriteMode::None];

#[test]
fn a_write_of_which_nothing_is_held_goes_past_the_cache_and_is_counted() {
    for mode in MODES {
        let mut scene = Scene::new(settings(mode));
        let before = scene.counters();
        assert_eq!(scene.now(&write_of(8, 8, 1)), Some(Ok(())), "{mode:?}");
        assert_eq!(scene.now(&write_of(30, 5, 2)), Some(Ok(())), "{mode:?}: parts of two blocks");
        assert_eq!([8, 15, 30, 34].map(|sector| scene.below(sector)), [1, 1, 2, 2]);
        let after = scene.counters();
        let counted = |of: fn(&Counters) -> u64| of(&after) - of(&before);
        assert_eq!(counted(|all| all.changes), 2);
        assert_eq!(counted(|all| all.asked_write_bytes), 13 * 512);
        assert_eq!(counted(|all| all.blocks_requested), 3);
        assert_eq!(counted(|all| all.writes_through), 2);
        let reason = match mode {
            WriteMode::BackNow => counted(|all| all.writes_through_guard),
            WriteMode::Back => counted(|all| all.writes_through_unproven),
            _ => counted(|all| all.writes_through_mode),
        };
        assert_eq!((reason, after.blocks_held), (2, 0), "{mode:?}");
        assert_eq!((scene.read(8), scene.read(33)), (1, 2));
        scene.shared.check();
    }
}

#[test]
fn a_write_over_something_held_does_not_go_past_the_cache() {
    let mut scene = Scene::new(settings(WriteMode::BackNow));
    scene.shared.force_bypass(false, false, 0);
    scene.read(0);
    scene.ask(write_of(8, 8, 1)).expect("it is absorbed");
    scene.ask(Request::Zero { at: Extent::new(16, 8), fua: false, may_unmap: true }).expect("zero");
    scene.shared.force_bypass(true, true, 0);
    for (first, what) in [(0, "a clean block"), (8, "a dirty block"), (16, "pending zeros")] {
        assert_eq!(scene.now(&write_of(first, 8, 3)), None, "{what}");
        assert_eq!(scene.now(&write_of(first + 7, 1, 3)), None, "a part of {what}");
        scene.ask(write_of(first, 8, 3)).expect("it is written");
        assert_eq!(scene.read(first + 4), 3, "{what}");
    }
    assert_eq!(scene.now(&write_of(24, 8, 4)), Some(Ok(())), "the block behind them");
    scene.ask(Request::Flush).expect("a flush");
    assert_eq!([0, 8, 16, 24].map(|sector| scene.below(sector)), [3, 3, 3, 4]);
    scene.shared.check();
}

#[test]
fn a_write_beside_a_fetch_or_another_change_does_not_go_past_the_cache() {
    let mut scene = Scene::new(settings(WriteMode::BackNow));
    scene.shared.force_bypass(false, true, 0);
    let read = scene.send(Request::Read { at: Extent::new(0, 16), into: Buf::new(16, GRAIN) });
    let zeros = Request::Zero { at: Extent::new(32, 8), fua: true, may_unmap: false };
    let zeros = scene.send(zeros);
    let seen = scene.seen.clone();
    assert!(scene.world.run_until(|| seen.under_way.get() == 2));
    assert_eq!(scene.now(&write_of(15, 1, 1)), None, "a fetch");
    assert_eq!(scene.now(&write_of(32, 8, 1)), None, "a write-through");
    let waits = scene.send(write_of(32, 8, 2));
    assert_eq!(scene.now(&write_of(16, 8, 1)), Some(Ok(())), "beside them");
    scene.wait_for(&read).expect("it is read");
    scene.wait_for(&zeros).expect("zeros");
    scene.wait_for(&waits).expect("it is written");
    assert_eq!(scene.below(32), 2);
    scene.shared.check();
}

#[test]
fn only_where_nothing_would_be_kept_and_nothing_waits() {
    let is_direct = |scene: &Scene| scene.now(&write_of(8, 8, 1)).is_some();
    // A copy would be cached for reads.
    let scene = Scene::new(settings(WriteMode::Through));
    scene.shared.force_bypass(false, true, 0);
    assert!(!is_direct(&scene), "the mode caches writes for reads");
    scene.shared.force_bypass(true, false, 0);
    assert!(is_direct(&scene));
    // A copy would be held until a flush covers it.
    let cheap = Settings { fill_cost_ns: 0, ..settings(WriteMode::BackNow) };
    assert!(!is_direct(&Scene::new(cheap)), "a copy costs little");
    // An order is promised.
    let ordered = Settings { durability: Durability::Ordered, ..settings(WriteMode::None) };
    assert!(!is_direct(&Scene::new(ordered)), "closed epochs may have to be written first");
    // It must be durable when it is answered.
    let scene = Scene::new(settings(WriteMode::BackNow));
    let (at, from) = (Extent::new(8, 8), filled(1, 8));
    assert_eq!(scene.now(&Request::Write { at, from, fua: true }), None);
    // The backing has become slow, and is fast again.
    let mut scene = Scene::new(settings(WriteMode::BackNow));
    scene.seen.is_slow.set(true);
    assert!(!is_direct(&scene) && scene.below(8) == 0, "it does not answer");
    scene.ask(write_of(8, 8, 2)).expect("it is written");
    scene.seen.is_slow.set(false);
    assert!(!is_direct(&scene), "it is not known yet");
    scene.ask(write_of(8, 8, 3)).expect("it is written");
    assert!(is_direct(&scene) && scene.below(8) == 1);
}

#[test]
fn the_way_back_in_is_open_from_the_next_request_on() {
    let mut scene = Scene::new(settings(WriteMode::BackNow));
    assert_eq!(scene.now(&write_of(8, 8, 1)), Some(Ok(())));
    scene.shared.force_bypass(false, false, 0);
    assert_eq!(scene.now(&write_of(8, 8, 2)), Some(Ok(())), "it is absorbed");
    assert_eq!((scene.below(8), scene.shared.dirty_blocks()), (1, 1));
    scene.shared.force_bypass(true, true, 0);
    assert_eq!(scene.now(&write_of(8, 8, 3)), None, "it is newer than dirty data");
    scene.ask(write_of(8, 8, 3)).expect("it is written");
    assert_eq!((scene.below(8), scene.read(8), scene.shared.dirty_blocks()), (3, 3, 0));
}

#[test]
fn a_flush_covers_it_and_a_failed_flush_reports_its_loss() {
    let retried = Settings { retry_time_ns: 1_000_000_000, ..settings(WriteMode::BackNow) };
    let mut scene = Scene::new(retried);
    scene.ask(Request::Flush).expect("a flush");
    let flushes = scene.seen.flushes.get();
    scene.ask(Request::Flush).expect("a flush");
    assert_eq!(scene.seen.flushes.get(), flushes, "nothing was written");
    assert_eq!(scene.now(&write_of(8, 8, 1)), Some(Ok(())));
    scene.ask(Request::Flush).expect("a flush");
    assert_eq!(scene.seen.flushes.get(), flushes + 1);
    // The flush is not tried again: the write cannot be written again from memory.
    assert_eq!(scene.now(&write_of(16, 8, 1)), Some(Ok(())));
    scene.seen.failing_flushes.set(1);
    scene.ask(Request::Flush).expect_err("it may be lost");
    assert!(scene.shared.has_failed());
    assert!(scene.now(&write_of(24, 8, 1)).is_some_and(|answer| answer.is_err()), "it has failed");
    assert_eq!(scene.below(24), 0);
}

#[test]
fn a_kill_during_a_flush_over_it_leaves_a_doubt() {
    for is_direct in [false, true] {
        let mut scene = Scene::new(settings(WriteMode::BackNow));
        scene.ask(Request::Flush).expect("a flush");
        if is_direct {
            assert_eq!(scene.now(&write_of(8, 8, 1)), Some(Ok(())));
        }
        // Something that is held.
        scene.shared.force_bypass(false, false, 0);
        assert_eq!(scene.now(&write_of(16, 8, 1)), Some(Ok(())), "it is absorbed");
        let flush = scene.send(Request::Flush);
        let seen = scene.seen.clone();
        assert!(scene.world.run_until(|| seen.under_way.get() == 1));
        assert!(flush.borrow().is_none());
        scene.world.abandon();
        let successor = scene.take_over();
        assert_eq!(successor.is_in_doubt(), is_direct);
    }
}

/// Nothing of an earlier write is in doubt there: only the notes of this one leave the doubt.
#[test]
fn a_kill_between_it_and_its_answer_beside_a_flush_leaves_a_doubt() {
    let mut scene = Scene::new(settings(WriteMode::BackNow));
    scene.ask(Request::Flush).expect("a flush");
    scene.shared.force_bypass(false, false, 0);
    assert_eq!(scene.now(&write_of(16, 8, 1)), Some(Ok(())), "it is absorbed");
    scene.send(Request::Flush);
    let seen = scene.seen.clone();
    assert!(scene.world.run_until(|| seen.under_way.get() == 1));
    scene.shared.force_bypass(true, true, 0);
    assert!(!scene.take_over_from(copy_of(&scene.memory)).is_in_doubt(), "everything is held");
    seen.memory.replace(Some(scene.memory.clone()));
    assert_eq!(scene.now(&write_of(8, 8, 1)), Some(Ok(())));
    let killed = seen.killed.take().expect("it was sent");
    assert!(scene.take_over_from(killed).is_in_doubt());
    assert!(scene.take_over().is_in_doubt(), "after its answer, too");
}

#[test]
fn its_error_is_reported_and_counted() {
    let scene = Scene::new(settings(WriteMode::BackNow));
    scene.seen.fails_writes.set(true);
    assert!(scene.now(&write_of(8, 8, 1)).is_some_and(|answer| answer.is_err()));
    assert_eq!(scene.counters().errors_write, 1);
    scene.seen.fails_writes.set(false);
    assert_eq!(scene.now(&write_of(8, 8, 1)), Some(Ok(())), "the volume has not failed");
}
