//! The handling of changes while the buffer fills or an epoch is closed.

use crate::scene::*;

#[test]
fn a_large_write_is_absorbed_in_pieces_rather_than_to_wait_for_closed_epochs() {
    let mut scene = begun(Settings { durability: Durability::Ordered, ..settings() });
    assert_eq!(scene.ask(write_blocks(4096, 64)), Ok(()));
    assert_eq!(scene.counters().writes_through_large, 1, "nothing is closed");
    scene.fill(3);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.state.hangs.set(Some(is_write));
    let before = scene.counters();
    let answer = scene.begin(write_blocks(8192, 64));
    scene.pass_ns(5 * MS);
    assert_eq!(answer.take(), Some(Ok(())));
    let after = scene.counters();
    assert_eq!(after.blocks_absorbed, before.blocks_absorbed + 64);
    assert_eq!(after.changes, before.changes + 2, "in as few pieces as can be");
    assert_eq!(scene.counters().writes_through_large, 1);
}

#[test]
fn passes_are_counted_by_their_reason() {
    let mut scene = scene(settings());
    let large = |first: u64, sectors: u32| {
        let at = Extent::new(first * 8, sectors);
        Request::Write { at, from: Buf::new(sectors, GRAIN), fua: false }
    };
    for block in 0..3 {
        assert_eq!(scene.ask(write(block, true)), Ok(()));
    }
    assert_eq!(scene.ask(large(128, 32 * 8)), Ok(()), "as large as may be absorbed");
    for first in [256, 320] {
        assert_eq!(scene.ask(large(first, 33 * 8)), Ok(()));
    }
    let counters = scene.counters();
    assert_eq!(
        (counters.writes_through, counters.writes_through_fua, counters.writes_through_large),
        (5, 3, 2)
    );
    assert_eq!((counters.blocks_absorbed, counters.blocks_dirty), (32, 32));
    assert_eq!((counters.changes, counters.blocks_requested), (6, 3 + 32 + 2 * 33));
}

#[test]
fn writers_are_slowed_down_before_the_buffer_is_full() {
    let mut scene = scene(Settings { dirty_blocks_max: 256, workers: 1, ..settings() });
    scene.fill(100);
    assert_eq!(scene.counters().changes_slowed, 0, "there is room");
    scene.fill(1000);
    let counters = scene.counters();
    assert!(counters.changes_slowed > 100, "{}", counters.changes_slowed);
    assert!(counters.slowed_ns > 100 * MS, "{}", counters.slowed_ns);
    assert!(counters.slowed_ns <= scene.lane.now(), "one writes at a time");
    assert!(
        counters.writes_through < 100,
        "{}: only where that is not enough",
        counters.writes_through
    );
    // A rewritten block needs no room.
    let slowed = counters.changes_slowed;
    for _ in 0..20 {
        assert_eq!(scene.ask(write(1998, false)), Ok(()));
    }
    assert!(scene.counters().changes_slowed <= slowed + 1);
}

#[test]
fn a_change_passes_what_is_clean_or_wholly_replaced_and_is_ordered_behind_the_rest() {
    let mut scene = scene(settings());
    let part = |block: u64, sectors: u32, fua| {
        let at = Extent::new(block * 8 + 2, sectors);
        Request::Write { at, from: Buf::new(sectors, GRAIN), fua }
    };
    let (into, at) = (Buf::new(8, GRAIN), Extent::new(7 * 8, 8));
    assert_eq!(scene.ask(Request::Read { at, into }), Ok(()));
    assert_eq!(scene.ask(part(7, 1, true)), Ok(()));
    assert_eq!(scene.counters().writes_through_fua, 1, "past a clean block");
    assert_eq!(scene.ask(write(8, false)), Ok(()));
    assert_eq!(scene.ask(write(8, true)), Ok(()));
    assert_eq!(scene.counters().writes_through_fua, 2, "past a dirty block that it replaces");
    assert_eq!(scene.shared.dirty_blocks(), 0);
    let flushes = scene.counters().epochs;
    let two = Request::Write { at: Extent::new(98, 14), from: Buf::new(14, GRAIN), fua: true };
    for (held, change) in [
        (write(9, false), part(9, 1, true)),
        (part(10, 3, false), write(10, true)),
        (write(12, false), two),
    ] {
        assert_eq!(scene.ask(held), Ok(()));
        assert_eq!(scene.ask(change), Ok(()));
        assert_eq!((scene.counters().writes_through_fua, scene.shared.dirty_blocks()), (2, 0));
    }
    assert_eq!(scene.counters().epochs, flushes + 3, "written out with what was there");
    assert_eq!(scene.counters().writes_urgent, 0, "there was room");
}

#[test]
fn zeros_take_the_place_of_what_is_dirty_at_once() {
    let mut scene = scene(settings());
    scene.fill(4);
    let at = Extent::new(0, 8 * 8);
    let answer = scene.begin(Request::Zero { at, fua: false, may_unmap: false });
    scene.pass_ns(MS / 2);
    assert_eq!(answer.take(), Some(Ok(())));
    let counters = scene.counters();
    assert_eq!((counters.blocks_saved, counters.writes_through), (4, 0));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!((scene.counters().zeroes_written, scene.counters().blocks_written), (1, 0));
}

#[test]
fn zeros_of_many_regions_are_one_request_whatever_the_number_of_shards() {
    for shards in [1, 2, 8] {
        let mut scene = scene_of(settings(), shards);
        let zeros = |first: u64, blocks: u32| {
            let at = Extent::new(first * 8, blocks * 8);
            Request::Zero { at, fua: false, may_unmap: false }
        };
        assert_eq!(scene.ask(zeros(10, 2000)), Ok(()));
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert_eq!(scene.counters().zeroes_written, 1, "{shards} shards");
        // A newer block divides them, and is written after them.
        assert_eq!(scene.ask(zeros(10, 2000)), Ok(()));
        assert_eq!(scene.ask(write(777, false)), Ok(()));
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        let counters = scene.counters();
        assert_eq!(
            (counters.zeroes_written, counters.blocks_written),
            (1 + 2, 1),
            "{shards} shards"
        );
    }
}

#[test]
fn zeros_that_are_scattered_go_side_by_side_and_what_fails_holds_back_few_of_them() {
    for shards in [1, 8] {
        let mut scene = begin(scene_of(settings(), shards));
        // One in each of four rows of regions.
        for row in 0..4 {
            let at = Extent::new((64 * 8 * row + 3) * 8, 8);
            assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: true }), Ok(()));
        }
        fn is_second(request: &Request) -> bool {
            request.extent().is_some_and(|at| at.first == (64 * 8 + 3) * 8)
        }
        scene.state.hangs.set(Some(is_second));
        let flushed = scene.begin(Request::Flush);
        scene.pass_ns(2 * MS);
        assert_eq!(scene.counters().zeroes_written, 3, "all but that one, in the time of one");
        scene.state.hangs.set(None);
        scene.state.fails.set(Some(is_second));
        scene.pass_ns(10 * MS);
        scene.state.fails.set(None);
        assert!(scene.world.run_until(|| flushed.borrow().is_some()));
        assert_eq!((flushed.take(), scene.counters().zeroes_written), (Some(Ok(())), 4));
    }
}

/// Makes a scene in which the first writes of the workers get no answer: at most four blocks are
/// dirty.
fn stuck() -> Scene {
    let settings =
        Settings { dirty_blocks_max: 8, dirty_age_ns: 100_000 * MS, workers: 1, ..settings() };
    let scene = scene(settings);
    scene.state.hangs.set(Some(is_low_write));
    scene
}

fn is_low_write(request: &Request) -> bool {
    is_write(request) && request.extent().is_some_and(|at| at.first < 32)
}

#[test]
fn a_full_buffer_still_takes_what_is_dirty_already() {
    let mut scene = stuck();
    scene.fill(3);
    while scene.counters().writes_through_full == 0 {
        let next = 100 + 2 * scene.counters().blocks_dirty;
        assert_eq!(scene.ask(write(next, false)), Ok(()));
    }
    let dirty = scene.counters().blocks_dirty;
    assert_eq!(dirty, 4, "half of eight");
    for _ in 0..5 {
        assert_eq!(scene.ask(write(98 + 2 * dirty, false)), Ok(()));
        assert_eq!((scene.counters().writes_through, scene.counters().blocks_dirty), (1, dirty));
    }
}

#[test]
fn zeros_take_slots_only_for_parts_of_blocks() {
    for (before, first, sectors, dirty, passes) in [
        (4, 2048, 512, 4, 0),
        (3, 803, 2, 4, 0),
        (3, 2051, 509, 4, 0),
        (3, 2048, 511, 4, 0),
        (3, 2051, 500, 3, 1),
    ] {
        let mut scene = stuck();
        scene.fill(before);
        let at = Extent::new(first, sectors);
        assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: false }), Ok(()));
        let counters = scene.counters();
        assert_eq!(
            (counters.blocks_dirty, counters.writes_through),
            (dirty, passes),
            "{first} {sectors}"
        );
    }
}

#[test]
fn behind_what_is_too_old_nothing_is_absorbed() {
    let mut scene = scene(settings());
    scene
        .state
        .hangs
        .set(Some(|request| is_write(request) && request.extent().is_some_and(|at| at.first < 32)));
    scene.fill(1);
    scene.pass_ns(1900 * MS);
    assert_eq!(scene.ask(write(700, false)), Ok(()));
    assert_eq!((scene.counters().writes_through, scene.counters().blocks_absorbed), (0, 2));
    scene.pass_ns(200 * MS);
    assert_eq!(scene.ask(write(702, false)), Ok(()));
    assert_eq!((scene.counters().writes_through_late, scene.counters().blocks_absorbed), (1, 2));
}

#[test]
fn once_it_was_full_changes_pass_until_a_quarter_is_free() {
    let settings =
        Settings { dirty_blocks_max: 64, dirty_age_ns: 100_000 * MS, workers: 1, ..settings() };
    let mut scene = scene(settings);
    scene.state.hangs.set(Some(is_low_write));
    let mut block = 0;
    while scene.counters().writes_through_full == 0 {
        // The last of them are in the buffer, but wait for writeback.
        scene.begin(write(block, false));
        scene.pass_ns(MS / 10);
        block += 2;
    }
    assert!((28..=30).contains(&scene.counters().blocks_dirty));
    scene.state.hangs.set(None);
    let mut passes = 0;
    while scene.counters().writes_through_full > passes {
        passes = scene.counters().writes_through_full;
        assert_eq!(scene.ask(write(block, false)), Ok(()));
        block += 2;
    }
    // Beside write-throughs, which take a millisecond each, the workers have one run in flight.
    assert!((6..=20).contains(&passes), "{passes}");
    for _ in 0..4 {
        assert_eq!(scene.ask(write(block, false)), Ok(()));
        block += 2;
    }
    assert_eq!(scene.counters().writes_through_full, passes, "there is room");
}

#[test]
fn a_sixteenth_of_the_slots_is_kept_for_reading() {
    let settings = Settings {
        dirty_blocks_max: 1 << 20,
        dirty_age_ns: 100_000 * MS,
        workers: 1,
        absorb_blocks_max: 64,
        ..settings()
    };
    let mut scene = scene(settings);
    for first in (0..15_360).step_by(64) {
        let from = Buf::new(64 * 8, GRAIN);
        let at = Extent::new(first * 8, 64 * 8);
        assert_eq!(scene.ask(Request::Write { at, from, fua: false }), Ok(()));
    }
    assert_eq!((scene.counters().blocks_dirty, scene.counters().writes_through), (15_360, 0));
    assert_eq!(scene.ask(write(16_000, false)), Ok(()));
    assert_eq!((scene.counters().blocks_dirty, scene.counters().writes_through_full), (15_360, 1));
    assert_eq!(scene.ask(write(7, false)), Ok(()), "what is there needs no more");
    assert_eq!((scene.counters().blocks_dirty, scene.counters().writes_through_full), (15_360, 1));
}

#[test]
fn saved_is_what_was_dirty_and_need_not_be_written() {
    let mut scene = scene(settings());
    let zero = Request::Zero { at: Extent::new(0, 8), fua: false, may_unmap: false };
    for change in [write(0, false), zero] {
        let (into, at) = (Buf::new(8, GRAIN), Extent::new(0, 8));
        assert_eq!(scene.ask(Request::Read { at, into }), Ok(()));
        let before = scene.counters().blocks_saved;
        assert_eq!(scene.ask(change.clone()), Ok(()));
        assert_eq!(scene.counters().blocks_saved, before, "it was clean");
        assert_eq!(scene.ask(write(0, false)), Ok(()));
        assert_eq!(scene.ask(write(0, false)), Ok(()));
        assert!(scene.counters().blocks_saved > before);
        assert_eq!(scene.ask(Request::Flush), Ok(()));
    }
}

#[test]
fn a_flush_that_waits_for_nothing_but_a_pass_ends_with_it() {
    let large = Request::Write { at: Extent::new(0, 264), from: Buf::new(264, GRAIN), fua: false };
    for passing in [write(5, true), large] {
        ends_with(passing);
    }
}

fn ends_with(passing: Request) {
    let mut scene = scene(settings());
    assert_eq!(scene.ask(write(5, false)), Ok(()));
    scene.state.hangs.set(Some(is_write));
    let pass = scene.begin(passing);
    scene.pass_ns(2 * MS);
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(10 * MS);
    assert!(flush.borrow().is_none() && pass.borrow().is_none());
    scene.state.hangs.set(None);
    scene.pass_ns(10 * MS);
    assert_eq!((pass.take(), flush.take()), (Some(Ok(())), Some(Ok(()))));
    assert_eq!((scene.counters().blocks_dirty, scene.counters().runs_written), (0, 0));
}

fn is_flush(request: &Request) -> bool {
    matches!(request, Request::Flush)
}

/// Reads a block, and returns whether the backing was read.
fn misses(scene: &mut Scene, block: u64) -> bool {
    let before = scene.counters().read_misses;
    let (into, at) = (Buf::new(8, GRAIN), Extent::new(block * 8, 8));
    assert_eq!(scene.ask(Request::Read { at, into }), Ok(()));
    scene.counters().read_misses > before
}

#[test]
fn after_a_pass_that_failed_only_the_backing_knows_what_is_there() {
    // While it is in flight, the written block becomes clean; or it does so afterwards.
    for still in [is_write as Which, is_flush] {
        let mut scene = scene(settings());
        scene.fill(1);
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert!(!misses(&mut scene, 0));
        for block in [5, 9] {
            assert_eq!(scene.ask(write(block, false)), Ok(()));
        }
        scene.state.hangs.set(Some(is_flush));
        let flush = scene.begin(Request::Flush);
        scene.pass_ns(5 * MS);
        scene.state.hangs.set(Some(|request| is_flush(request) || is_write(request)));
        let pass = scene.begin(write(5, true));
        scene.pass_ns(5 * MS);
        assert!(flush.borrow().is_none() && pass.borrow().is_none());
        scene.state.fails.set(Some(is_write));
        scene.state.hangs.set(Some(still));
        scene.pass_ns(5 * MS);
        assert!(flush.borrow().is_none() || pass.borrow().is_none());
        scene.state.hangs.set(None);
        scene.pass_ns(5 * MS);
        assert!(matches!(pass.take(), Some(Err(_))));
        assert_eq!(flush.take(), Some(Ok(())));
        assert!(misses(&mut scene, 5), "the copy is not kept");
        assert!(!misses(&mut scene, 9), "its neighbour's is");
    }
}

#[test]
fn what_has_passed_is_read_from_memory_and_what_it_replaced_is_not() {
    let mut scene = scene(settings());
    let bytes = |sectors: u32, byte: u8| {
        let from = Buf::new(sectors, GRAIN);
        from.write(&vec![byte; (sectors * GRAIN) as usize]);
        from
    };
    // Block 20 is in memory, clean; a part of block 21 is written through; block 22 is dirty.
    assert!(misses(&mut scene, 20));
    assert_eq!(scene.ask(write(22, false)), Ok(()));
    for (at, byte) in [(Extent::new(163, 2), 3), (Extent::new(168, 3), 4), (Extent::new(176, 8), 5)]
    {
        assert_eq!(
            scene.ask(Request::Write { at, from: bytes(at.count, byte), fua: true }),
            Ok(())
        );
    }
    assert_eq!(scene.counters().writes_through_fua, 3);
    let expected = |sector: u64| match sector {
        163..165 => 3,
        168..171 => 4,
        176..184 => 5,
        _ => 0,
    };
    let hits = scene.counters().read_hits;
    for (at, hit) in [
        (Extent::new(163, 2), true),
        (Extent::new(168, 3), true),
        (Extent::new(176, 8), true),
        (Extent::new(160, 8), true),
        (Extent::new(168, 8), false),
    ] {
        let into = Buf::new(at.count, GRAIN);
        let before = scene.counters().read_hits;
        assert_eq!(scene.ask(Request::Read { at, into: into.clone() }), Ok(()));
        assert_eq!(scene.counters().read_hits > before, hit, "{at:?}");
        for (index, sector) in into.to_vec().chunks(GRAIN as usize).enumerate() {
            assert!(sector.iter().all(|&byte| byte == expected(at.first + index as u64)), "{at:?}");
        }
    }
    assert_eq!(scene.counters().read_hits, hits + 4);
}

#[test]
fn what_is_dirty_outlives_a_pass_over_it_that_fails() {
    let mut scene = scene(settings());
    scene.fill(1);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.ask(write(5, false)), Ok(()));
    scene.state.fails.set(Some(is_write));
    assert!(scene.ask(write(5, true)).is_err());
    assert_eq!(scene.counters().writes_through_fua, 1);
    assert_eq!(scene.counters().blocks_dirty, 1, "it settles what is there");
    scene.state.fails.set(None);
    let written = scene.counters().blocks_written;
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.counters().blocks_written, written + 1);
    assert!(!misses(&mut scene, 5));
}

/// Returns whether a larger write is answered, in `ordered` mode, beside small writers that flush
/// and fill a small buffer as soon as there is room.
fn answered_beside_small_ones(at: Extent) -> bool {
    let settings = Settings {
        durability: Durability::Ordered,
        dirty_blocks_max: 16,
        dirty_age_ns: 100_000 * MS,
        ..settings()
    };
    let mut scene = scene(settings);
    for block in 0..3 {
        let (stack, lane) = (scene.stack.clone(), scene.lane.clone());
        let client = async move {
            loop {
                assert_eq!(stack.run(write(block, false)).await, Ok(()));
                assert_eq!(stack.run(Request::Flush).await, Ok(()));
                lane.sleep_until(lane.now() + 1000).await;
            }
        };
        scene.lane.spawn(client).expect("a lane has room");
    }
    scene.pass_ns(100 * MS);
    let from = Buf::new(at.count, GRAIN);
    let answer = scene.begin(Request::Write { at, from, fua: false });
    scene.pass_ns(1000 * MS);
    answer.take() == Some(Ok(()))
}

#[test]
fn in_order_a_write_that_is_larger_than_the_room_is_absorbed_in_pieces() {
    // The maximum of the open epoch is seven blocks.
    assert!(answered_beside_small_ones(Extent::new(4096, 8 * 8)));
    assert!(answered_beside_small_ones(Extent::new(4096, 5 * 8)));
    // One that overlaps dirty data in part.
    assert!(answered_beside_small_ones(Extent::new(20, 7 * 8)));
}

#[test]
fn what_is_written_while_writes_are_left_out_is_copied_only_where_a_copy_was_held() {
    // Copies cost more than an eighth of the backing's time, so that none is held until it is
    // durable.
    let mut scene = scene(Settings { fill_cost_ns: 1000 * MS, ..settings() });
    // The first blocks are not in the probe; reads are admitted as usual.
    scene.shared.force_bypass(false, true, 0);
    let held = |scene: &mut Scene, block: u64| {
        let hits = scene.counters().read_hits;
        assert_eq!(scene.ask(read(block)), Ok(()));
        scene.counters().read_hits > hits
    };
    assert_eq!(scene.ask(write(1, false)), Ok(()));
    assert_eq!(scene.counters().writes_through_guard, 1);
    assert!(!held(&mut scene, 1), "it was not read");
    assert!(held(&mut scene, 1));
    assert_eq!(scene.ask(write(1, false)), Ok(()));
    assert!(held(&mut scene, 1), "it is read");
    // A write-through for another reason is copied: it may be read.
    scene.shared.force_bypass(false, false, 0);
    assert_eq!(scene.ask(write(2, true)), Ok(()));
    assert_eq!(scene.counters().writes_through_fua, 1);
    assert!(held(&mut scene, 2));
}

/// Makes a buffer for 448 blocks of the open epoch whose last eighth has begun, over a backing that
/// accepts no write; also returns the first block that would have to wait.
fn filling(settings: Settings) -> (Scene, u64) {
    let settings = Settings { dirty_blocks_max: 1024, dirty_age_ns: 100_000 * MS, ..settings };
    let mut scene = scene(settings);
    scene.state.hangs.set(Some(is_write));
    scene.fill(380);
    let waits = |block: &u64| scene.cache.try_now(&write(*block, false)).is_none();
    let waits = (2000..3000).find(waits).expect("it fills up");
    (scene, waits)
}

/// Writes of about half of the maximum that is absorbed, one after the other into a buffer whose
/// last eighth has begun. Returns the number of write-throughs after each.
fn large_ones_passed(settings: Settings, blocks: &[u32], somebody_passes: bool) -> Vec<u64> {
    let mut scene = filling(settings).0;
    if somebody_passes {
        scene.begin(write(8191, true));
        scene.pass_ns(MS);
    }
    let passed = |(number, &blocks): (usize, &u32)| {
        scene.begin(write_blocks(4096 + number as u64 * 64, blocks));
        scene.pass_ns(MS);
        scene.counters().writes_through_large
    };
    blocks.iter().enumerate().map(passed).collect()
}

#[test]
fn what_is_as_efficient_alone_passes_a_buffer_that_fills_if_others_wait_or_pass() {
    // The first one is absorbed, and is throttled: then it is not alone.
    let one_run = Settings { workers: 1, ..settings() };
    assert_eq!(large_ones_passed(one_run, &[16, 16, 15, 16], false), [0, 1, 1, 2]);
    assert_eq!(large_ones_passed(one_run, &[16, 16, 15], true), [0, 1, 1]);
    // Two runs are in flight: two writers wait for them before one passes.
    let two_runs = Settings { workers: 2, ..settings() };
    assert_eq!(large_ones_passed(two_runs, &[16, 16, 16, 15, 16], false), [0, 0, 1, 1, 2]);
    // In `ordered` mode, a write-through would wait for closed epochs.
    let ordered = Settings { durability: Durability::Ordered, ..one_run };
    assert_eq!(large_ones_passed(ordered, &[16, 16], false), [0, 0]);
}

/// Writes half of the maximum that is absorbed while the backing flushes, into a buffer whose last
/// eighth has begun. Returns the number of write-throughs.
fn large_ones_passed_beside_a_flush(is_of_client: bool) -> u64 {
    let settings = Settings { dirty_blocks_max: 1024, dirty_age_ns: 100_000 * MS, ..settings() };
    let mut scene = begun(settings);
    scene.state.hangs.set(Some(|request| matches!(request, Request::Flush)));
    if is_of_client {
        scene.fill(1);
        scene.begin(Request::Flush);
    } else {
        scene.fill(345);
    }
    scene.pass_ns(50 * MS);
    scene.fill(394);
    let throughs = scene.counters().writes_through;
    scene.begin(write_blocks(4096, 16));
    scene.pass_ns(MS);
    scene.counters().writes_through - throughs
}

#[test]
fn a_large_write_passes_beside_a_flush_only_if_nothing_is_written_back() {
    assert_eq!(large_ones_passed_beside_a_flush(true), 1, "the backing would be idle");
    assert_eq!(
        large_ones_passed_beside_a_flush(false),
        0,
        "it writes back early, and flushes for that"
    );
}

#[test]
fn while_there_is_room_half_the_largest_is_absorbed_whoever_passes() {
    let mut scene = scene(settings());
    scene.keep_passing();
    assert_eq!(scene.ask(write_blocks(0, 16)), Ok(()));
    let counters = scene.counters();
    assert_eq!((counters.blocks_absorbed, counters.writes_through_large), (16, 0));
}

#[test]
fn what_must_wait_for_its_turn_is_not_absorbed_at_once() {
    let (scene, waits) = filling(settings());
    // The last eighth begins with 392; a few blocks are already in flight.
    let dirty = scene.shared.dirty_blocks();
    assert!((392..408).contains(&dirty), "{dirty}");
    let at_once = scene.cache.try_now(&write(waits - 1, false));
    assert_eq!(at_once, Some(Ok(())), "it is dirty, and takes no room");
}
