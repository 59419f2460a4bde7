//! The number of runs in flight, alone and beside other requests.

use crate::scene::*;

#[test]
fn the_crew_makes_way_for_readers_and_more_so_for_changes_that_pass() {
    let most = |before: fn(&mut Scene)| {
        let mut scene = scene(settings());
        before(&mut scene);
        scene.fill(100);
        // Half of `dirty_age` is over: all of it is written back, but without urgency.
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
    let written = scene.counters().runs_written;
    assert!(written > 1000, "{written}: and as long as that is so");
}

#[test]
fn a_buffer_that_fills_up_is_emptied_whoever_reads() {
    let mut scene = scene(Settings { dirty_blocks_max: 128, ..settings() });
    scene.keep_reading();
    // Half of it is for the open epoch; from three eighths of the whole on the workers write early.
    for block in 0..64 {
        scene.begin(write(2 * block, false));
    }
    scene.pass_ns(2 * MS);
    assert!(scene.most() >= 4);
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
fn one_worker_writes_back_all_shards_alike() {
    // A shard has 1,920 dirty slots at most, less than a third of the open epoch.
    let settings = Settings { dirty_blocks_max: 16_384, workers: 1, ..settings() };
    let mut scene = scene_of(Settings { dirty_age_ns: 1_000_000 * MS, ..settings }, 8);
    scene.state.times.set(Times { write: MS / 10, ..Times::default() });
    scene.keep_writing(2, BLOCKS);
    scene.pass_ns(3000 * MS);
    let counters = scene.counters();
    assert!(counters.changes_slowed > 10_000, "{}", counters.changes_slowed);
    assert_eq!(counters.writes_through_full, 0, "a shard was full while others were not");
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
fn who_reads_a_whole_block_is_answered_while_others_go_on_to_write_a_part_of_it() {
    let mut scene = scene(Settings { write: WriteMode::Through, ..settings() });
    // Reads take longer: a write ends while one is in flight.
    scene.state.times.set(Times { read: 3 * MS / 2, ..Times::default() });
    assert_eq!(scene.ask(read(5)), Ok(()));
    for _ in 0..4 {
        let stack = scene.stack.clone();
        let task = async move {
            loop {
                let (at, from) = (Extent::new(5 * 8, 4), Buf::new(4, GRAIN));
                assert_eq!(stack.run(Request::Write { at, from, fua: false }).await, Ok(()));
            }
        };
        scene.lane.spawn(task).expect("a lane has room");
    }
    scene.pass_ns(10 * MS + MS / 3);
    let answer = scene.begin(read(5));
    scene.pass_ns(20 * MS);
    assert_eq!(answer.take(), Some(Ok(())));
}
