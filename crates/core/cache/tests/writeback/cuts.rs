//! Changes that can neither be written through nor absorbed as a whole.

use crate::scene::*;

fn is_low_write(request: &Request) -> bool {
    is_write(request) && request.extent().is_some_and(|at| at.first < 32)
}

#[test]
fn what_is_cut_after_it_has_waited_is_counted_once() {
    let mut scene = begun(Settings { durability: Durability::Ordered, ..settings() });
    scene.state.hangs.set(Some(is_write));
    let before = scene.counters().blocks_requested;
    let pass = scene.begin(write_blocks(4096, 64));
    let waits = scene.begin(write_blocks(4096, 64));
    scene.pass_ns(5 * MS);
    // In between an epoch is closed: the change may no longer be written through.
    assert_eq!(scene.ask(write(0, false)), Ok(()));
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.state.hangs.set(Some(is_low_write));
    scene.pass_ns(5 * MS);
    assert_eq!((pass.take(), waits.take()), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(scene.counters().writes_through_large, 1);
    assert_eq!(scene.counters().blocks_requested, before + 64 + 64 + 1);
}

#[test]
fn a_write_that_is_larger_than_the_room_does_not_wait_for_those_who_go_on_to_write_a_part_of_its_blocks()
 {
    let part = |first: u64| Request::Write {
        at: Extent::new(first * 8 + 3, 1),
        from: Buf::new(1, GRAIN),
        fua: false,
    };
    for fua in [false, true] {
        let mut scene = scene(Settings { dirty_blocks_max: 16, ..settings() });
        let (stack, lane) = (scene.stack.clone(), scene.lane.clone());
        let client = async move {
            loop {
                assert_eq!(stack.run(part(5)).await, Ok(()));
                lane.sleep_until(lane.now() + MS / 10).await;
            }
        };
        scene.lane.spawn(client).expect("a lane has room");
        scene.pass_ns(10 * MS);
        let (at, from) = (Extent::new(0, 64 * 8), Buf::new(64 * 8, GRAIN));
        let answer = scene.begin(Request::Write { at, from, fua });
        scene.pass_ns(500 * MS);
        assert_eq!(answer.take(), Some(Ok(())), "{fua}");
        assert!(scene.counters().writes_urgent < 5, "{}", scene.counters().writes_urgent);
    }
}
