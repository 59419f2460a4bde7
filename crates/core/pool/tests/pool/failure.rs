//! A member that fails while it is used.

use crate::common::{byte_of, drive, failing, member, open, pool_of, run, world, write};
use block::{FaultsSpec, Request, Stack};
use pool::MemberState;

const SLOTS: u64 = 600;

/// Returns two members, of which the second fails as in `faults` once a pool is made of them.
fn two(lane: &lane::Lane, faults: &FaultsSpec) -> (Vec<Stack>, Vec<Stack>) {
    let sound: Vec<Stack> = (0..2).map(|_| member(lane, SLOTS, &drive(200))).collect();
    let bad = vec![sound[0].clone(), failing(lane, sound[1].clone(), faults)];
    (sound, bad)
}

#[test]
fn writes_that_a_member_refuses_go_to_another() {
    let (mut world, lane) = world();
    // The first write is the block that begins the life.
    let faults = FaultsSpec { write_from: 10, ..FaultsSpec::default() };
    let (sound, bad) = two(&lane, &faults);
    pool_of(&mut world, &lane, &sound);
    let on = lane.clone();
    run(&mut world, &lane, async move {
        let (shared, stack) = open(&on, &bad).await;
        for slot in 0..40 {
            stack.run(write(slot, 1, 7)).await.expect("another member takes it");
        }
        stack.run(Request::Flush).await.expect("nothing is lost");
        let statistics = shared.statistics();
        assert_eq!(statistics[0].state, MemberState::Good);
        assert_eq!(statistics[1].state, MemberState::Failed);
        assert!(statistics[1].errors > 0 && statistics[1].writes > 0, "{statistics:?}");
        for slot in 0..40 {
            assert_eq!(byte_of(&stack, slot).await, Ok(7), "what it took is read from it");
        }
        // Same after a restart, which uses the member again.
        let (_, stack) = open(&on, &sound).await;
        for slot in 0..40 {
            assert_eq!(byte_of(&stack, slot).await, Ok(7));
        }
    });
}

#[test]
fn a_flush_that_a_member_refuses_is_reported_once_and_what_it_lost_is_never_shown_as_good() {
    let (mut world, lane) = world();
    // The first two flushes are those of the opening.
    let faults = FaultsSpec { flush_from: 3, ..FaultsSpec::default() };
    let (sound, bad) = two(&lane, &faults);
    pool_of(&mut world, &lane, &sound);
    let on = lane.clone();
    run(&mut world, &lane, async move {
        let (_, stack) = open(&on, &bad).await;
        for slot in 0..30 {
            stack.run(write(slot, 1, 7)).await.expect("it is only the flush");
        }
        assert!(stack.run(Request::Flush).await.is_err());
        assert_eq!(stack.run(Request::Flush).await, Ok(()), "it was told");
        let mut lost = Vec::new();
        for slot in 0..30 {
            match byte_of(&stack, slot).await {
                Ok(byte) => assert_eq!(byte, 7),
                Err(_) => lost.push(slot),
            }
        }
        assert_eq!(lost.len(), 15);
        stack.run(write(lost[0], 1, 8)).await.expect("the other member takes it");
        stack.run(Request::Flush).await.expect("one member is left");
        let (_, stack) = open(&on, &sound).await;
        assert_eq!(byte_of(&stack, lost[0]).await, Ok(8));
        for slot in &lost[1..] {
            assert!(byte_of(&stack, *slot).await.is_err(), "after a restart, too");
        }
    });
}

#[test]
fn when_all_members_have_failed_everything_that_changes_fails() {
    let (mut world, lane) = world();
    let (sound, _) = two(&lane, &FaultsSpec::default());
    pool_of(&mut world, &lane, &sound);
    let faults = FaultsSpec { write_from: 2, ..FaultsSpec::default() };
    let bad: Vec<Stack> = sound.iter().map(|it| failing(&lane, it.clone(), &faults)).collect();
    let on = lane.clone();
    run(&mut world, &lane, async move {
        let (_, stack) = open(&on, &bad).await;
        assert!(stack.run(write(0, 1, 1)).await.is_err());
        assert_eq!(byte_of(&stack, 0).await, Ok(0));
    });
}
