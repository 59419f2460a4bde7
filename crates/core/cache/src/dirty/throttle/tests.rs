use super::*;
use crate::dirty::limits::DirtyLimits;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lane::World;

/// The last part of a room of 8,000 blocks.
const LAST: u32 = 1000;

/// Runs tasks that each claim one block at this price. Returns the number of answered tasks after
/// each of the steps.
fn answered(
    throttle: &Arc<Throttle>,
    price: u64,
    writers: u32,
    steps: &[fn(&Throttle)],
) -> Vec<u32> {
    let mut world = World::chosen(7);
    let lane = world.lane();
    let done = Arc::new(AtomicU32::new(0));
    for _ in 0..writers {
        let (throttle, done) = (throttle.clone(), done.clone());
        let writer = async move {
            if let ThrottleWait::After(mine) = throttle.claim(price) {
                let _waiting = throttle.begin_wait();
                throttle.after(mine).await;
            }
            done.fetch_add(1, Ordering::SeqCst);
        };
        lane.spawn(writer).expect("a lane has room for them");
    }
    let step = |step: &fn(&Throttle)| {
        step(throttle);
        while world.step() {}
        done.load(Ordering::SeqCst)
    };
    steps.iter().map(step).collect()
}

#[test]
fn a_writer_waits_for_as_many_blocks_as_it_brings_and_no_longer() {
    let throttle = Arc::new(Throttle::default());
    throttle.work_begins();
    let steps: [fn(&Throttle); 4] = [
        |_| (),
        |throttle| throttle.grant(1, LAST),
        |throttle| throttle.grant(3, LAST),
        |throttle| {
            throttle.grant(200, LAST);
        },
    ];
    assert_eq!(answered(&throttle, ONE, 100, &steps), [0, 1, 4, 100]);
    assert_eq!(throttle.runs_for_writers(), 0);
    // Blocks for which no writer waited are kept for a few, not for all.
    assert_eq!(
        answered(&throttle, ONE, 500, &[|_| (), |throttle| throttle.grant(10, LAST)]),
        [104, 114]
    );
}

#[test]
fn in_a_small_room_little_is_kept_for_who_comes_later() {
    let throttle = Arc::new(Throttle::default());
    throttle.work_begins();
    for _ in 0..100 {
        throttle.grant(1, 3);
    }
    assert_eq!(answered(&throttle, ONE, 50, &[|_| ()]), [1]);
}

#[test]
fn turns_by_the_clock_follow_each_other() {
    let throttle = Throttle::default();
    assert_eq!(throttle.claim_time(10, 1000), ThrottleWait::Immediate);
    assert_eq!(throttle.claim_time(10, 1000), ThrottleWait::At(1010));
    assert_eq!(throttle.claim_time(10, 1005), ThrottleWait::At(1020));
    assert_eq!(throttle.claim_time(10, 2000), ThrottleWait::Immediate, "nothing is saved up");
}

#[test]
fn nobody_waits_while_nothing_is_written_out() {
    let throttle = Arc::new(Throttle::default());
    assert_eq!(answered(&throttle, ONE, 3, &[|_| ()]), [3]);
    throttle.work_begins();
    let ends: [fn(&Throttle); 2] = [|_| (), |throttle| throttle.work_ends()];
    assert_eq!(answered(&throttle, ONE, 100, &ends), [0, 100]);
    throttle.work_begins();
    assert_eq!(answered(&throttle, ONE, 1, &[|_| ()]), [0], "nothing is left over from before");
}

/// Returns the number of notifications of each event.
fn rung(throttle: &Throttle) -> Vec<u64> {
    throttle.bells.iter().map(Event::seen).collect()
}

#[test]
fn what_no_writer_waits_for_is_kept_for_a_few_that_come_soon() {
    let kept = |blocks: u32, last: u32| {
        let throttle = Throttle::default();
        throttle.claimed.store(100 * ONE, Ordering::SeqCst);
        throttle.granted.store(99 * ONE, Ordering::SeqCst);
        throttle.grant(blocks, last);
        let once = throttle.granted.load(Ordering::SeqCst);
        (0..64).for_each(|_| throttle.grant(blocks, last));
        let at_last = throttle.granted.load(Ordering::SeqCst);
        [once, at_last].map(|granted| granted / ONE)
    };
    assert_eq!(kept(10, 1000), [109, 120], "twice of what was written out last");
    assert_eq!(kept(1, 1000), [100, 116], "but sixteen at least");
    assert_eq!(kept(300, 1000), [399, 600], "and half of the last part at most");
    assert_eq!(kept(1, 40), [100, 110], "in a small room a quarter of it");
    assert_eq!(kept(4, 10), [103, 105]);
    assert_eq!(kept(4, 3), [101, 101]);
    let throttle = Throttle::default();
    throttle.granted.store(50 * ONE, Ordering::SeqCst);
    throttle.grant(1, LAST);
    assert_eq!(throttle.granted.load(Ordering::SeqCst), 50 * ONE, "nothing is taken back");
}

#[test]
fn a_claim_that_is_covered_waits_for_nothing() {
    let throttle = Throttle::default();
    throttle.granted.store(3 * ONE, Ordering::SeqCst);
    assert_eq!(throttle.claim(2 * ONE), ThrottleWait::Immediate);
    assert_eq!(throttle.claim(ONE), ThrottleWait::Immediate, "the last of it");
    assert_eq!(throttle.claim(1), ThrottleWait::After(3 * ONE + 1));
}

#[test]
fn a_bell_rings_for_its_turn_and_none_where_no_writer_waits() {
    let throttle = Throttle::default();
    throttle.grant(3, LAST);
    assert_eq!(rung(&throttle), [0; BELLS], "no writer waits");
    let _waiting = throttle.begin_wait();
    throttle.claimed.store(1000 * ONE, Ordering::SeqCst);
    throttle.grant(0, LAST);
    assert_eq!(rung(&throttle), [0; BELLS], "nothing was written out");
    throttle.granted.store(60 * ONE + 5, Ordering::SeqCst);
    throttle.grant(6, LAST);
    let turns: Vec<u64> =
        (0..BELLS as u64).map(|bell| u64::from(!(3..60).contains(&bell))).collect();
    assert_eq!(rung(&throttle), turns, "from 60 to 66");
    // Each of them once, regardless of the number of blocks written back.
    throttle.grant(300, LAST);
    let once = rung(&throttle).iter().zip(&turns).all(|(now, before)| *now == before + 1);
    assert!(once, "{:?}", rung(&throttle));
}

#[test]
fn runs_take_the_places_of_writers_or_of_blocks_whichever_are_less() {
    let throttle = Throttle::default();
    throttle.claimed.store(100 * ONE, Ordering::SeqCst);
    assert!(!throttle.is_awaited());
    assert_eq!(throttle.runs_for_writers(), 0, "no writer waits");
    let mut waiting = Vec::new();
    let mut places = Vec::new();
    for _ in 0..33 {
        waiting.push(throttle.begin_wait());
        places.push(throttle.runs_for_writers());
    }
    assert!(throttle.is_awaited());
    // One more for every 32 that have begun.
    assert_eq!([places[0], places[4], places[31], places[32]], [2, 6, 33, 35]);
    throttle.granted.store(97 * ONE + 1, Ordering::SeqCst);
    assert_eq!(throttle.runs_for_writers(), 3, "the third is not whole");
    throttle.granted.store(101 * ONE, Ordering::SeqCst);
    assert_eq!(throttle.runs_for_writers(), 0, "more was granted than claimed");
    drop(waiting);
    assert!(!throttle.is_awaited());
}

#[test]
fn no_writer_waits_for_zeros_alone() {
    let throttle = Throttle::default();
    throttle.claimed.store(5 * ONE, Ordering::SeqCst);
    throttle.work_begins();
    throttle.zeros_begin();
    throttle.zeros_begin();
    assert_eq!(throttle.zeros_under_way(), 2);
    throttle.zeros_end();
    assert_eq!(throttle.zeros_under_way(), 1);
    throttle.end_work_if_only_zeros(2);
    assert!(throttle.is_working());
    throttle.end_work_if_only_zeros(1);
    assert!(!throttle.is_working());
    assert_eq!(throttle.granted.load(Ordering::SeqCst), 5 * ONE);
    assert_eq!(rung(&throttle), [1; BELLS]);
}

#[test]
fn what_was_slowed_down_is_counted() {
    let (throttle, mut counters) = (Throttle::default(), Counters::default());
    throttle.note_slowed(10);
    throttle.note_slowed(25);
    throttle.count(&mut counters);
    assert_eq!((counters.changes_slowed, counters.slowed_ns), (2, 35));
}

/// A thousand blocks per millisecond, and a flush as long as 1000 of them.
fn pace() -> Pace {
    Pace::new(1_000_000, 1_000_000)
}

const FILLING: Level = Level {
    open: 8000,
    debt: 8000,
    dirty: 8000,
    max: DirtyLimits { dirty: 16_000, debt: 16_000, open: 8000 },
    closing: 0,
    closed: 0,
};

#[test]
fn a_turn_is_claimed_in_blocks_while_they_are_written_out_and_else_in_time() {
    let throttle = Throttle::default();
    let turn = |level: &Level, now_ns| throttle.delay(32, level, false, pace(), now_ns);
    // 32 blocks at a price of 33 / 32 take 33 us.
    assert_eq!(turn(&FILLING, 5000), ThrottleWait::Immediate);
    assert_eq!(turn(&FILLING, 5000), ThrottleWait::At(38_000));
    let open = Level { open: 0, debt: 0, dirty: 0, ..FILLING };
    assert_eq!(turn(&open, 5000), ThrottleWait::Immediate, "it costs nothing");
    throttle.work_begins();
    assert_eq!(turn(&FILLING, 5000), ThrottleWait::After(33 * ONE));
    assert_eq!(turn(&open, 5000), ThrottleWait::Immediate);
    // 3000 blocks and half of a flush are spread over 3750.
    let closed = Level { open: 3750, debt: 6750, dirty: 7500, closing: 3000, closed: 1, ..FILLING };
    assert_eq!(turn(&closed, 5000), ThrottleWait::After(33 * ONE + 32 * 955));
}

#[test]
fn where_each_epoch_ends_with_a_flush_a_block_has_its_share_of_those() {
    let next = |closed, level: Level| {
        let throttle = Throttle::default();
        throttle.work_begins();
        let level = Level { closed, closing: 1, ..level };
        assert_eq!(throttle.delay(32, &level, true, pace(), 0), ThrottleWait::Immediate);
        throttle.next_ns.load(Ordering::Relaxed)
    };
    // 33 blocks of 1000 ns each, and the flushes of the closed epochs and the open one by 8000.
    assert_eq!([0, 1, 2].map(|closed| next(closed, FILLING)), [33_000, 33 * 1250, 33 * 1375]);
    // No block has more than one flush, however many epochs there are; and there is at least one
    // block.
    let max = DirtyLimits { dirty: 2, debt: 8000, open: 8000 };
    assert_eq!(next(5, Level { dirty: 2, max, ..FILLING }), 33 * 1_001_000);
    assert_eq!(next(5, Level { dirty: 0, max, ..FILLING }), 33 * 1_001_000);
}

#[test]
fn a_turn_is_the_usual_time_of_all_writers() {
    let throttle = Throttle::default();
    let times = WriterTimes { usual_ns: Some(800), least_ns: 1000 };
    assert_eq!(throttle.turn_ns(times, 100, 0), 800, "before the writer has been counted");
    let first = throttle.begin_wait();
    assert_eq!(throttle.turn_ns(times, 100, 0), 800);
    let slower = WriterTimes { usual_ns: Some(1200), ..times };
    assert_eq!(throttle.turn_ns(slower, 100, 0), 1000, "a lone writer has no queue");
    let second = throttle.begin_wait();
    assert_eq!(throttle.turn_ns(slower, 100, 0), 2400);
    assert_eq!(throttle.turn_ns(slower, 100, 3), 6000, "beside write-throughs");
    let endless = WriterTimes { usual_ns: Some(u64::MAX), ..times };
    assert_eq!(throttle.turn_ns(endless, 100, u32::MAX), u64::MAX);
    drop((first, second));
}

#[test]
fn turns_become_longer_as_the_first_half_of_the_lead_is_used() {
    let turns = |times: WriterTimes| {
        let throttle = Throttle::default();
        [0, 10, 25, 50, 100, 200].map(|blocks| {
            throttle.note_continued(blocks * ONE);
            throttle.turn_ns(times, 100, 0)
        })
    };
    let times = WriterTimes { usual_ns: Some(800), least_ns: 1000 };
    assert_eq!(turns(times), [800, 847, 1100, 2000, 2000, 2000]);
    let slower = WriterTimes { usual_ns: Some(3000), ..times };
    assert_eq!(turns(slower), [1000, 1039, 1250, 2000, 2000, 2000]);
    let throttle = Throttle::default();
    throttle.note_continued(ONE);
    assert_eq!(throttle.turn_ns(times, 0, 0), 2000, "while an epoch is closed");
    let writers = [(); 2].map(|()| throttle.begin_wait());
    assert_eq!(throttle.turn_ns(slower, 0, 0), 6000, "a turn is never shortened");
    drop(writers);
}

#[test]
fn writers_beside_reads_wait_for_two_undisturbed_runs_each() {
    let throttle = Throttle::default();
    let beside_reads = WriterTimes { usual_ns: None, least_ns: 100 };
    let writers = [(); 4].map(|()| throttle.begin_wait());
    assert_eq!(throttle.turn_ns(beside_reads, 64, 1), 1000);
    let endless = WriterTimes { least_ns: u64::MAX / 2, ..beside_reads };
    assert_eq!(throttle.turn_ns(endless, 64, 0), u64::MAX);
    drop(writers);
}
