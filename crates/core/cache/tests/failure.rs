//! A backing that hangs, fails and returns (C8), step by step: the errors that clients receive, the
//! data that stays, and the operations of the operator. The crash laboratory tries the same in
//! every order.

use block::{
    Block, Buf, Durability, Error, Extent, Kind, Limits, Memory, Ram, Request, Result, Stack,
    Stretch, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared, Unrecoverable};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const SECTORS: u64 = 64 * 8;
const STALL_NS: u64 = 4_000_000;
const IDENTITY: u64 = 7;

/// The current behaviour of the backing.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Well,
    /// It does not answer requests of this kind.
    Hangs(fn(&Request) -> bool),
    /// It does not answer them, nor report anything for a virtual minute.
    Silent(fn(&Request) -> bool),
    /// It fails all requests except reads.
    Fails,
    /// It fails the next flush, and is well again.
    FailsFlush,
}

#[derive(Clone)]
struct Moody {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    mood: Rc<Cell<Mood>>,
    /// The longest time for which it holds a request back on purpose.
    held_ns: Rc<Cell<u64>>,
}

impl Block for Moody {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let tick = 10_000;
        self.lane.sleep_until(self.lane.now() + tick).await;
        while matches!(self.mood.get(), Mood::Hangs(hangs) if hangs(&request)) {
            self.lane.sleep_until(self.lane.now() + tick).await;
        }
        if matches!(self.mood.get(), Mood::Silent(hangs) if hangs(&request)) {
            self.lane.sleep_until(self.lane.now() + 60_000_000_000).await;
        }
        if matches!(self.mood.get(), Mood::FailsFlush) && is_flush(&request) {
            self.mood.set(Mood::Well);
            return Err(Error::new(Kind::Io, "test"));
        }
        if matches!(self.mood.get(), Mood::Fails) && !is_read(&request) {
            return Err(Error::new(Kind::Io, "test"));
        }
        self.ram.run(request).await
    }

    fn held_ns(&self) -> u64 {
        self.held_ns.get()
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        Ok(vec![Stretch { sectors: at.count.into(), hole: true, zero: true }])
    }
}

struct Scene {
    world: World,
    lane: Lane,
    backing: Moody,
    memory: Arc<Memory>,
    geometry: Geometry,
    durability: Durability,
    cache: Cache,
    stack: Stack,
}

fn settings(durability: Durability) -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability,
        dirty_blocks_max: 32,
        dirty_age_ns: 1_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 20_000_000,
        stall_time_ns: STALL_NS,
        workers: 2,
        absorb_blocks_max: 8,
        ..Settings::default()
    }
}

fn scene() -> Scene {
    scene_of(Durability::Flush)
}

fn scene_of(durability: Durability) -> Scene {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let geometry = Geometry {
        slots: 64,
        shards: 2,
        region_blocks: 8,
        extents: 4,
        fills: 8,
        run_blocks: 8,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    };
    let ram = Ram::new(SECTORS, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let (mood, held_ns) = (Rc::new(Cell::new(Mood::Well)), Rc::default());
    let backing = Moody { ram, lane: lane.clone(), limits, mood, held_ns };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let cache = attach(&backing, &memory, geometry, settings(durability));
    let stack = Stack::new(&lane, cache.clone());
    Scene { world, lane, backing, memory, geometry, durability, cache, stack }
}

fn attach(backing: &Moody, memory: &Arc<Memory>, geometry: Geometry, settings: Settings) -> Cache {
    let shared = Shared::new(&backing.limits, geometry, settings, IDENTITY, memory.clone());
    let shared = shared.expect("mine");
    Cache::attach(&shared, &backing.lane, Stack::new(&backing.lane, backing.clone()))
}

impl Scene {
    /// Runs a future to its end, or panics after ten virtual seconds.
    fn wait<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let answer = Rc::new(RefCell::new(None));
        let into = answer.clone();
        let task = async move { *into.borrow_mut() = Some(future.await) };
        self.lane.spawn(task).expect("a lane has room");
        let deadline = self.world.now() + 10_000_000_000;
        let now = self.lane.clone();
        self.world.run_until(|| answer.borrow().is_some() || now.now() > deadline);
        answer.take().expect("an answer in time")
    }

    fn begin(&self, request: Request) -> Rc<Cell<Option<Result>>> {
        let answer = Rc::new(Cell::new(None));
        let (stack, into) = (self.stack.clone(), answer.clone());
        let task = async move { into.set(Some(stack.run_unless_stalled(request).await)) };
        self.lane.spawn(task).expect("a lane has room");
        answer
    }

    fn ask(&mut self, request: Request) -> Result {
        match self.stack.try_now(&request) {
            Some(result) => result,
            None => {
                let running = self.stack.run_unless_stalled(request);
                self.wait(running)
            }
        }
    }

    fn pass_ns(&mut self, ns: u64) {
        let sleep = self.lane.sleep_until(self.lane.now() + ns);
        self.wait(sleep);
    }

    fn write(&mut self, block: u64, byte: u8) -> Result {
        self.ask(write(block, byte, false))
    }

    fn read(&mut self, block: u64) -> Result<u8> {
        let into = Buf::new(8, GRAIN);
        let at = Extent::new(block * 8, 8);
        self.ask(Request::Read { at, into: into.clone() })?;
        let bytes = into.to_vec();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
        Ok(bytes[0])
    }

    fn flush(&mut self) -> Result {
        self.ask(Request::Flush)
    }

    fn drain(&mut self) -> Result {
        let cache = self.cache.clone();
        self.wait(async move { cache.drain().await })
    }

    fn on_backing(&self, block: u64) -> u8 {
        let into = Buf::new(1, GRAIN);
        let read = Request::Read { at: Extent::new(block * 8, 1), into: into.clone() };
        assert_eq!(self.backing.ram.try_now(&read), Some(Ok(())));
        into.to_vec()[0]
    }

    fn shared(&self) -> Arc<Shared> {
        self.cache.shared().clone()
    }

    /// Kills the process, and lets another one take over the memory.
    fn restart(&mut self) {
        self.lane.abandon();
        let settings = settings(self.durability);
        self.cache = attach(&self.backing, &self.memory, self.geometry, settings);
        self.stack = Stack::new(&self.lane, self.cache.clone());
    }

    fn discard(&mut self) -> Result<u64> {
        let cache = self.cache.clone();
        self.wait(async move { cache.discard_dirty().await })
    }

    fn status(&mut self, at: Extent) -> Result<Vec<Stretch>> {
        let asked = self.stack.status(at);
        self.wait(asked)
    }

    fn fail(&mut self) {
        self.backing.mood.set(Mood::Fails);
        assert!(self.flush().is_err());
        assert!(self.shared().has_failed());
    }
}

fn write(block: u64, byte: u8, fua: bool) -> Request {
    let from = Buf::new(8, GRAIN);
    from.write(&[byte; 8 * GRAIN as usize]);
    Request::Write { at: Extent::new(block * 8, 8), from, fua }
}

fn is_flush(request: &Request) -> bool {
    matches!(request, Request::Flush)
}

fn is_read(request: &Request) -> bool {
    matches!(request, Request::Read { .. })
}

fn is_change(request: &Request) -> bool {
    request.is_change()
}

/// Of what memory holds, nothing is lost by a flush that fails once. Of what it does not hold,
/// nothing may be lost by the end of a connection.
#[test]
fn a_connection_that_ends_fails_no_volume() {
    for is_well in [true, false] {
        let mut scene = scene();
        scene.backing.limits.loses_with_connection = is_well;
        let settings = Settings { absorb_blocks_max: 4, ..settings(Durability::Flush) };
        scene.cache = attach(&scene.backing, &scene.memory, scene.geometry, settings);
        scene.stack = Stack::new(&scene.lane, scene.cache.clone());
        scene.flush().expect("of an earlier process");
        scene.write(3, 5).expect("absorbed");
        let from = Buf::new(8 * 8, GRAIN);
        from.write(&[7; 8 * 8 * GRAIN as usize]);
        let large = Request::Write { at: Extent::new(16 * 8, 8 * 8), from, fua: false };
        scene.ask(large).expect("written through");
        scene.backing.mood.set(Mood::FailsFlush);
        let result = scene.flush();
        assert_eq!(result.is_ok(), is_well, "{result:?}");
        assert_eq!(scene.shared().has_failed(), !is_well);
        assert_eq!(scene.on_backing(17), 7);
        assert!(!is_well || scene.on_backing(3) == 5);
    }
}

/// A discard has no FUA, so it is sent as zeroes that have.
#[test]
fn a_connection_that_ends_loses_no_discard() {
    for is_well in [true, false] {
        let mut scene = scene();
        scene.backing.limits.loses_with_connection = is_well;
        let settings = Settings { write: WriteMode::Through, ..settings(Durability::Flush) };
        scene.cache = attach(&scene.backing, &scene.memory, scene.geometry, settings);
        scene.stack = Stack::new(&scene.lane, scene.cache.clone());
        scene.flush().expect("of an earlier process");
        scene.ask(Request::Discard { at: Extent::new(16 * 8, 8 * 8) }).expect("written through");
        scene.backing.mood.set(Mood::FailsFlush);
        assert_eq!(scene.flush().is_ok(), is_well);
        assert_eq!(scene.shared().has_failed(), !is_well);
    }
}

/// A cache over an export flushes it at its start, so a later loss is not one of changes that an
/// earlier process has written through.
#[test]
fn a_connection_that_ends_before_the_first_flush_of_a_client_fails_no_volume() {
    for flushes_at_start in [true, false] {
        let mut scene = scene();
        scene.backing.limits.loses_with_connection = flushes_at_start;
        scene.restart();
        scene.pass_ns(STALL_NS);
        scene.write(3, 5).expect("absorbed");
        scene.backing.mood.set(Mood::FailsFlush);
        let result = scene.flush();
        assert_eq!(result.is_ok(), flushes_at_start, "{result:?}");
        assert_eq!(scene.shared().has_failed(), !flushes_at_start);
    }
}

#[test]
fn all_flushes_are_answered_while_their_leader_hangs_and_all_goes_on_when_it_comes_back() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    scene.backing.mood.set(Mood::Hangs(is_flush));
    let leader = scene.begin(Request::Flush);
    let others = [(); 3].map(|()| scene.begin(Request::Flush));
    scene.pass_ns(STALL_NS / 2);
    assert_eq!(leader.get(), None, "not yet");
    scene.pass_ns(STALL_NS);
    for flush in [leader].iter().chain(&others) {
        assert!(matches!(flush.get(), Some(Err(_))), "{:?}", flush.get());
    }
    let shared = scene.shared();
    assert!(shared.has_failed());
    let stall = scene.stack.stall().expect("the cache watches").clone();
    assert!(stall.is_on());
    assert_eq!(scene.read(3), Ok(5), "hits go on");
    assert!(scene.read(40).is_err(), "misses do not wait");
    assert!(scene.write(4, 6).is_err());
    assert!(scene.flush().is_err());
    assert_eq!(scene.discard().map_err(|error| error.kind), Err(Kind::Invalid));
    // The operator is too early: the backing still hangs, and the volume fails again.
    shared.clear_error();
    scene.pass_ns(STALL_NS);
    assert!(shared.has_failed());
    scene.backing.mood.set(Mood::Well);
    scene.pass_ns(STALL_NS);
    assert!(!stall.is_on());
    assert!(shared.has_failed(), "until the operator says otherwise");
    shared.clear_error();
    assert_eq!(scene.write(4, 6), Ok(()));
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!((scene.on_backing(3), scene.on_backing(4)), (5, 6));
    shared.check();
}

#[test]
fn reads_that_hang_fail_no_volume() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    scene.backing.mood.set(Mood::Hangs(is_read));
    let hanging = scene.begin(Request::Read { at: Extent::new(320, 8), into: Buf::new(8, GRAIN) });
    scene.pass_ns(2 * STALL_NS);
    assert!(matches!(hanging.get(), Some(Err(_))));
    assert!(!scene.shared().has_failed());
    assert_eq!(scene.read(3), Ok(5));
    assert_eq!(scene.write(5, 9), Ok(()), "what needs no waiting is done");
    assert!(scene.read(41).is_err(), "refused at once");
    assert!(scene.ask(write(6, 9, true)).is_err(), "would pass");
    scene.backing.mood.set(Mood::Well);
    scene.pass_ns(STALL_NS);
    assert_eq!(scene.read(41), Ok(0));
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!((scene.on_backing(5), scene.on_backing(6)), (9, 0));
}

#[test]
fn a_hang_is_noticed_in_time_after_a_long_wait_that_was_no_hang() {
    let mut scene = scene();
    scene.backing.held_ns.set(1000 * STALL_NS);
    scene.backing.mood.set(Mood::Hangs(is_change));
    let held = scene.begin(write(3, 5, true));
    scene.pass_ns(10 * STALL_NS);
    assert!(held.get().is_none() && !scene.shared().has_failed(), "it is held back on purpose");
    scene.backing.mood.set(Mood::Well);
    scene.backing.held_ns.set(0);
    scene.pass_ns(STALL_NS);
    assert_eq!(held.get(), Some(Ok(())));
    scene.backing.mood.set(Mood::Hangs(is_change));
    let hanging = scene.begin(write(4, 5, true));
    scene.pass_ns(STALL_NS * 3 / 2);
    assert!(matches!(hanging.get(), Some(Err(_))) && scene.shared().has_failed());
}

#[test]
fn whoever_waits_is_informed_although_nothing_wakes_it() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    scene.backing.mood.set(Mood::Silent(|_| true));
    let hanging = [
        scene.begin(Request::Read { at: Extent::new(320, 8), into: Buf::new(8, GRAIN) }),
        scene.begin(write(9, 1, true)),
        scene.begin(Request::Flush),
    ];
    scene.pass_ns(2 * STALL_NS);
    for request in hanging {
        assert!(matches!(request.get(), Some(Err(_))), "{:?}", request.get());
    }
}

#[test]
fn a_stop_does_not_wait_for_a_backing_that_hangs() {
    for mood in [Mood::Hangs(is_change), Mood::Hangs(is_flush), Mood::Silent(is_flush)] {
        let mut scene = scene();
        scene.write(3, 5).expect("absorbed");
        scene.backing.mood.set(mood);
        assert!(scene.drain().is_err());
        assert_eq!(scene.shared().dirty_blocks(), 1, "what is dirty stays so");
        assert!(scene.drain().is_err(), "nor does the next one");
    }
}

#[test]
fn a_failed_volume_starts_failed_and_goes_on_when_the_error_is_cleared() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    scene.fail();
    scene.backing.mood.set(Mood::Well);
    for _ in 0..2 {
        scene.restart();
        assert!(scene.shared().has_failed());
        assert_eq!(scene.read(3), Ok(5));
        assert!(scene.write(4, 6).is_err());
        assert!(scene.flush().is_err());
    }
    scene.shared().clear_error();
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!(scene.on_backing(3), 5);
    scene.restart();
    assert!(!scene.shared().has_failed());
}

#[test]
fn a_flush_that_waited_while_the_volume_failed_fails_although_the_error_is_cleared_at_once() {
    let mut scene = scene();
    assert_eq!(scene.write(1, 7), Ok(()));
    assert_eq!(scene.flush(), Ok(()));
    scene.backing.mood.set(Mood::Fails);
    assert_eq!(scene.write(1, 8), Ok(()));
    let flush = scene.begin(Request::Flush);
    let shared = scene.cache.shared().clone();
    assert!(scene.world.run_until(|| shared.has_failed()));
    assert!(flush.get().is_none(), "nothing has come to tell it");
    scene.backing.mood.set(Mood::Well);
    shared.clear_error();
    scene.pass_ns(1_000_000_000);
    // Write-throughs might be lost: the flush also covered those.
    assert!(matches!(flush.get(), Some(Err(_))), "{:?}", flush.get());
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!(scene.on_backing(1), 8);
}

#[test]
fn a_cleared_error_comes_back_after_retry_time_if_the_backing_still_fails() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    scene.fail();
    let shared = scene.shared();
    shared.clear_error();
    // No request arrives: the flusher begins without one.
    scene.pass_ns(settings(Durability::Flush).retry_time_ns / 2);
    assert!(!shared.has_failed());
    scene.pass_ns(2 * settings(Durability::Flush).retry_time_ns + 1_000_000_000);
    assert!(shared.has_failed());
    assert_eq!(scene.read(3), Ok(5), "nothing is lost");
}

#[test]
fn what_is_discarded_shows_the_backing_as_it_is() {
    let mut scene = scene();
    scene.write(3, 1).expect("absorbed");
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!(scene.discard().map_err(|error| error.kind), Err(Kind::Invalid), "it is well");
    for (block, byte) in [(3, 5), (4, 6), (20, 7)] {
        scene.write(block, byte).expect("absorbed");
    }
    let zeros = Request::Zero { at: Extent::new(24 * 8, 32), fua: false, may_unmap: true };
    scene.ask(zeros).expect("absorbed");
    scene.pass_ns(1_000_000);
    scene.fail();
    scene.backing.mood.set(Mood::Well);
    let shared = scene.shared();
    assert!(shared.counters(scene.world.now()).dirty_age_ns > 1_000_000);
    assert_eq!(scene.discard(), Ok(3 + 4));
    let after = shared.counters(scene.world.now());
    assert_eq!((after.blocks_dirty, after.dirty_age_ns, after.epochs_closed), (0, 0, 0));
    shared.check();
    assert!(!shared.has_failed());
    assert_eq!(shared.dirty_blocks(), 0);
    assert_eq!(scene.read(3), Ok(1), "what was flushed stays");
    assert_eq!((scene.read(4), scene.read(20)), (Ok(0), Ok(0)));
    assert_eq!(scene.write(4, 8), Ok(()));
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!((scene.on_backing(3), scene.on_backing(4)), (1, 8));
    scene.restart();
    assert!(!scene.shared().has_failed());
    assert_eq!((scene.read(3), scene.read(4)), (Ok(1), Ok(8)));
}

#[test]
fn copies_of_what_a_failed_flush_may_have_lost_go_with_the_error() {
    for is_discarded in [false, true] {
        let mut scene = scene();
        scene.shared().set_write_mode(WriteMode::Through);
        assert_eq!((scene.write(3, 1), scene.flush()), (Ok(()), Ok(())));
        assert_eq!(scene.write(4, 2), Ok(()));
        scene.fail();
        scene.backing.mood.set(Mood::Well);
        for block in [3, 4] {
            let lost = scene.backing.ram.try_now(&write(block, 9, false));
            assert_eq!(lost, Some(Ok(())));
        }
        assert_eq!((scene.read(3), scene.read(4)), (Ok(1), Ok(2)), "copies of both");
        match is_discarded {
            true => assert_eq!(scene.discard(), Ok(0)),
            false => scene.shared().clear_error(),
        }
        assert_eq!(scene.read(3), Ok(1), "a copy of what was durable stays");
        assert_eq!(scene.read(4), Ok(9), "discarded: {is_discarded}");
        scene.shared().check();
    }
}

#[test]
fn copies_that_were_not_held_go_with_the_error_too() {
    for is_discarded in [false, true] {
        let mut scene = scene();
        scene.shared().set_write_mode(WriteMode::Through);
        assert_eq!(scene.flush(), Ok(()));
        // More than may be held until they are durable.
        let blocks = 0..48;
        blocks.clone().for_each(|block| assert_eq!(scene.write(block, 2), Ok(())));
        scene.fail();
        scene.backing.mood.set(Mood::Well);
        for block in blocks.clone() {
            let lost = scene.backing.ram.try_now(&write(block, 9, false));
            assert_eq!(lost, Some(Ok(())));
        }
        let copies = blocks.clone().filter(|block| scene.read(*block) == Ok(2)).count();
        assert!(copies > 32, "more than are held: {copies}");
        match is_discarded {
            true => assert_eq!(scene.discard(), Ok(0)),
            false => scene.shared().clear_error(),
        }
        let stale: Vec<u64> = blocks.filter(|block| scene.read(*block) != Ok(9)).collect();
        assert_eq!(stale, [], "discarded: {is_discarded}");
        scene.shared().check();
    }
}

#[test]
fn memory_is_taken_over_for_its_own_backing_only() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    let take = |sectors: u64, identity| {
        let limits = Limits { sectors, ..scene.backing.limits.clone() };
        let shared = Shared::new(
            &limits,
            scene.geometry,
            settings(Durability::Flush),
            identity,
            scene.memory.clone(),
        );
        shared.map(|shared| shared.dirty_blocks())
    };
    assert_eq!(take(SECTORS, IDENTITY + 1), Err(Unrecoverable::AnotherVolume));
    assert_eq!(take(SECTORS - 8, IDENTITY), Err(Unrecoverable::AnotherSize));
    let found = Arena::found(&scene.memory).expect("an arena");
    assert_eq!((found.sectors, found.identity, found.grain), (SECTORS, IDENTITY, GRAIN));
    assert!(found.survey().is_dirty());
    assert_eq!(take(SECTORS, IDENTITY), Ok(1));
    // The backing has grown, and has that size from then on.
    assert_eq!(take(SECTORS + 8, IDENTITY), Ok(1));
    assert_eq!(take(SECTORS, IDENTITY), Err(Unrecoverable::AnotherSize));
}

#[test]
fn status_is_what_is_held_and_the_backing_for_the_rest() {
    let mut scene = scene();
    scene.write(3, 5).expect("absorbed");
    let zeros = |block: u64, blocks: u32, may_unmap| Request::Zero {
        at: Extent::new(block * 8, blocks * 8),
        fua: false,
        may_unmap,
    };
    scene.ask(zeros(8, 2, false)).expect("absorbed");
    scene.ask(zeros(16, 1, true)).expect("absorbed");
    let hole = Stretch { sectors: 0, hole: true, zero: true };
    let zero = Stretch { hole: false, ..hole };
    let expected = [
        hole.resized(3 * 8 - 4),
        Stretch::data(8u32),
        hole.resized(4 * 8),
        zero.resized(2 * 8),
        hole.resized(14 * 8),
    ];
    let at = Extent::new(4, 24 * 8 - 4);
    assert_eq!(scene.status(at), Ok(expected.to_vec()));
    assert_eq!(scene.flush(), Ok(()));
    scene.pass_ns(1_000_000);
    let all = vec![hole.resized(24 * 8 - 4)];
    assert_eq!(scene.status(at), Ok(all), "clean blocks decide nothing");
    scene.backing.mood.set(Mood::Hangs(is_change));
    let _passing = scene.begin(write(5, 9, true));
    scene.pass_ns(100_000);
    let status = scene.status(Extent::new(32, 24));
    let expected = [hole.resized(8), Stretch::data(8u32), hole.resized(8)];
    assert_eq!(status, Ok(expected.to_vec()), "a change in flight is data");
}

#[test]
fn ordered_flushes_do_not_wait_and_an_error_holds_back_every_later_epoch() {
    let mut scene = scene_of(Durability::Ordered);
    scene.pass_ns(1_000_000);
    scene.backing.mood.set(Mood::Fails);
    let before = scene.lane.now();
    for block in 1..4 {
        assert_eq!(scene.write(block, block as u8), Ok(()));
        assert_eq!(scene.flush(), Ok(()));
    }
    assert!(scene.lane.now() - before < 10_000, "they have waited for the backing");
    assert_eq!(scene.shared().closed_epochs(), 3);
    scene.pass_ns(2 * settings(Durability::Ordered).retry_time_ns);
    assert!(scene.shared().has_failed());
    assert!(scene.flush().is_err(), "from now on it is known");
    assert!(scene.write(9, 9).is_err());
    for block in 1..4 {
        assert_eq!((scene.read(block), scene.on_backing(block)), (Ok(block as u8), 0));
    }
    scene.backing.mood.set(Mood::Well);
    scene.shared().clear_error();
    scene.drain().expect("it is well");
    assert_eq!([1, 2, 3].map(|block| scene.on_backing(block)), [1, 2, 3]);
    assert_eq!(scene.shared().closed_epochs(), 0);
}

/// Returns the contents of a block on the backing until it has `last`, each once.
fn history_of(scene: &mut Scene, block: u64, last: u8) -> Vec<u8> {
    let mut seen = vec![scene.on_backing(block)];
    while seen.last() != Some(&last) {
        scene.pass_ns(1_000);
        let now = scene.on_backing(block);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    seen
}

#[test]
fn a_chain_of_epochs_outlives_a_kill_and_none_of_them_is_left_out() {
    for killed_into in [Durability::Ordered, Durability::Flush] {
        let mut scene = scene_of(Durability::Ordered);
        scene.pass_ns(2 * settings(Durability::Ordered).dirty_age_ns);
        scene.backing.mood.set(Mood::Hangs(Request::is_change));
        for byte in 1..6 {
            assert_eq!(scene.write(1, byte), Ok(()));
            assert_eq!(scene.flush(), Ok(()));
        }
        assert_eq!(scene.write(1, 6), Ok(()));
        assert_eq!(scene.shared().closed_epochs(), 5);
        assert_eq!(scene.shared().dirty_blocks(), 6, "one version an epoch");
        scene.durability = killed_into;
        scene.restart();
        assert_eq!(scene.read(1), Ok(6));
        assert_eq!(scene.shared().closed_epochs(), 5);
        if killed_into == Durability::Ordered {
            scene.pass_ns(1_000);
            assert_eq!(scene.write(2, 2), Ok(()), "writers do not wait for what was taken over");
        }
        scene.backing.mood.set(Mood::Well);
        assert_eq!(history_of(&mut scene, 1, 6), [0, 1, 2, 3, 4, 5, 6]);
        scene.drain().expect("it is well");
        assert_eq!(scene.shared().dirty_blocks(), 0);
    }
}

#[test]
fn what_an_earlier_life_sent_past_is_flushed_before_anything_passes() {
    let mut scene = scene_of(Durability::Ordered);
    scene.pass_ns(1_000_000);
    scene.restart();
    scene.backing.mood.set(Mood::Hangs(is_flush));
    scene.shared().set_write_mode(WriteMode::Through);
    let passing = scene.begin(write(1, 1, false));
    scene.pass_ns(STALL_NS / 2);
    assert_eq!((passing.get(), scene.on_backing(1)), (None, 0));
    scene.backing.mood.set(Mood::Well);
    scene.pass_ns(1_000_000);
    assert_eq!((passing.get(), scene.on_backing(1)), (Some(Ok(())), 1));
}

#[test]
fn scratch_ignores_flushes_but_not_a_failure() {
    let mut scene = scene_of(Durability::Scratch);
    assert_eq!(scene.write(1, 1), Ok(()));
    assert_eq!(scene.flush(), Ok(()));
    assert_eq!(scene.ask(write(2, 2, true)), Ok(()));
    assert_eq!([1, 2].map(|block| scene.on_backing(block)), [0, 0]);
    scene.backing.mood.set(Mood::Fails);
    assert!(scene.drain().is_err(), "a drain makes durable in every mode");
    assert!(scene.flush().is_err());
    assert!(scene.write(3, 3).is_err());
}
