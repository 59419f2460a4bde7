//! Whoever waits is woken, however the steps of those who wake him fall.

use crate::scene::*;

/// Lets the world go on until then; false: it never comes.
fn goes_on_until(scene: &mut Scene, mut done: impl FnMut() -> bool) -> bool {
    (0..100_000).any(|_| done() || !scene.world.step()) && done()
}

#[test]
fn what_a_pass_held_back_is_written_out_while_a_member_of_the_crew_still_looks_elsewhere() {
    for seed in 0..300 {
        let mut scene = scene_by(seed, settings(), 8);
        // What a block takes is known: just behind a pass, one run at a time is under way.
        assert_eq!(scene.ask(write(5, false)), Ok(()));
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert_eq!(scene.ask(write(5, false)), Ok(()));
        // A pass that will fail: what it meets is still to be written out then.
        scene.state.fails.set(Some(is_write));
        scene.state.hangs.set(Some(is_write));
        let pass = scene.begin(write(5, true));
        // (Or the crew is first, and it waits for that: then there is nothing to see.)
        let mut steps = 0..100;
        while steps.next().is_some() && scene.counters().passes == 0 {
            scene.world.step();
        }
        let (state, lane) = (scene.state.clone(), scene.lane.clone());
        let end = async move {
            for _ in 0..seed % 40 {
                lane.sleep_until(lane.now() + 1000).await;
            }
            state.hangs.set(None);
        };
        scene.lane.spawn(end).expect("a lane has room");
        let drained = Rc::new(Cell::new(None));
        let (cache, into) = (scene.cache.clone(), drained.clone());
        let drain = async move { into.set(Some(cache.drain().await)) };
        scene.lane.spawn(drain).expect("a lane has room");
        assert!(goes_on_until(&mut scene, || pass.borrow().is_some()), "seed {seed}");
        scene.state.fails.set(None);
        assert!(goes_on_until(&mut scene, || drained.get().is_some()), "seed {seed}");
        assert_eq!(drained.get(), Some(Ok(())), "seed {seed}");
    }
}
