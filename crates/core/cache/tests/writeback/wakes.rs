//! A waiting task is woken, for every interleaving of the steps of the tasks that wake it.

use crate::scene::*;

/// Lets the world go on until `done`. Returns false if that never happens.
fn goes_on_until(scene: &mut Scene, mut done: impl FnMut() -> bool) -> bool {
    (0..100_000).any(|_| done() || !scene.world.step()) && done()
}

#[test]
fn what_a_pass_held_back_is_written_out_while_a_member_of_the_crew_still_looks_elsewhere() {
    for seed in 0..300 {
        let mut scene = scene_by(seed, settings(), 8);
        // The time of a block is known: shortly after a write-through, one run at a time is in
        // flight.
        assert_eq!(scene.ask(write(5, false)), Ok(()));
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        assert_eq!(scene.ask(write(5, false)), Ok(()));
        // A write-through that will fail: the version that it overlaps must still be written back
        // then.
        scene.state.fails.set(Some(is_write));
        scene.state.hangs.set(Some(is_write));
        let pass = scene.begin(write(5, true));
        // (Or the workers are first, and it waits for them: then there is nothing to check.)
        let mut steps = 0..100;
        while steps.next().is_some() && scene.counters().writes_through == 0 {
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

#[test]
fn a_flush_ends_although_clients_go_on_to_fail_where_it_is_to_write() {
    fn is_fifth(request: &Request) -> bool {
        request.extent().is_some_and(|at| at.first == 5 * 8)
    }
    for clients in [1, 2, 5] {
        let mut scene = scene(settings());
        assert_eq!(scene.ask(write(5, false)), Ok(()));
        scene.state.fails.set(Some(is_fifth));
        for _ in 0..clients {
            let (stack, lane) = (scene.stack.clone(), scene.lane.clone());
            let client = async move {
                while stack.run(write(5, true)).await.is_err() {
                    lane.sleep_until(lane.now() + MS).await;
                }
            };
            scene.lane.spawn(client).expect("a lane has room");
        }
        scene.pass_ns(10 * MS);
        let flush = scene.begin(Request::Flush);
        scene.pass_ns(300 * MS);
        assert!(matches!(flush.take(), Some(Err(_))), "{clients}");
        assert!(scene.shared.has_failed());
        // After the error is cleared, the blocks are written, and the clients' writes are written
        // through.
        scene.state.fails.set(None);
        scene.shared.clear_error();
        assert_eq!(scene.ask(Request::Flush), Ok(()));
        scene.pass_ns(10 * MS);
        assert_eq!(scene.counters().blocks_dirty, 0);
    }
}
