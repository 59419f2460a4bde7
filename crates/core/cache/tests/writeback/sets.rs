//! Settings that change while clients write, or wait.

use crate::scene::*;
use cache::Changes;

impl Scene {
    fn set(&mut self, changes: Changes) -> Result {
        let (cache, answer) = (self.cache.clone(), Rc::new(Cell::new(None)));
        let into = answer.clone();
        let change = async move { into.set(Some(cache.set(&changes).await)) };
        self.lane.spawn(change).expect("a lane has room");
        assert!(self.world.run_until(|| answer.get().is_some()));
        answer.take().expect("it is there")
    }
}

#[test]
fn who_waits_while_the_write_mode_changes_does_what_the_new_one_says() {
    let mut scene = scene(settings());
    scene.state.hangs.set(Some(is_write));
    let pass = scene.begin(write(5, true));
    scene.pass_ns(MS);
    let waits = scene.begin(write(5, false));
    scene.pass_ns(MS);
    assert!(waits.borrow().is_none());
    let through = Changes { write: Some(WriteMode::Through), ..Changes::default() };
    assert_eq!(scene.set(through), Ok(()));
    scene.state.hangs.set(None);
    scene.pass_ns(10 * MS);
    assert_eq!((pass.take(), waits.take()), (Some(Ok(())), Some(Ok(()))));
    // Nothing is absorbed after `set` has returned.
    assert_eq!((scene.counters().blocks_dirty, scene.counters().writes_through_mode), (0, 1));
}

#[test]
fn what_a_smaller_flush_target_allows_holds_when_it_is_set_though_clients_go_on() {
    let mut scene = scene(settings());
    scene.fill(3000);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.keep_writing(32, BLOCKS);
    scene.pass_ns(500 * MS);
    let before = scene.counters().flush_predicted_ns;
    assert!(before > 100 * MS, "{before}");
    let target = Changes { flush_target_ns: Some(50 * MS), ..Changes::default() };
    assert_eq!(scene.set(target), Ok(()));
    let after = scene.counters().flush_predicted_ns;
    // The rate was measured again in between.
    assert!(after < 75 * MS, "{after}");
}

#[test]
fn nothing_is_older_than_a_smaller_dirty_age_when_it_is_set_and_a_larger_one_waits_for_nothing() {
    let mut scene = scene(Settings { dirty_age_ns: 60_000 * MS, ..settings() });
    scene.fill(10);
    scene.pass_ns(500 * MS);
    let age = |ms: u64| Changes { dirty_age_ns: Some(ms * MS), ..Changes::default() };
    assert_eq!(scene.set(age(100)), Ok(()));
    let counters = scene.counters();
    assert_eq!((counters.blocks_dirty, counters.dirty_age_ns), (0, 0));
    scene.fill(10);
    let dirty = scene.counters().blocks_dirty;
    assert_eq!(scene.set(age(5000)), Ok(()));
    assert_eq!((scene.counters().blocks_dirty, dirty), (10, 10));
}

#[test]
fn once_the_order_is_kept_that_an_earlier_process_has_promised_the_flush_target_holds() {
    let memory = fresh();
    let flush = Settings { flush_target_ns: 100 * MS, dirty_age_ns: 10_000 * MS, ..settings() };
    let ordered = Settings { durability: Durability::Ordered, ..flush };
    let mut before = scene_over(ordered, 1, memory.clone());
    before.pass_ns(500 * MS);
    // Nothing is dirty at the kill; but its write-throughs count as a closed epoch.
    drop(before);
    let mut scene = scene_over(flush, 1, memory);
    scene.pass_ns(500 * MS);
    let counters = scene.counters();
    assert_eq!((counters.epochs, counters.epochs_closed), (1, 0));
    // 12 800 blocks per second, as assumed: 1 280 in a tenth of one.
    assert!(counters.allowance_blocks <= 1280, "{}", counters.allowance_blocks);
}

#[test]
fn a_limit_holds_when_it_is_set_also_for_what_was_taken_over() {
    let memory = fresh();
    let mut before = scene_over(settings(), 1, memory.clone());
    before.fill(10);
    drop(before);
    let mut scene = scene_over(Settings { dirty_blocks_max: 4, ..settings() }, 1, memory);
    let slow = Times { write: 10 * MS, ..Times::default() };
    scene.state.times.set(slow);
    assert_eq!(scene.shared.dirty_blocks(), 10);
    // The limit that it already has.
    let limit = Changes { dirty_blocks_max: Some(4), ..Changes::default() };
    assert_eq!(scene.set(limit), Ok(()));
    assert!(scene.shared.dirty_blocks() <= 4, "{}", scene.shared.dirty_blocks());
}

#[test]
fn what_is_just_as_much_as_a_limit_allows_is_not_written_out_when_it_is_set() {
    let memory = fresh();
    let mut before = scene_over(settings(), 1, memory.clone());
    before.fill(4);
    drop(before);
    let mut scene = scene_over(Settings { dirty_blocks_max: 4, ..settings() }, 1, memory);
    scene.state.times.set(Times { write: 10 * MS, ..Times::default() });
    let limit = Changes { dirty_blocks_max: Some(4), ..Changes::default() };
    assert_eq!(scene.set(limit), Ok(()));
    assert_eq!(scene.shared.dirty_blocks(), 4);
}

#[test]
fn what_may_wait_follows_the_flush_target_or_in_ordered_mode_the_dirty_age() {
    let mut scene = scene(Settings { flush_target_ns: 100 * MS, ..settings() });
    scene.state.times.set(Times { flush: 0, ..Times::default() });
    // 12 800 blocks per second, as assumed: 1 280 in a tenth of one, and more than the settings
    // allow in two.
    assert_eq!(scene.counters().allowance_blocks, 1280);
    let durability = |durability| Changes { durability: Some(durability), ..Changes::default() };
    assert_eq!(scene.set(durability(Durability::Ordered)), Ok(()));
    assert_eq!(scene.counters().allowance_blocks, 8192);
    assert_eq!(scene.set(durability(Durability::Flush)), Ok(()));
    assert_eq!(scene.counters().allowance_blocks, 1280);
}

#[test]
fn no_order_begins_when_settings_change_during_a_flush() {
    let mut scene = scene(Settings { flush_target_ns: 100 * MS, ..settings() });
    scene.fill(10);
    scene.state.hangs.set(Some(|request| matches!(request, Request::Flush)));
    let flush = scene.begin(Request::Flush);
    scene.pass_ns(100 * MS);
    assert!(flush.borrow().is_none());
    let age = Changes { dirty_age_ns: Some(3000 * MS), ..Changes::default() };
    assert_eq!(scene.set(age), Ok(()));
    let counters = scene.counters();
    assert_eq!((counters.epochs_closed, counters.allowance_blocks), (1, 1280));
}
