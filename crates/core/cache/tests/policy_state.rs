//! The state of the policy goes on in the next process: the curve of other sizes, the share of the
//! window and the ghosts. Bytes that cannot be used are refused, and change nothing.

mod common;

use block::{Block, Buf, Extent, Limits, Memory, Ram, Request, Stack};
use cache::{Arena, Cache, CleanBlocks, PolicyState, Settings, Shared};
use common::geometry;
use hotlist::Unusable;
use lane::{Lane, Prices, World};
use policy::Kind;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 1 << 14;
const SLOTS: u32 = 1 << 12;
const SECOND_NS: u64 = 1_000_000_000;

struct Scene {
    world: World,
    lane: Lane,
    cache: Cache,
    stack: Stack,
    shared: Arc<Shared>,
    memory: Arc<Memory>,
}

impl Scene {
    fn new() -> Scene {
        let geometry = geometry(SLOTS);
        Scene::over(Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN))))
    }

    /// Makes a scene over the memory of an earlier one, whose clean blocks it takes over.
    fn over(memory: Arc<Memory>) -> Scene {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let ram = Ram::new(BLOCKS * 8, GRAIN);
        let limits: Limits = ram.limits().clone();
        let (settings, clean) = (Settings::default(), CleanBlocks::Keep);
        let shared =
            Shared::take_over(&limits, geometry(SLOTS), settings, 7, memory.clone(), clean);
        let shared = shared.expect("a fresh arena, or the earlier scene's");
        let cache = Cache::attach(&shared, &lane, Stack::new(&lane, ram));
        let stack = Stack::new(&lane, cache.clone());
        Scene { world, lane, cache, stack, shared, memory }
    }

    fn run<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let work = async move { *place.borrow_mut() = Some(work.await) };
        self.lane.spawn(work).expect("room");
        self.world.run_until(|| result.borrow().is_some());
        result.take().expect("it has ended")
    }

    fn read(&mut self, blocks: impl IntoIterator<Item = u64>) {
        let (stack, lane, blocks) = (self.stack.clone(), self.lane.clone(), Vec::from_iter(blocks));
        self.run(async move {
            for block in blocks {
                let into = Buf::new(8, GRAIN);
                let request = Request::Read { at: Extent::new(block * 8, 8), into };
                match stack.try_now(&request) {
                    Some(result) => result.expect("no errors"),
                    None => stack.run(request).await.expect("no errors"),
                }
                lane.rest().await;
            }
        });
    }

    /// Lets time pass.
    fn pass(&mut self, ns: u64) {
        let (lane, until) = (self.lane.clone(), self.lane.now() + ns);
        self.run(async move { lane.sleep_until(until).await });
    }

    fn state(&mut self) -> Vec<u8> {
        let cache = self.cache.clone();
        self.run(async move { cache.policy_state().await })
    }

    fn restore(&mut self, bytes: &[u8]) {
        let state = PolicyState::parse(bytes, Kind::Adaptive, &geometry(SLOTS));
        let state = state.expect("undamaged").expect("of this cache");
        let cache = self.cache.clone();
        self.run(async move { cache.restore_policy(state).await });
    }

    fn curve(&self) -> (policy::Answer, u64) {
        let report = self.shared.curve(self.lane.now()).expect("there were accesses");
        (report.answer, report.window_ns)
    }
}

/// Reads of a loop that does not fit: the arbiter chooses a small window, which has ghosts.
fn looped() -> impl Iterator<Item = u64> {
    (0..36_000).map(|read| read * 7 % (2 * u64::from(SLOTS)))
}

/// A scene after a loop, and its saved state.
fn after_loop() -> (Scene, Vec<u8>) {
    let mut scene = Scene::new();
    scene.pass(SECOND_NS);
    scene.read([0]);
    scene.curve();
    scene.pass(SECOND_NS);
    scene.read(looped());
    let state = scene.state();
    (scene, state)
}

#[test]
fn the_next_process_goes_on_from_the_state() {
    let (first, state) = after_loop();
    let (curve, window_ns) = first.curve();
    assert!(curve.miss_ratios[policy::PRESENT] > 2.0 * curve.miss_ratios[policy::PRESENT + 1]);
    let share = first.shared.policy().window_share;
    assert!(share.is_some_and(|share| share < 1024), "{share:?}");

    let mut second = Scene::over(first.memory.clone());
    drop(first);
    assert!(second.shared.curve(0).is_none(), "nothing was accessed");
    second.restore(&state);
    let (restored, restored_ns) = second.curve();
    assert_eq!((restored, second.shared.policy().window_share), (curve, share));
    assert!(restored_ns.abs_diff(window_ns) < 1_000_000, "{restored_ns} and {window_ns}");
    let report = second.shared.curve(second.lane.now()).expect("it was restored");
    assert!(report.earlier_ns > 0 && report.earlier_ns <= report.window_ns);
    // All of it, with the ghosts, but for the duration, which goes on.
    let (mut saved, mut again) = (state, second.state());
    let duration = 12 + 1 + 16..12 + 1 + 24;
    saved[duration.clone()].fill(0);
    again[duration].fill(0);
    assert!(saved == again, "the state is the same");
    let ghosts = saved.len() - 2 * SLOTS as usize / 2;
    assert!(saved[ghosts..].iter().any(|byte| *byte != 0), "some blocks were evicted");
    second.read(looped().take(1000));
    second.shared.check();
}

#[test]
fn the_state_of_another_cache_is_not_used_and_a_damaged_one_is_refused() {
    let (_, state) = after_loop();
    let parse = |bytes: &[u8], kind, slots| {
        PolicyState::parse(bytes, kind, &geometry(slots)).map(|state| state.is_some())
    };
    assert_eq!(parse(&state, Kind::Adaptive, SLOTS), Ok(true));
    assert_eq!(parse(&state, Kind::Lru, SLOTS), Ok(false));
    assert_eq!(parse(&state, Kind::Adaptive, 2 * SLOTS), Ok(false));
    let layout = |number| parse(&[&[number], &state[1..]].concat(), Kind::Adaptive, SLOTS);
    assert_eq!((layout(0), layout(9)), (Ok(false), Err(Unusable::Newer(9))));
    for length in [0, 11, 100, state.len() / 2, state.len() - 1] {
        let cut = parse(&state[..length], Kind::Adaptive, SLOTS);
        assert_eq!(cut, Err(Unusable::Damaged), "{length}");
    }
    let longer = [&state[..], &[0]].concat();
    assert_eq!(parse(&longer, Kind::Adaptive, SLOTS), Err(Unusable::Damaged));
}

#[test]
fn a_changed_state_is_refused_or_used() {
    let (_, good) = after_loop();
    let changes = proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6);
    TestRunner::new(ProptestConfig::with_cases(16))
        .run(&changes, |changes| {
            let (mut scene, mut state) = (Scene::new(), good.clone());
            for (at, byte) in changes {
                // Not the head: that would be another cache's.
                let at = 12 + at % (state.len() - 12);
                state[at] = byte;
            }
            if let Ok(Some(state)) = PolicyState::parse(&state, Kind::Adaptive, &geometry(SLOTS)) {
                let cache = scene.cache.clone();
                scene.run(async move { cache.restore_policy(state).await });
            }
            scene.read(looped().take(2000));
            scene.shared.check();
            let ratios = scene.curve().0.miss_ratios;
            prop_assert!(ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)));
            Ok(())
        })
        .expect("it goes on");
}
