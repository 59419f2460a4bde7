//! The contents of a run of writeback.

use crate::scene::*;

/// Returns the blocks that were written back, runs, and requests to the backing.
fn written(scene: &Scene) -> (u64, u64, u32) {
    let counters = scene.counters();
    (counters.blocks_written, counters.runs_written, scene.state.writes_sent.get())
}

#[test]
fn neighbours_are_one_run_up_to_its_length_and_one_request() {
    let mut scene = scene(settings());
    // 20 to 43, the last ones first; 50 alone.
    for block in (20..44).rev().chain([50]) {
        assert_eq!(scene.ask(write(block, false)), Ok(()));
    }
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(written(&scene), (25, 4, 4));
}

#[test]
fn one_block_beyond_the_length_or_the_border_is_a_run_of_its_own() {
    for blocks in [20..29, 60..65] {
        let mut scene = scene(settings());
        let count = blocks.end - blocks.start;
        for block in blocks {
            assert_eq!(scene.ask(write(block, false)), Ok(()));
        }
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert_eq!(written(&scene), (count, 2, 2));
    }
}

#[test]
fn blocks_held_in_part_join_where_there_is_no_gap() {
    let part = |first: u64, sectors: u32| Request::Write {
        at: Extent::new(first, sectors),
        from: Buf::new(sectors, GRAIN),
        fua: false,
    };
    // The parts of a block that touch its neighbour's; then those that do not.
    for (parts, expected) in [
        (vec![part(164, 4), part(168, 8), part(176, 3)], (3, 1, 1)),
        (vec![part(160, 4), part(168, 8)], (2, 2, 2)),
        (vec![part(160, 8), part(170, 6)], (2, 2, 2)),
        (vec![part(160, 2), part(164, 2)], (1, 1, 2)),
    ] {
        let mut scene = scene(settings());
        for request in parts {
            assert_eq!(scene.ask(request), Ok(()));
        }
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert_eq!(written(&scene), expected);
    }
}

#[test]
fn runs_end_at_the_border_of_a_region() {
    let mut scene = scene_of(settings(), 4);
    for block in 60..68 {
        assert_eq!(scene.ask(write(block, false)), Ok(()));
    }
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(written(&scene), (8, 2, 2));
}

/// The workers have planned blocks from `seed` on while the only worker waits for an answer, and
/// the blocks of `late` become dirty during that time.
fn below_the_plan(seed: u64, late: std::ops::Range<u64>) -> (u64, u64) {
    // The maximum of the open epoch is 32: early from 24 on, down to 16.
    let settings =
        Settings { dirty_blocks_max: 73, dirty_age_ns: 100_000 * MS, workers: 1, ..settings() };
    let mut scene = scene(settings);
    scene.state.hangs.set(Some(is_write));
    for block in [0, seed].into_iter().chain((0..22).map(|more| 200 + 2 * more)) {
        assert_eq!(scene.ask(write(block, false)), Ok(()));
    }
    scene.pass_ns(MS);
    // In descending order, which is no ready run.
    for block in late.rev() {
        // The last of them wait for writeback.
        scene.begin(write(block, false));
        scene.pass_ns(1000);
    }
    scene.state.hangs.set(None);
    scene.pass_ns(100 * MS);
    let counters = scene.counters();
    (counters.blocks_early, counters.runs_written)
}

#[test]
fn a_run_takes_along_what_lies_before_it_too() {
    // The first alone, then 133 to 140, then eight alone: sixteen stay.
    assert_eq!(below_the_plan(140, 131..140), (17, 10));
    // Not beyond the region, which begins at 128.
    assert_eq!(below_the_plan(130, 126..130), (12, 10));
}

#[test]
fn a_lane_is_informed_how_many_tasks_it_must_have_room_for() {
    let scene = scene(Settings { workers: 5, stall_time_ns: 1000 * MS, ..settings() });
    assert_eq!(scene.shared.tasks_a_lane(), scene.lane.tasks());
}

#[test]
fn a_range_of_zeros_is_sent_as_few_requests_as_its_epoch_leaves_of_it() {
    let mut scene = begun(settings());
    let sent = |scene: &mut Scene, over: &[u64]| {
        let at = Extent::new(0, 40 * 8);
        assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: false }), Ok(()));
        over.iter().for_each(|&block| assert_eq!(scene.ask(write(block, false)), Ok(())));
        let before = scene.state.zeros.get();
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        scene.state.zeros.get() - before
    };
    assert_eq!(sent(&mut scene, &[]), 1);
    assert_eq!(sent(&mut scene, &[0, 39]), 1);
    assert_eq!(sent(&mut scene, &[7, 8, 20]), 3);
}
