//! The discard of dirty data while some of it is still in flight to the backing.

use crate::scene::*;

const STALL_NS: u64 = 20 * MS;

impl Scene {
    fn discard(&mut self) -> Result<u64> {
        let (cache, answer) = (self.cache.clone(), Rc::new(Cell::new(None)));
        let into = answer.clone();
        let discard = async move { into.set(Some(cache.discard_dirty().await)) };
        self.lane.spawn(discard).expect("a lane has room");
        assert!(self.world.run_until(|| answer.get().is_some()));
        answer.take().expect("it is there")
    }
}

/// Checks that the discard is refused, and changes nothing, until the requests of `begin` are
/// answered.
fn refused_while(begin: fn(&mut Scene), dirty: u64) {
    let settings = Settings { stall_time_ns: STALL_NS, dirty_blocks_max: 64, ..settings() };
    let mut scene = scene_of(settings, 4);
    scene.state.hangs.set(Some(Request::is_change));
    begin(&mut scene);
    scene.pass_ns(2 * STALL_NS);
    assert!(scene.shared.has_failed(), "the backing does not answer");
    for _ in 0..2 {
        let refused = scene.discard();
        assert!(refused.is_err_and(|error| error.doing.contains("has not answered")));
        assert_eq!(scene.counters().blocks_dirty, dirty);
    }
    // Answered at last, and cleared: the volume continues as if no discard had been requested.
    scene.state.hangs.set(None);
    scene.pass_ns(2 * STALL_NS);
    scene.shared.clear_error();
    for block in (0..1024).step_by(64) {
        assert_eq!(scene.ask(write(block, false)), Ok(()));
    }
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    assert_eq!(scene.counters().blocks_dirty, 0);
    scene.shared.check();
}

#[test]
fn nothing_is_given_up_while_a_change_passes() {
    refused_while(
        |scene| {
            scene.fill(3);
            scene.begin(write(999, true));
        },
        3,
    );
}

#[test]
fn nothing_is_given_up_while_something_is_written_out() {
    refused_while(
        |scene| {
            scene.fill(3);
            scene.begin(Request::Flush);
        },
        3,
    );
    // Early: no task leads.
    refused_while(|scene| scene.fill(24), 24);
}

#[test]
fn nothing_is_given_up_while_zeros_are_written_out() {
    refused_while(
        |scene| {
            let at = Extent::new(900 * 8, 16);
            assert_eq!(scene.ask(Request::Zero { at, fua: false, may_unmap: true }), Ok(()));
            scene.begin(Request::Flush);
        },
        0,
    );
}

#[test]
fn what_was_given_up_has_no_age() {
    let settings = Settings { stall_time_ns: STALL_NS, dirty_blocks_max: 64, ..settings() };
    let mut scene = scene_of(settings, 4);
    scene.fill(3);
    // No task has closed its epoch when the volume fails.
    scene.state.hangs.set(Some(Request::is_change));
    scene.begin(write(999, true));
    scene.pass_ns(2 * STALL_NS);
    assert!(scene.shared.has_failed() && scene.counters().dirty_age_ns > STALL_NS);
    scene.state.hangs.set(None);
    scene.pass_ns(2 * STALL_NS);
    assert_eq!(scene.discard(), Ok(3));
    assert_eq!((scene.counters().dirty_age_ns, scene.counters().blocks_dirty), (0, 0));
    scene.pass_ns(3000 * MS);
    assert_eq!(scene.counters().epochs, 0, "there is nothing to write out");
    assert_eq!(scene.ask(write(5, false)), Ok(()));
    assert!(scene.counters().dirty_age_ns < MS);
}
