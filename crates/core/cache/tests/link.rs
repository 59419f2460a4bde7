//! A backing whose link goes down (C8), under each policy: the errors that clients receive, and the
//! data that stays.

use block::{
    Block, Buf, Error, Extent, Kind, LINK_GRACE_NS, Limits, LinkDown, LinkState, Memory, Ram,
    Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Changes, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const SECTORS: u64 = 64 * 8;
const RETRY_NS: u64 = 4_000_000;
const TICK_NS: u64 = 10_000;
/// The part of the export that may be unsettled, from its start.
const UNSETTLED_SECTORS: u64 = 16;

/// A server behind a link. Requests that it has not answered when the link is lost are sent again.
#[derive(Clone)]
struct Remote {
    ram: Ram,
    limits: Limits,
    lane: Lane,
    link: Arc<LinkState>,
    /// Whether it may have lost changes since its last flush.
    has_lost: Rc<Cell<bool>>,
    /// Whether such a loss is reported while the link is lost, too.
    reports_at_once: Rc<Cell<bool>>,
    /// Whether it answers nothing, although the link is up.
    hangs: Rc<Cell<bool>>,
    /// Whether a change of an earlier process may replace its data.
    is_unsettled: Rc<Cell<bool>>,
}

impl Block for Remote {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        self.lane.sleep_until(self.lane.now() + TICK_NS).await;
        let is_reported = self.reports_at_once.get() && matches!(request, Request::Flush);
        if is_reported && self.has_lost.replace(false) {
            return Err(Error::new(Kind::Io, "test: changes may be lost"));
        }
        loop {
            let seen = self.link.changed().seen();
            match () {
                () if self.link.lost_ns().is_some() => self.link.changed().after(seen).await,
                () if self.hangs.get() => self.lane.sleep_until(self.lane.now() + TICK_NS).await,
                () => break,
            }
        }
        if matches!(request, Request::Flush) && self.has_lost.replace(false) {
            return Err(Error::new(Kind::Io, "test: changes may be lost"));
        }
        self.ram.run(request).await
    }

    fn held_ns(&self) -> u64 {
        self.link.held_ns()
    }

    fn may_keep(&self, at: Extent) -> bool {
        !self.is_unsettled.get() || at.first >= UNSETTLED_SECTORS
    }

    fn link(&self) -> Option<&Arc<LinkState>> {
        Some(&self.link)
    }
}

struct Scene {
    world: World,
    lane: Lane,
    backing: Remote,
    cache: Cache,
    stack: Stack,
}

fn scene(link_down: LinkDown) -> Scene {
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
    let settings = Settings {
        write: WriteMode::BackNow,
        dirty_blocks_max: 16,
        dirty_age_ns: 1_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: RETRY_NS,
        stall_time_ns: RETRY_NS,
        workers: 2,
        absorb_blocks_max: 8,
        link_down,
        ..Settings::default()
    };
    let ram = Ram::new(SECTORS, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let link = Arc::new(LinkState::new(0));
    let backing = Remote {
        ram,
        limits: limits.clone(),
        lane: lane.clone(),
        link,
        has_lost: Rc::default(),
        reports_at_once: Rc::default(),
        hangs: Rc::default(),
        is_unsettled: Rc::default(),
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(&limits, geometry, settings, 7, memory).expect("mine");
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, backing.clone()));
    let stack = Stack::new(&lane, cache.clone());
    Scene { world, lane, backing, cache, stack }
}

type Answer = Rc<Cell<Option<Result>>>;

impl Scene {
    /// Runs a future to its end.
    fn wait<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let answer = Rc::new(RefCell::new(None));
        let into = answer.clone();
        let task = async move { *into.borrow_mut() = Some(future.await) };
        self.lane.spawn(task).expect("a lane has room");
        let (deadline, now) = (self.world.now() + 10 * LINK_GRACE_NS, self.lane.clone());
        self.world.run_until(|| answer.borrow().is_some() || now.now() > deadline);
        answer.take().expect("an answer in time")
    }

    fn begin(&self, request: Request) -> Answer {
        let answer = Answer::default();
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

    fn cut(&self) {
        self.backing.link.note_lost(self.lane.now());
    }

    fn mend(&self) {
        self.backing.link.note_up(self.lane.now());
    }

    fn read(&mut self, block: u64) -> Result<u8> {
        let into = Buf::new(8, GRAIN);
        self.ask(Request::Read { at: Extent::new(block * 8, 8), into: into.clone() })?;
        Ok(into.to_vec()[0])
    }

    fn on_backing(&self, block: u64) -> u8 {
        let into = Buf::new(1, GRAIN);
        let read = Request::Read { at: Extent::new(block * 8, 1), into: into.clone() };
        assert_eq!(self.backing.ram.try_now(&read), Some(Ok(())));
        into.to_vec()[0]
    }

    fn has_failed(&self) -> bool {
        self.cache.shared().has_failed()
    }
}

fn read(block: u64) -> Request {
    Request::Read { at: Extent::new(block * 8, 8), into: Buf::new(8, GRAIN) }
}

fn write(block: u64, byte: u8, fua: bool) -> Request {
    let from = Buf::new(8, GRAIN);
    from.write(&[byte; 8 * GRAIN as usize]);
    Request::Write { at: Extent::new(block * 8, 8), from, fua }
}

#[test]
fn with_wait_nothing_fails_however_long_the_link_is_down_and_all_goes_on_afterwards() {
    let mut scene = scene(LinkDown::Wait);
    assert_eq!(scene.ask(write(3, 5, false)), Ok(()));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.cut();
    assert_eq!(scene.ask(write(4, 6, false)), Ok(()), "there is room");
    let waiting =
        [scene.begin(read(40)), scene.begin(write(9, 1, true)), scene.begin(Request::Flush)];
    // More than may be dirty.
    let more: Vec<Answer> = (10..30).map(|block| scene.begin(write(block, 7, false))).collect();
    scene.pass_ns(5 * LINK_GRACE_NS);
    assert!(waiting.iter().all(|one| one.get().is_none()), "they wait");
    let absorbed = more.iter().filter(|one| one.get() == Some(Ok(()))).count();
    assert!((1..=16).contains(&absorbed), "{absorbed} were absorbed");
    assert!(more.iter().all(|one| matches!(one.get(), None | Some(Ok(())))));
    assert_eq!(scene.read(3), Ok(5), "hits go on");
    assert!(!scene.has_failed());
    scene.mend();
    scene.pass_ns(RETRY_NS);
    assert!(waiting.iter().chain(&more).all(|one| one.get() == Some(Ok(()))));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!((scene.on_backing(4), scene.on_backing(9), scene.on_backing(29)), (6, 1, 7));
    assert_eq!(scene.cache.shared().counters(0).failed, 0);
}

/// The server may have lost changes each time. The errors of its flushes last for longer than
/// `retry_time`, but never without a loss of the link in between.
#[test]
fn with_wait_a_link_that_flaps_fails_no_volume() {
    let mut scene = scene(LinkDown::Wait);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.ask(write(3, 5, false)), Ok(()));
    let flush = scene.begin(Request::Flush);
    for _ in 0..60 {
        scene.cut();
        scene.backing.has_lost.set(true);
        scene.pass_ns(LINK_GRACE_NS);
        scene.mend();
        // A flush fails, and there is no time to repeat it.
        scene.pass_ns(5 * TICK_NS);
    }
    assert!(!scene.has_failed());
    // The pause after a failed flush has become longer each time.
    scene.pass_ns(5 * LINK_GRACE_NS);
    assert_eq!(flush.get(), Some(Ok(())));
    assert_eq!(scene.on_backing(3), 5);
}

/// A loss that ends at once: the watchdog never finds the link lost.
#[test]
fn with_wait_each_return_of_the_link_gives_a_request_its_whole_time() {
    let mut scene = scene(LinkDown::Wait);
    scene.backing.hangs.set(true);
    let reading = scene.begin(read(3));
    let writing = scene.begin(write(9, 1, true));
    for _ in 0..60 {
        scene.pass_ns(RETRY_NS / 2);
        scene.cut();
        scene.mend();
    }
    assert!(!scene.has_failed() && reading.get().is_none() && writing.get().is_none());
    scene.pass_ns(2 * RETRY_NS);
    assert!(scene.has_failed(), "the server hangs");
}

/// After a loss, the fence holds the copies that are written again for longer than `retry_time`.
#[test]
fn with_wait_the_hold_of_a_change_fails_no_volume() {
    let mut scene = scene(LinkDown::Wait);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.ask(write(3, 5, false)), Ok(()));
    let flush = scene.begin(Request::Flush);
    for _ in 0..60 {
        scene.backing.has_lost.set(true);
        scene.pass_ns(RETRY_NS / 2);
        scene.backing.link.note_hold(scene.lane.now());
    }
    assert!(!scene.has_failed() && flush.get().is_none());
    // The pause after a failed flush has become longer each time.
    for _ in 0..1000 {
        scene.backing.has_lost.set(true);
        scene.pass_ns(RETRY_NS / 2);
    }
    assert!(scene.has_failed(), "errors that no hold explains count");
}

/// The loss of written-through changes was reported while the link was lost, when no error counted,
/// and the next flush was answered as if they were there.
#[test]
fn a_loss_of_changes_that_no_memory_holds_fails_the_volume_while_the_link_is_lost() {
    for policy in [LinkDown::Wait, LinkDown::ServeClean] {
        let mut scene = scene(policy);
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        let through = Changes { write: Some(WriteMode::Through), ..Changes::default() };
        let cache = scene.cache.clone();
        assert_eq!(scene.wait(async move { cache.set(&through).await }), Ok(()));
        assert_eq!(scene.ask(write(3, 5, false)), Ok(()));
        scene.cut();
        scene.backing.has_lost.set(true);
        scene.backing.reports_at_once.set(true);
        let flush = scene.begin(Request::Flush);
        scene.pass_ns(LINK_GRACE_NS / 2);
        assert!(scene.has_failed(), "{policy:?}");
        scene.mend();
        scene.pass_ns(RETRY_NS);
        assert!(matches!(flush.get(), Some(Err(_))), "{policy:?}");
        assert!(scene.ask(Request::Flush).is_err());
    }
}

#[test]
fn with_wait_a_server_that_hangs_fails_the_volume_in_time_after_the_link_was_down() {
    let mut scene = scene(LinkDown::Wait);
    scene.cut();
    let hanging = scene.begin(write(3, 5, true));
    scene.pass_ns(LINK_GRACE_NS);
    scene.backing.hangs.set(true);
    scene.mend();
    scene.pass_ns(RETRY_NS);
    assert!(hanging.get().is_none(), "it has its whole time");
    scene.pass_ns(RETRY_NS / 2);
    assert!(matches!(hanging.get(), Some(Err(_))) && scene.has_failed());
}

#[test]
fn with_serve_clean_hits_go_on_and_all_else_gets_errors_until_the_link_is_up() {
    let mut scene = scene(LinkDown::ServeClean);
    assert_eq!(scene.ask(write(3, 5, false)), Ok(()));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.ask(write(4, 6, false)), Ok(()));
    scene.cut();
    let waiting =
        [scene.begin(read(40)), scene.begin(write(9, 1, true)), scene.begin(Request::Flush)];
    scene.pass_ns(LINK_GRACE_NS / 2);
    assert!(waiting.iter().all(|one| one.get().is_none()), "the server may just restart");
    scene.pass_ns(LINK_GRACE_NS / 2 + TICK_NS);
    assert!(waiting.iter().all(|one| matches!(one.get(), Some(Err(_)))));
    assert_eq!((scene.read(3), scene.read(4)), (Ok(5), Ok(6)));
    for request in [read(41), write(3, 9, false), write(5, 9, true), Request::Flush] {
        let begun = scene.lane.now();
        assert!(scene.ask(request).is_err());
        assert!(scene.lane.now() - begun < RETRY_NS, "at once");
    }
    scene.pass_ns(5 * LINK_GRACE_NS);
    assert!(!scene.has_failed());
    scene.mend();
    scene.pass_ns(10 * TICK_NS);
    assert_eq!(scene.read(41), Ok(0));
    assert_eq!((scene.read(3), scene.ask(write(5, 8, false))), (Ok(5), Ok(())));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!((scene.on_backing(4), scene.on_backing(5)), (6, 8), "nothing was lost");
}

#[test]
fn with_fail_the_volume_fails_as_over_any_backing() {
    let mut scene = scene(LinkDown::Fail);
    scene.cut();
    let hanging = scene.begin(write(3, 5, true));
    scene.pass_ns(RETRY_NS * 3 / 2);
    assert!(matches!(hanging.get(), Some(Err(_))) && scene.has_failed());
}

#[test]
fn a_policy_changes_while_the_link_is_down() {
    let mut scene = scene(LinkDown::Wait);
    scene.cut();
    let waiting = scene.begin(read(40));
    scene.pass_ns(2 * LINK_GRACE_NS);
    let set = |scene: &mut Scene, policy| {
        let cache = scene.cache.clone();
        let changes = Changes { link_down: Some(policy), ..Changes::default() };
        assert_eq!(scene.wait(async move { cache.set(&changes).await }), Ok(()));
        scene.pass_ns(TICK_NS);
    };
    set(&mut scene, LinkDown::ServeClean);
    assert!(matches!(waiting.get(), Some(Err(_))), "{:?}", waiting.get());
    set(&mut scene, LinkDown::Wait);
    assert_eq!(scene.ask(write(3, 5, false)), Ok(()), "it is absorbed");
    let waiting = scene.begin(Request::Flush);
    scene.pass_ns(2 * LINK_GRACE_NS);
    assert!(waiting.get().is_none());
    set(&mut scene, LinkDown::Fail);
    scene.pass_ns(RETRY_NS * 3 / 2);
    assert!(matches!(waiting.get(), Some(Err(_))) && scene.has_failed());
}

#[test]
fn a_drain_ends_after_retry_time_although_clients_wait_and_its_data_stays() {
    let mut scene = scene(LinkDown::Wait);
    assert_eq!(scene.ask(write(3, 5, false)), Ok(()));
    scene.cut();
    let cache = scene.cache.clone();
    let drained = scene.wait(async move { cache.drain().await });
    assert!(drained.is_err_and(|error| error.to_string().contains("link")), "{drained:?}");
    assert!(!scene.has_failed());
    scene.mend();
    scene.pass_ns(RETRY_NS);
    let cache = scene.cache.clone();
    assert_eq!(scene.wait(async move { cache.drain().await }), Ok(()));
    assert_eq!(scene.on_backing(3), 5);
}

/// A read from inside a block checks the whole block, because the rest may be fetched as well.
#[test]
fn data_that_an_unanswered_change_may_replace_is_not_kept() {
    let mut scene = scene(LinkDown::Wait);
    let mut read = |first: u64, is_unsettled: bool| {
        scene.backing.is_unsettled.set(is_unsettled);
        let (stack, into) = (scene.stack.clone(), Buf::new(1, GRAIN));
        let at = Extent::new(first, 1);
        let result = scene.wait(async move {
            match stack.try_now(&Request::Read { at, into: into.clone() }) {
                Some(result) => result,
                None => stack.run(Request::Read { at, into }).await,
            }
        });
        assert_eq!(result, Ok(()));
        let counters = scene.cache.shared().counters(0);
        (counters.read_hits, counters.read_misses)
    };
    assert_eq!([read(15, true), read(15, true)], [(0, 1), (0, 2)]);
    assert_eq!([read(16, true), read(16, true)], [(0, 3), (1, 3)], "beside it");
    assert_eq!([read(15, false), read(15, false)], [(1, 4), (2, 4)], "after a flush");
}
