//! Boots of a guest with the start-up list, in virtual time and without data: cold, and after one
//! and two starts; and a guest that does something else.
//!
//! The guest's firmware takes a second, in which it reads nothing. Then the guest reads files here
//! and there, two at a time, and works after each read. A later boot leaves some out, reads others,
//! and changes the order a little.

use crate::sides::verdict;
use crate::warm::{Bed, description};
use anyhow::{Context, Result};
use block::{Buf, Extent, Request};
use cache::Counters;
use hotlist::{StartList, encode_start, learn};
use lane::Random;
use std::cell::Cell;
use std::rc::Rc;

/// Blocks of the volume (16 GiB) and of the memory (1 GiB).
const BLOCKS: u64 = 1 << 22;
const SLOTS: u32 = 1 << 18;
const SERVERS: u32 = 16;
/// Reads of a boot, and the maximum number of blocks of one.
const READS: usize = 4000;
const READ_BLOCKS_MAX: u64 = 16;
/// Reads under way at most, and the mean time of the guest's own work after each. It varies: tasks
/// in step would wait together.
const TASKS: usize = 2;
const WORK_NS: u64 = 500_000;
/// The time of the firmware.
const FIRMWARE_NS: u64 = 1_000_000_000;
/// One read in this number differs in a later boot.
const OTHER_ONE_IN: u64 = 20;
const GONE_MIN: f64 = 80.0;
const OTHER_MAX: f64 = 1.02;

/// Runs boots over backings of 1 and 5 ms.
///
/// # Errors
/// A cache cannot be made.
pub(crate) fn run() -> Result<()> {
    for read_us in [1000, 5000] {
        let mut random = Random::new(11);
        let reads: Vec<Extent> = (0..READS).map(|_| draw(&mut random)).collect();
        let [second, third] = [(); 2].map(|()| vary(&reads, &mut random));
        let cold = boot(read_us, &reads, None)?;
        let first_list = list(cold.noted.clone(), Vec::new());
        let after_one = boot(read_us, &second, Some(&first_list))?;
        let starts = StartList::parse(&first_list).context("the list")?.into_starts();
        let second_list = list(after_one.noted.clone(), starts);
        let after_two = boot(read_us, &third, Some(&second_list))?;
        println!(
            "a boot of {} blocks over {} ms: a guest's I/O wait is {:.1} s; {} bytes of list, \
             {:.2} a block  target 3: {}",
            cold.noted.len(),
            read_us / 1000,
            cold.wait_ns as f64 / 1e9,
            first_list.len(),
            first_list.len() as f64 / cold.noted.len() as f64,
            verdict(first_list.len() <= 3 * cold.noted.len())
        );
        for (name, life, reads) in [("one start", after_one, &second), ("two", after_two, &third)] {
            let bare = boot(read_us, reads, None)?;
            let gone = 100.0 - 100.0 * life.wait_ns as f64 / bare.wait_ns as f64;
            let Counters { start_cached, start_used, .. } = life.counters;
            println!(
                "  after {name}: {gone:.1} % of it is gone  target {GONE_MIN}: {}; {start_cached} \
                 blocks were fetched, {start_used} of them used",
                verdict(gone >= GONE_MIN)
            );
        }
        let others: Vec<Extent> = (0..READS).map(|_| draw(&mut random)).collect();
        let [bare, other] = [None, Some(&first_list[..])].map(|list| boot(read_us, &others, list));
        let (bare, other) = (bare?, other?);
        let ratio = other.wait_ns as f64 / bare.wait_ns as f64;
        println!(
            "  another guest waits {ratio:.3}x  target {OTHER_MAX}: {}; {} blocks were fetched and \
             not used",
            verdict(ratio <= OTHER_MAX),
            other.counters.start_cached - other.counters.start_used
        );
    }
    Ok(())
}

fn list(noted: Vec<u64>, former: Vec<Vec<u64>>) -> Vec<u8> {
    encode_start(&description(BLOCKS), learn(noted, true, former))
}

fn draw(random: &mut Random) -> Extent {
    let blocks = 1 + random.below(READ_BLOCKS_MAX);
    let first = random.below(BLOCKS / READ_BLOCKS_MAX) * READ_BLOCKS_MAX;
    Extent::new(first * 8, (blocks * 8) as u32)
}

/// Returns the reads of a later boot.
fn vary(reads: &[Extent], random: &mut Random) -> Vec<Extent> {
    let mut reads = reads.to_vec();
    for at in 0..reads.len() {
        if random.one_in(OTHER_ONE_IN) {
            reads[at] = draw(random);
        }
        let near = (at + random.below(4) as usize).min(reads.len() - 1);
        reads.swap(at, near);
    }
    reads
}

/// A boot that was measured.
struct Boot {
    /// Time in which a read of the guest was under way.
    wait_ns: u64,
    counters: Counters,
    noted: Vec<u64>,
}

/// The reads under way, and the time in which there were any.
#[derive(Default)]
struct Wait {
    reads: Cell<u32>,
    since_ns: Cell<u64>,
    sum_ns: Cell<u64>,
}

impl Wait {
    fn begin(&self, now_ns: u64) {
        if self.reads.replace(self.reads.get() + 1) == 0 {
            self.since_ns.set(now_ns);
        }
    }

    fn end(&self, now_ns: u64) {
        self.reads.set(self.reads.get() - 1);
        if self.reads.get() == 0 {
            self.sum_ns.set(self.sum_ns.get() + now_ns - self.since_ns.get());
        }
    }
}

fn boot(read_us: u64, reads: &[Extent], list: Option<&[u8]>) -> Result<Boot> {
    let mut bed = Bed::over(SLOTS, BLOCKS, read_us, SERVERS)?;
    bed.shared.begin_start_up();
    if let Some(bytes) = list {
        bed.shared.follow_start_up(StartList::parse(bytes).context("the list")?);
    }
    let (reads, wait) = (Rc::new(reads.to_vec()), Rc::new(Wait::default()));
    let (next, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(TASKS)));
    for task in 0..TASKS {
        let mut random = Random::new(task as u64);
        let (reads, wait, next, left) = (reads.clone(), wait.clone(), next.clone(), left.clone());
        let (stack, lane) = (bed.stack.clone(), bed.lane.clone());
        let task = async move {
            lane.sleep_until(lane.now() + FIRMWARE_NS).await;
            while let Some(&at) = reads.get(next.get()) {
                next.set(next.get() + 1);
                let request = Request::Read { at, into: Buf::new(at.count, 0) };
                wait.begin(lane.now());
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("a null device does not fail");
                }
                wait.end(lane.now());
                lane.sleep_until(lane.now() + random.below(2 * WORK_NS)).await;
            }
            left.set(left.get() - 1);
        };
        bed.lane.spawn(task).expect("a lane has room");
    }
    bed.world.run_until(|| left.get() == 0);
    let counters = bed.counters();
    let noted = bed.shared.end_start_up().context("the first minutes")?;
    Ok(Boot { wait_ns: wait.sum_ns.get(), counters, noted })
}
