//! The handling of a backing that fails.

use crate::scene::*;
use lane::Random;

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
fn errors_of_what_goes_straight_to_the_backing_are_counted_by_kind() {
    // Before the first flush, large, FUA, and by the mode.
    let back = Settings { write: WriteMode::Back, ..settings() };
    let through = Settings { write: WriteMode::Through, ..settings() };
    for settings in [back, through] {
        let mut scene = scene(settings);
        scene.state.fails.set(Some(Request::is_change));
        let at = Extent::new(8, 8);
        let write = |fua| Request::Write { at, from: Buf::new(8, GRAIN), fua };
        for change in [
            write(false),
            write(true),
            Request::Zero { at, fua: false, may_unmap: true },
            Request::Zero { at, fua: true, may_unmap: false },
            Request::Discard { at },
        ] {
            assert!(scene.ask(change.clone()).is_err(), "{change:?}");
        }
        scene.state.fails.set(Some(|request| matches!(request, Request::Read { .. })));
        assert!(scene.ask(Request::Read { at, into: Buf::new(8, GRAIN) }).is_err());
        let all = scene.counters();
        let errors = [all.errors_read, all.errors_write, all.errors_zero, all.errors_discard];
        assert_eq!((errors, all.errors_flush), ([1, 2, 2, 1], 0));
    }
}

#[test]
fn a_backing_that_fails_is_asked_again_and_again_but_ever_less_often() {
    let mut scene = scene(Settings { retry_time_ns: 20_000 * MS, workers: 1, ..settings() });
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
fn the_flush_for_what_was_written_early_is_tried_again_ever_less_often_and_nothing_is_clean_before()
{
    let settings = Settings {
        dirty_blocks_max: 64,
        dirty_age_ns: 100_000 * MS,
        retry_time_ns: 20_000 * MS,
        workers: 1,
        ..settings()
    };
    let mut scene = scene(settings);
    // The first flush of a process must not fail.
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
    assert!((1..=16).contains(&left), "{left}: half of what the open epoch may hold stays");
    assert_eq!(scene.counters().epochs, before.0, "no epoch is closed by that");
}

#[test]
fn all_that_was_written_early_is_written_again_when_its_flush_fails() {
    let settings = Settings {
        dirty_blocks_max: 6400,
        dirty_age_ns: 100_000 * MS,
        retry_time_ns: 20_000 * MS,
        ..settings()
    };
    let mut scene = scene(settings);
    scene.fill(1);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    let before = scene.counters().blocks_written;
    scene.state.fails.set(Some(|request| matches!(request, Request::Flush)));
    scene.fill(2100);
    let flushes = scene.state.flushes.get();
    let state = scene.state.clone();
    assert!(scene.world.run_until(|| state.flushes.get() > flushes));
    scene.pass_ns(2 * MS);
    scene.state.fails.set(None);
    scene.pass_ns(2000 * MS);
    let counters = scene.counters();
    // 700 of them are written back early, and at least half of that when the flush failed.
    assert_eq!(counters.blocks_dirty, 1400);
    let written = counters.blocks_written - before;
    assert!((700 + 350..=2 * 700).contains(&written), "{written}");
    scene.shared.check();
}

/// Counts writes of the first blocks that are sent to the backing.
fn sent_of_the_first(request: &Request) -> bool {
    if is_write(request) && request.extent().is_some_and(|at| at.first < 64) {
        SENT.set(SENT.get() + 1);
    }
    false
}

thread_local! {
    static SENT: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn what_was_taken_over_is_not_sent_once_the_flush_has_failed_that_belongs_before_it() {
    for seed in 0..200 {
        let memory = fresh();
        let mut before = scene_over_by(seed, settings(), 1, memory.clone());
        before.fill(4);
        drop(before);
        let mut scene = scene_over_by(!seed, settings(), 1, memory);
        // Before its flush is done none of it is sent, whatever notifies the workers in between.
        SENT.set(0);
        scene.state.hangs.set(Some(sent_of_the_first));
        scene.state.fails.set(Some(|request| matches!(request, Request::Flush)));
        let passes: Vec<_> =
            (1..60).map(|number| scene.begin(write_blocks(64 * number, 40))).collect();
        let answered = || passes.iter().all(|pass| pass.borrow().is_some());
        assert!(scene.world.run_until(|| scene.shared.has_failed() && answered()), "seed {seed}");
        scene.pass_ns(20 * MS);
        assert_eq!(scene.state.flushes.get(), 1, "seed {seed}");
        assert_eq!(SENT.get(), 0, "seed {seed}");
        scene.state.fails.set(None);
        scene.shared.clear_error();
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert!(SENT.get() >= 1, "seed {seed}");
    }
}

#[test]
fn zeros_that_were_under_way_while_a_flush_failed_are_written_again() {
    let mut scene = begun_without_fua(settings(), 8);
    // In the same shard the block would wait for the zeros.
    assert_ne!(scene.shared.shard_of(64), scene.shared.shard_of(2));
    let zeros = Request::Zero { at: Extent::new(64 * 8, 64), fua: false, may_unmap: false };
    assert_eq!(scene.ask(zeros), Ok(()));
    assert_eq!(scene.ask(write(2, false)), Ok(()));
    scene.state.hangs.set(Some(|request| matches!(request, Request::Zero { .. })));
    let fails = |request: &Request| match request {
        Request::Flush => true,
        // Of the epoch: because of this the volume fails in the end.
        Request::Write { at, .. } => at.first == 2 * 8,
        _ => false,
    };
    scene.state.fails.set(Some(fails));
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(2 * MS);
    // Its own flush fails, which may lose everything that the backing has received.
    let written = scene.begin(write(1000, true));
    scene.pass_ns(500 * MS);
    assert!(written.take().is_some_and(|answer| answer.is_err()));
    assert!(flush.take().is_some_and(|answer| answer.is_err()) && scene.shared.has_failed());
    scene.state.fails.set(None);
    scene.shared.clear_error();
    // The commit searches for data to write again while the zeros are still in flight.
    scene.pass_ns(50 * MS);
    assert_eq!(scene.state.zeros.get(), 0);
    scene.state.hangs.set(None);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.state.zeros.get(), 2, "once for the flush that failed, and again");
    scene.shared.check();
}

thread_local! {
    /// Decides which flushes fail.
    static DICE: RefCell<Random> = RefCell::new(Random::new(0));
    /// Whether a flush of this process has succeeded.
    static FLUSHED: Cell<bool> = const { Cell::new(false) };
}

/// Fails half of the flushes, and some writes.
fn fails_by_chance(request: &Request) -> bool {
    let fails = DICE.with_borrow_mut(|dice| match request {
        Request::Flush => dice.one_in(2),
        _ => dice.one_in(8),
    });
    if matches!(request, Request::Flush) && !fails {
        FLUSHED.set(true);
    }
    fails
}

/// Counts the first blocks that are sent before that.
fn looks_at_the_first(request: &Request) -> bool {
    if !FLUSHED.get() {
        sent_of_the_first(request);
    }
    false
}

#[test]
fn nothing_taken_over_is_sent_before_a_good_flush_whoever_clears_errors_and_whenever_it_is_killed()
{
    for seed in 0..60 {
        let mut random = Random::new(seed);
        DICE.set(Random::new(!seed));
        let settings = Settings { retry_time_ns: random.below(3) * 10 * MS, ..settings() };
        let memory = fresh();
        let mut before = scene_over_by(seed, settings, 2, memory.clone());
        before.fill(4);
        drop(before);
        SENT.set(0);
        for life in 0..3 {
            FLUSHED.set(false);
            let mut scene = scene_over_by(seed << 8 | life, settings, 2, memory.clone());
            scene.state.hangs.set(Some(looks_at_the_first));
            scene.state.fails.set(Some(fails_by_chance));
            for _ in 0..random.below(12) {
                match random.below(6) {
                    0 | 1 => scene.shared.clear_error(),
                    2 => _ = scene.begin(Request::Flush),
                    3 => _ = scene.begin(write(64 + random.below(64), random.one_in(2))),
                    _ => _ = scene.begin(write_blocks(64 * (1 + random.below(60)), 40)),
                }
                let mut steps = random.below(400);
                scene.world.run_until(|| {
                    steps = steps.saturating_sub(1);
                    steps == 0
                });
            }
            scene.shared.check();
            assert_eq!(SENT.get(), 0, "seed {seed}, life {life}");
        }
        let mut scene = scene_over_by(!seed, settings, 2, memory);
        scene.shared.clear_error();
        assert_eq!(scene.ask(Request::Flush), Ok(()), "seed {seed}");
        scene.pass_ns(50 * MS);
        assert_eq!(scene.shared.dirty_blocks(), 0, "seed {seed}");
    }
}
