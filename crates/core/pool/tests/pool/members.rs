//! Checks of members: in their order, all of one pool, and blank before.

use crate::common::{byte_of, drive, member, open, pool_of, run, world, write};
use block::{Extent, Request, Stack};
use lane::{Lane, World};
use pool::{MemberState, MissingDevice, Pool, Reason, Refusal};

const SLOTS: u64 = 600;

fn three(lane: &Lane) -> Vec<Stack> {
    (0..3).map(|_| member(lane, SLOTS, &drive(200))).collect()
}

fn refusal(world: &mut World, lane: &Lane, members: Vec<Option<Stack>>) -> Option<Refusal> {
    run(world, lane, async move { pool::open(&members).await.err() })
}

fn all(members: &[&Stack]) -> Vec<Option<Stack>> {
    members.iter().map(|member| Some((*member).clone())).collect()
}

#[test]
fn what_is_not_this_pool_in_its_order_is_refused() {
    let (mut world, lane) = world();
    let members = three(&lane);
    let others = three(&lane);
    let ask = |members: Vec<Option<Stack>>, world: &mut World| {
        refusal(world, &lane, members).map(|it| (it.member, it.reason))
    };
    let [one, two, three] = &members[..] else { panic!() };
    assert_eq!(ask(all(&[one, two, three]), &mut world), Some((Some(0), Reason::Blank)));
    pool_of(&mut world, &lane, &members);
    let all_others = others.clone();
    run(&mut world, &lane, async move { pool::create(&all_others, 8, false).await })
        .expect("blank members");
    assert_eq!(ask(all(&[one, two, three]), &mut world), None);
    let wrong = Some((Some(1), Reason::WrongPlace(3)));
    assert_eq!(ask(all(&[one, three, two]), &mut world), wrong);
    assert_eq!(ask(all(&[one, two]), &mut world), Some((Some(0), Reason::WrongCount(3))));
    let foreign = all(&[one, two, &others[2]]);
    assert_eq!(ask(foreign, &mut world), Some((Some(2), Reason::OtherPool)));
    let again = members.clone();
    let refused = run(&mut world, &lane, async move { pool::create(&again, 9, false).await });
    let not_blank = Refusal { member: Some(0), reason: Reason::NotBlank };
    assert_eq!(refused, Err(not_blank));
    let first = one.clone();
    run(&mut world, &lane, async move { first.run(write(0, 1, 3)).await }).expect("memory");
    assert_eq!(ask(all(&[one, two, three]), &mut world), Some((Some(0), Reason::Foreign)));
}

#[test]
fn a_missing_member_takes_its_slots_along_and_is_renewed_when_it_comes_back() {
    let (mut world, lane) = world();
    let members = three(&lane);
    let (_, stack) = pool_of(&mut world, &lane, &members);
    let on = lane.clone();
    run(&mut world, &lane, async move {
        for slot in 0..60 {
            stack.run(write(slot, 1, 10)).await.expect("a sound pool");
        }
        stack.run(Request::Flush).await.expect("a sound pool");
        let mut without = members.clone();
        without[1] = Stack::new(&on, MissingDevice::new(members[0].limits().clone()));
        let there = [Some(members[0].clone()), None, Some(members[2].clone())];
        let shared = pool::open(&there).await.expect("two of three");
        assert_eq!(shared.statistics()[1].state, MemberState::Failed);
        let stack = Stack::new(&on, Pool::attach(&shared, &on, without));
        let mut lost = Vec::new();
        for slot in 0..60 {
            match byte_of(&stack, slot).await {
                Ok(byte) => assert_eq!(byte, 10),
                Err(_) => lost.push(slot),
            }
        }
        assert_eq!(lost.len(), 20, "a third of what was written evenly");
        for slot in &lost[..10] {
            stack.run(write(*slot, 1, 11)).await.expect("room on the others");
        }
        stack.run(Request::Flush).await.expect("two members do");
        // The member is back, with an old map, which must be ignored.
        let (_, stack) = open(&on, &members).await;
        for slot in 0..60 {
            let expected = if lost[..10].contains(&slot) { 11 } else { 10 };
            assert_eq!(byte_of(&stack, slot).await, Ok(expected), "slot {slot}");
        }
    });
}

#[test]
fn sides_that_were_used_apart_do_not_come_together() {
    let (mut world, lane) = world();
    let members = three(&lane);
    pool_of(&mut world, &lane, &members);
    let [one, two, three] = &members[..] else { panic!() };
    let there = |members: [Option<&Stack>; 3]| members.map(|it| it.cloned()).to_vec();
    assert_eq!(refusal(&mut world, &lane, there([Some(one), Some(two), None])), None);
    assert_eq!(refusal(&mut world, &lane, there([None, None, Some(three)])), None);
    let refused = refusal(&mut world, &lane, there([Some(one), Some(two), Some(three)]));
    assert_eq!(refused.map(|it| it.reason), Some(Reason::Split));
}

#[test]
fn members_that_were_gone_in_turn_come_together() {
    let (mut world, lane) = world();
    let members = three(&lane);
    pool_of(&mut world, &lane, &members);
    let [one, two, three] = &members[..] else { panic!() };
    let there = |members: [Option<&Stack>; 3]| members.map(|it| it.cloned()).to_vec();
    // Without the first, then without the second: the third has records of all changes.
    assert_eq!(refusal(&mut world, &lane, there([None, Some(two), Some(three)])), None);
    assert_eq!(refusal(&mut world, &lane, there([Some(one), None, Some(three)])), None);
    assert_eq!(refusal(&mut world, &lane, there([Some(one), Some(two), Some(three)])), None);
}

#[test]
fn only_the_owner_is_informed_of_a_discard_and_only_once_it_is_durable() {
    let (mut world, lane) = world();
    let members = three(&lane);
    let (shared, stack) = pool_of(&mut world, &lane, &members);
    let (on, pool) = (lane.clone(), shared.clone());
    run(&mut world, &lane, async move {
        let trims = || pool.statistics().iter().map(|it| it.trims).collect::<Vec<_>>();
        stack.run(write(0, 4, 5)).await.expect("a sound pool");
        let owner = pool.statistics().iter().position(|it| it.written_bytes > 0).expect("one");
        stack.run(Request::Discard { at: Extent::new(0, 32) }).await.expect("a sound pool");
        assert_eq!(byte_of(&stack, 0).await, Ok(0));
        assert_eq!(trims(), [0; 3]);
        stack.run(Request::Flush).await.expect("a sound pool");
        on.sleep_until(on.now() + 10_000_000).await;
        let mut expected = [0; 3];
        expected[owner] = 1;
        assert_eq!(trims(), expected);
        let status = stack.status(Extent::new(0, 64)).await.expect("no device is asked");
        assert!(status[0].zero && status[0].hole && status[0].sectors == 64, "{status:?}");
    });
}

#[test]
fn large_writes_lie_in_one_piece_and_a_full_pool_can_be_overwritten() {
    let (mut world, lane) = world();
    let members = three(&lane);
    let (shared, stack) = pool_of(&mut world, &lane, &members);
    let slots = stack.limits().sectors / 8;
    run(&mut world, &lane, async move {
        for slot in (0..slots - 8).step_by(8) {
            stack.run(write(slot, 8, 1)).await.expect("room");
        }
        let writes: u64 = shared.statistics().iter().map(|it| it.writes).sum();
        assert_eq!(writes, (slots - 8).div_ceil(8), "one piece each");
        for round in 2..5 {
            for slot in 0..slots {
                stack.run(write(slot, 1, round)).await.expect("a place is always free");
            }
        }
        for slot in 0..slots {
            assert_eq!(byte_of(&stack, slot).await, Ok(4), "slot {slot}");
        }
    });
}
