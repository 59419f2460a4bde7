//! Throttled writers: the events for which they wait, and those for which they must not wait. In
//! virtual time, on a backing that answers when the test allows it.

use crate::scene::{
    BLOCKS, Buf, Durability, Extent, GRAIN, MS, Rc, RefCell, Request, Scene, Settings, Times,
    scene_of, settings, write,
};

const BLOCK: u64 = 8;
const REGION: u64 = 64;

/// Writers, and the times at which each of their requests was sent and answered.
struct Writers {
    scene: Scene,
    answers: Rc<RefCell<Vec<(u64, u64)>>>,
}

/// A small buffer, in which no data becomes too old.
fn small() -> Settings {
    let dirty_age_ns = 1_000_000 * MS;
    Settings { dirty_blocks_max: 1024, dirty_age_ns, retry_time_ns: 1000 * MS, ..settings() }
}

fn writers(settings: Settings, times: Times) -> Writers {
    let scene = scene_of(settings, 2);
    scene.state.times.set(times);
    Writers { scene, answers: Rc::default() }
}

impl Writers {
    fn send(&self, request: Request) {
        let (stack, lane) = (self.scene.stack.clone(), self.scene.lane.clone());
        let answers = self.answers.clone();
        let task = async move {
            let sent = lane.now();
            stack.run(request).await.expect("the backing is well");
            answers.borrow_mut().push((sent, lane.now()));
        };
        self.scene.lane.spawn(task).expect("a lane has room");
    }

    /// Writes these blocks, one per request, all at the same time.
    fn write(&self, blocks: impl IntoIterator<Item = u64>) {
        blocks.into_iter().for_each(|block| self.send(write(block, false)));
    }

    /// Returns the blocks of one shard.
    fn blocks_of(&self, shard: usize) -> Vec<u64> {
        (0..BLOCKS).filter(|&block| self.scene.shared.shard_of(block) == shard).collect()
    }

    fn longest_wait_ns(&self) -> u64 {
        self.answers.borrow().iter().map(|(sent, answered)| answered - sent).max().unwrap_or(0)
    }
}

#[test]
fn what_is_under_way_early_still_waits_to_be_written_out() {
    // 12 800 blocks per second, as assumed: 128 of them in ten milliseconds.
    let settings = Settings { flush_target_ns: 10 * MS, ..small() };
    let hour = 3_600_000 * MS;
    let times = Times { write: hour, zero: hour, flush: hour, ..Times::default() };
    let mut writers = writers(settings, times);
    let blocks: Vec<u64> = (0..BLOCKS).collect();
    for some in blocks.chunks(16).take(40) {
        writers.write(some.iter().copied());
        writers.scene.pass_ns(100 * MS);
    }
    let counters = writers.scene.counters();
    assert_eq!(counters.allowance_blocks, 128);
    assert!(counters.changes > 128 && counters.blocks_written == 0);
    // Nothing has been written back, so a flush would have to wait for all dirty data.
    assert!(counters.blocks_dirty <= 128, "{} blocks are dirty", counters.blocks_dirty);
}

#[test]
fn nobody_waits_for_a_range_of_zeros_that_is_under_way_alone() {
    let tenth = MS / 10;
    let times = Times { write: tenth, zero: 1000 * MS, flush: tenth, ..Times::default() };
    let mut writers = writers(small(), times);
    let (zeros, mine) = (writers.blocks_of(0), writers.blocks_of(1));
    let at = Extent::new(zeros[0] * BLOCK, (REGION * BLOCK) as u32);
    writers.send(Request::Zero { at, fua: false, may_unmap: true });
    writers.write(mine[..64].iter().copied());
    writers.scene.pass_ns(50 * MS);
    writers.answers.borrow_mut().clear();
    // The writeback of both begins; the blocks are done soon, the zeros are not.
    writers.scene.begin(Request::Flush);
    writers.scene.pass_ns(50 * MS);
    let counters = writers.scene.counters();
    assert_eq!((counters.blocks_written, counters.zeroes_written), (64, 0));
    for some in mine[64..600].chunks(4) {
        writers.write(some.iter().copied());
        writers.scene.pass_ns(MS / 2);
    }
    writers.scene.pass_ns(100 * MS);
    let counters = writers.scene.counters();
    assert_eq!(counters.zeroes_written, 0, "they are still under way");
    assert!(counters.changes_slowed > 0);
    assert_eq!(writers.answers.borrow().len(), 536, "a task waits for the zeros");
}

#[test]
fn in_order_nobody_waits_much_longer_than_for_the_backing_s_flushes() {
    let flush = 10 * MS;
    let settings = Settings { durability: Durability::Ordered, ..small() };
    let times = Times { write: 50_000, zero: 50_000, flush, ..Times::default() };
    let mut writers = writers(settings, times);
    // The first epochs show the time of a flush.
    writers.write(0..8);
    writers.scene.pass_ns(MS);
    writers.scene.begin(Request::Flush);
    writers.scene.pass_ns(100 * MS);
    // One small epoch is closed, and the open one fills up behind it.
    writers.write(8..9);
    writers.scene.pass_ns(10_000);
    writers.scene.begin(Request::Flush);
    writers.scene.pass_ns(200_000);
    writers.answers.borrow_mut().clear();
    writers.write(100..540);
    writers.scene.pass_ns(2000 * MS);
    assert!(writers.scene.counters().changes_slowed > 0);
    assert_eq!(writers.answers.borrow().len(), 440);
    let longest = writers.longest_wait_ns();
    assert!(longest < 5 * flush, "{longest} ns, {flush} for a flush");
}

#[test]
fn the_debt_comes_down_when_the_backing_becomes_slower_though_clients_go_on() {
    let settings = Settings { flush_target_ns: 20 * MS, ..small() };
    let mut writers = writers(settings, Times::default());
    writers.scene.keep_writing(8, BLOCKS);
    writers.scene.pass_ns(500 * MS);
    let before = writers.scene.counters();
    assert!(before.drain_blocks_per_second > 0);
    writers.scene.state.times.set(Times { write: 10 * MS, ..Times::default() });
    writers.scene.pass_ns(20_000 * MS);
    let after = writers.scene.counters();
    assert!(after.drain_blocks_per_second * 4 < before.drain_blocks_per_second);
    assert!(
        after.allowance_blocks * 2 < before.allowance_blocks,
        "{} after {}",
        after.allowance_blocks,
        before.allowance_blocks
    );
    assert!(after.blocks_dirty * 3 < before.blocks_dirty * 2, "{}", after.blocks_dirty);
    assert_eq!(after.writes_through_full, before.writes_through_full, "no writer is turned away");
}

#[test]
fn a_change_is_admitted_though_others_go_on_to_write_the_same_blocks() {
    // The buffer is always nearly full of them: some are always in flight to the backing.
    let settings = Settings { dirty_blocks_max: 64, ..small() };
    let at = Extent::new(0, (REGION * BLOCK) as u32);
    let large = Request::Write { at, from: Buf::new(at.count, GRAIN), fua: false };
    let zeros = Request::Zero { at, fua: false, may_unmap: true };
    for change in [large, zeros] {
        let mut writers = writers(settings, Times::default());
        writers.scene.keep_writing(32, REGION);
        writers.scene.pass_ns(100 * MS);
        let answer = writers.scene.begin(change);
        writers.scene.pass_ns(20 * MS);
        assert_eq!(answer.take(), Some(Ok(())));
    }
}

#[test]
fn a_writer_alone_does_not_wait_for_zeros_either_where_the_crew_makes_way_for_others() {
    let settings = Settings { dirty_age_ns: 4_000_000 * MS, ..small() };
    let times = Times { zero: 3_000_000 * MS, ..Times::default() };
    let mut writers = writers(settings, times);
    let (zeros, mine) = (writers.blocks_of(0), writers.blocks_of(1));
    let at = Extent::new(zeros[0] * BLOCK, (REGION * BLOCK) as u32);
    writers.send(Request::Zero { at, fua: false, may_unmap: true });
    writers.write(mine.iter().step_by(2).take(300).copied());
    // Half of the age is over: the zeros are in flight, and some blocks. Then there are
    // write-throughs.
    writers.scene.pass_ns(2_000_005 * MS);
    assert!(writers.scene.counters().blocks_written > 0);
    writers.scene.keep_passing();
    writers.scene.pass_ns(20 * MS);
    let counters = writers.scene.counters();
    assert!(counters.blocks_written < 300 && counters.zeroes_written == 0);
    writers.answers.borrow_mut().clear();
    for (sent, &block) in mine[2000..].iter().step_by(2).take(300).enumerate() {
        writers.write([block]);
        writers.scene.pass_ns(1000 * MS);
        assert_eq!(writers.answers.borrow().len(), sent + 1, "it waits for the zeros");
    }
}

/// Clients write these blocks; the others are never in memory.
const WRITTEN: u64 = BLOCKS / 4 * 3;

/// Clients that write new blocks one at a time, over a backing whose requests take a tenth of a
/// millisecond, until the buffer throttles them.
fn throttled_clients(clients: u64, workers: u32) -> Writers {
    let tenth = MS / 10;
    let times = Times { write: tenth, zero: tenth, flush: tenth, ..Times::default() };
    let settings = Settings { dirty_blocks_max: 8192, workers, ..small() };
    let mut writers = writers(settings, times);
    for client in 0..clients {
        let (stack, lane) = (writers.scene.stack.clone(), writers.scene.lane.clone());
        let answers = writers.answers.clone();
        let task = async move {
            for block in (client..WRITTEN).step_by(clients as usize).cycle() {
                let sent = lane.now();
                stack.run(write(block * 7 % WRITTEN, false)).await.expect("the backing is well");
                answers.borrow_mut().push((sent, lane.now()));
                lane.sleep_until(lane.now() + 2_000).await;
            }
        };
        writers.scene.lane.spawn(task).expect("a lane has room");
    }
    writers.scene.pass_ns(500 * MS);
    assert!(writers.scene.counters().changes_slowed > 100);
    writers.answers.borrow_mut().clear();
    writers
}

#[test]
fn throttled_writers_have_all_of_a_backing_that_gains_less_and_less() {
    let mut writers = throttled_clients(1, settings().workers);
    // Each of the others once, in an order that nothing can foresee.
    let mut absent = 0;
    let mut rate_with = |times: Times, reads: bool| {
        writers.scene.state.times.set(times);
        let mut before = 0;
        for number in 0..6_000 {
            if reads {
                absent = (absent * 1_229 + 5) % (BLOCKS - WRITTEN);
                writers.send(crate::scene::read(WRITTEN + absent));
            }
            writers.scene.pass_ns(MS / 20);
            // The estimator has noticed the change.
            if number == 4_000 {
                before = writers.scene.counters().blocks_written;
                writers.scene.state.writes_most.set(0);
            }
        }
        let written = writers.scene.counters().blocks_written - before;
        (written / 100, writers.scene.state.writes_most.get())
    };
    // First one write at a time, then eight that take 110 us beside each other, where one takes 40:
    // 73 in a millisecond instead of 10.
    let one = Times { write: MS / 10, beside: MS / 10, ..Times::default() };
    let gains = Times { write: MS / 25, beside: MS / 100, ..Times::default() };
    let (slow, most) = rate_with(one, false);
    assert!(slow > 0 && most <= 4, "{slow}, {most} in flight");
    let (rate, most) = rate_with(gains, false);
    assert!(rate > slow * 6 && most >= 8, "{rate} after {slow}, {most} in flight");
    // Reads do not wait for eight, nor do those that come soon after one.
    let (_, most) = rate_with(Times { read: MS / 100, ..gains }, true);
    assert!(most < 8, "{most} in flight beside reads");
}

/// Returns the longest wait of throttled clients whose backing stops for two milliseconds, many
/// times.
fn longest_wait_in_gaps_ns(clients: u64) -> u64 {
    let mut writers = throttled_clients(clients, settings().workers);
    for _ in 0..20 {
        writers.scene.state.hangs.set(Some(crate::scene::is_write));
        writers.scene.pass_ns(2 * MS);
        writers.scene.state.hangs.set(None);
        writers.scene.pass_ns(20 * MS);
    }
    assert_eq!(writers.scene.counters().writes_through, 0);
    writers.longest_wait_ns()
}

#[test]
fn a_few_writers_do_not_wait_for_a_whole_gap_of_the_backing() {
    let longest = [1, 2, 4].map(longest_wait_in_gaps_ns);
    assert!(longest[0] < MS, "{longest:?} ns");
    assert!(longest.iter().all(|&ns| ns < 3 * MS / 2), "{longest:?} ns");
}

#[test]
fn a_backing_that_stops_holds_writers_back_before_the_buffer_is_full() {
    let mut writers = throttled_clients(1, settings().workers);
    writers.scene.state.hangs.set(Some(crate::scene::is_write));
    writers.scene.pass_ns(50 * MS);
    let ahead = writers.answers.borrow().len();
    assert!((10..100).contains(&ahead), "{ahead} writes are answered");
    writers.scene.pass_ns(500 * MS);
    assert_eq!(writers.answers.borrow().len(), ahead, "no more of them");
    assert_eq!(writers.scene.counters().writes_through, 0);
    writers.scene.state.hangs.set(None);
    writers.scene.pass_ns(100 * MS);
    assert!(writers.answers.borrow().len() > 2 * ahead, "they continue");
}

#[test]
fn a_writer_that_is_ahead_when_an_epoch_is_closed_does_not_wait_for_all_of_the_difference() {
    let mut writers = throttled_clients(1, 1);
    writers.scene.state.hangs.set(Some(crate::scene::is_write));
    writers.scene.pass_ns(20 * MS);
    writers.scene.state.hangs.set(None);
    writers.scene.pass_ns(MS);
    writers.answers.borrow_mut().clear();
    // From now on no writer may come further ahead.
    writers.scene.begin(Request::Flush);
    writers.scene.pass_ns(100 * MS);
    let longest = writers.longest_wait_ns();
    assert!(longest < MS, "{longest} ns, of which a block takes a tenth of a millisecond");
    assert!(writers.answers.borrow().len() > 500, "{}", writers.answers.borrow().len());
    assert_eq!(writers.scene.counters().writes_through, 0);
}
