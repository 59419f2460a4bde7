//! When data is written back and flushed, how much, and when none is.

use crate::scene::*;

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
    // An epoch that has only write-throughs is not empty.
    assert_eq!(scene.ask(write(9, true)), Ok(()));
    scene.pass_ns(100 * MS);
    assert!(scene.counters().epochs > after.epochs);
}

#[test]
fn the_debt_is_what_writing_and_flushing_take() {
    // Written back by a flush, and early.
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
        // At 50 MB/s, until it is measured.
        let least_ns = SERVICE_NS + left * 78_000;
        let most_ns = 2 * SERVICE_NS + left * SERVICE_NS;
        assert!((least_ns..=most_ns).contains(&predicted_ns), "{predicted_ns}");
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

#[test]
fn nothing_is_written_before_half_of_its_age_and_all_is_then() {
    let mut scene = scene(settings());
    scene.pass_ns(300 * MS);
    scene.fill(10);
    scene.pass_ns(900 * MS);
    assert_eq!(scene.counters().runs_written, 0);
    scene.pass_ns(200 * MS);
    assert_eq!((scene.counters().runs_written, scene.shared.dirty_blocks()), (10, 0));
    assert_eq!(scene.counters().epochs, 1);
}

#[test]
fn from_three_quarters_on_it_is_written_early_down_to_a_half_and_settled_by_the_eighth() {
    // The maximum of the open epoch is 700: 525, 350, 87.
    let settings =
        Settings { dirty_blocks_max: 1600, dirty_age_ns: 100_000 * MS, workers: 1, ..settings() };
    let mut scene = scene(settings);
    scene.fill(524);
    scene.pass_ns(1000 * MS);
    assert_eq!(scene.counters().blocks_early, 0);
    // One more.
    assert_eq!(scene.ask(write(10_001, false)), Ok(()));
    scene.pass_ns(1000 * MS);
    assert_eq!((scene.counters().blocks_early, scene.state.flushes.get()), (175, 3));
    assert_eq!(scene.shared.dirty_blocks(), 350);
    for block in 0..340 {
        assert_eq!(scene.ask(write(10_003 + 2 * block, false)), Ok(()));
    }
    scene.pass_ns(1000 * MS);
    assert_eq!((scene.counters().blocks_early, scene.state.flushes.get()), (515, 7));
    assert_eq!((scene.shared.dirty_blocks(), scene.counters().epochs), (350, 0));
}

#[test]
fn under_pending_zeros_nothing_is_written_early_but_the_whole_epoch() {
    let settings =
        Settings { dirty_blocks_max: 1600, dirty_age_ns: 100_000 * MS, workers: 1, ..settings() };
    let mut scene = scene(settings);
    let at = Extent::new(40_000, 64 * 8);
    assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: true }), Ok(()));
    scene.fill(524);
    scene.pass_ns(1000 * MS);
    assert_eq!((scene.counters().epochs, scene.counters().zeroes_written), (0, 0));
    assert_eq!(scene.ask(write(10_001, false)), Ok(()));
    scene.pass_ns(1000 * MS);
    let counters = scene.counters();
    assert_eq!((counters.epochs, counters.zeroes_written, counters.blocks_early), (1, 1, 0));
    assert_eq!(scene.shared.dirty_blocks(), 0);
    // The zeros are gone: early again.
    scene.fill(525);
    scene.pass_ns(1000 * MS);
    assert_eq!((scene.counters().epochs, scene.counters().blocks_early), (1, 175));
}

#[test]
fn zeros_that_come_while_it_is_written_early_do_not_keep_the_epoch_from_being_written_at_all() {
    let settings =
        Settings { dirty_blocks_max: 1600, dirty_age_ns: 100_000 * MS, workers: 1, ..settings() };
    let mut scene = scene(settings);
    scene.fill(525);
    scene.pass_ns(20 * MS);
    assert!(scene.counters().blocks_early > 0, "it has begun");
    let at = Extent::new(40_000, 64 * 8);
    assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: true }), Ok(()));
    scene.pass_ns(100 * MS);
    let left = 525 - scene.counters().blocks_early;
    assert_eq!(u64::from(scene.shared.dirty_blocks()), left, "what was written is durable");
    for block in 0..300 {
        assert_eq!(scene.ask(write(10_003 + 2 * block, false)), Ok(()));
    }
    scene.pass_ns(1000 * MS);
    let counters = scene.counters();
    assert_eq!(
        (counters.epochs, counters.writes_through_full),
        (1, 0),
        "at three quarters of the room"
    );
}

#[test]
fn zeros_that_take_long_do_not_show_how_fast_blocks_are_written() {
    let mut scene = scene(settings());
    scene.state.times.set(Times { zero: 10_000 * MS, ..Times::default() });
    let at = Extent::new(40_000, 64 * 8);
    assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: true }), Ok(()));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.fill(300);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    // Each takes a millisecond, several at a time.
    let rate = scene.counters().drain_blocks_per_second;
    assert!(rate > 1000, "{rate}");
}

#[test]
fn up_to_its_limit_the_buffer_takes_everything_and_nothing_beyond() {
    let settings = Settings { dirty_blocks_max: 64, dirty_age_ns: 100_000 * MS, ..settings() };
    let mut scene = begun(settings);
    scene.state.hangs.set(Some(is_write));
    let passes = scene.counters().writes_through;
    // An epoch holds half of the maximum of dirty blocks.
    for block in 0..32 {
        scene.begin(write(2 * block, false));
        scene.pass_ns(1000);
    }
    assert_eq!((scene.shared.dirty_blocks(), scene.counters().writes_through - passes), (32, 0));
    scene.begin(write(64, false));
    scene.pass_ns(1000);
    assert_eq!((scene.shared.dirty_blocks(), scene.counters().writes_through - passes), (32, 1));
}

#[test]
fn a_flush_that_finds_nothing_to_flush_is_no_sample_of_how_long_one_takes() {
    let mut scene = scene(settings());
    scene.fill(1);
    for _ in 0..8 {
        assert_eq!(scene.ask(Request::Flush), Ok(()));
    }
    assert_eq!(scene.counters().flush_predicted_ns, MS);
}
