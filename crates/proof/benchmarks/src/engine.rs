//! Hits on the engine itself, compared with bare copies from the same pages.

use crate::sides::{alternate, cpu_ns, wall_ns};
use anyhow::{Context, Result};
use block::{Buf, Extent, Limits, Memory, Null, Request, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Random};
use ring::{HugePages, shared_memory};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Sizes of the cache, in GiB.
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    gib: Vec<u64>,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Hits in each run.
    #[arg(long, default_value_t = 400_000)]
    hits: u64,
    /// Use ordinary pages where huge ones are not available.
    #[arg(long)]
    any_pages: bool,
}

/// A full cache whose every block is a hit.
struct TestRig {
    shared: Arc<Shared>,
    memory: Arc<Memory>,
    blocks: u64,
    slots_at: usize,
}

/// The bound of a hit: an index and headers of the engine's sizes, that are only searched.
struct Bound {
    /// As the engine's: 6 bits of the block's hash and its slot plus one; 0: empty.
    cells: Vec<u32>,
    /// The block in each slot, and as many bytes again.
    headers: Vec<[u64; 2]>,
}

const SLOT_BITS: u32 = 26;

impl Bound {
    /// Puts blocks 0 to `blocks` - 1 into slots in a random order.
    fn new(blocks: u64, slots: u32) -> Bound {
        let mut random = Random::new(9);
        let mut free: Vec<u32> = (0..slots).collect();
        for end in (1..free.len()).rev() {
            free.swap(end, random.below(end as u64 + 1) as usize);
        }
        let slots = slots as usize;
        let mut bound =
            Bound { cells: vec![0; slots + slots / 3 + 2], headers: vec![[0; 2]; slots] };
        for (block, slot) in (0..blocks).zip(free) {
            let (mut at, tag) = bound.home(block);
            while bound.cells[at] != 0 {
                at = (at + 1) % bound.cells.len();
            }
            bound.cells[at] = tag << SLOT_BITS | (slot + 1);
            bound.headers[slot as usize] = [block, 0];
        }
        bound
    }

    fn home(&self, block: u64) -> (usize, u32) {
        let hash = policy::Hash::of(block).bits();
        let at = ((hash & 0xffff_ffff) * self.cells.len() as u64) >> 32;
        (at as usize, (hash >> 58) as u32)
    }

    /// Returns the slot of a block. Calls `named` with each slot before its header is read.
    fn find(&self, block: u64, named: impl Fn(usize)) -> usize {
        let (home, tag) = self.home(block);
        let (front, back) = self.cells.split_at(home);
        for cell in back.iter().chain(front).filter(|cell| **cell >> SLOT_BITS == tag) {
            let slot = (cell & ((1 << SLOT_BITS) - 1)).wrapping_sub(1) as usize;
            if slot < self.headers.len() {
                named(slot);
                if self.headers[slot][0] == block {
                    return slot;
                }
            }
        }
        unreachable!("every block has a slot")
    }
}

/// The access of one thread to the cache.
struct Rider {
    cache: Stack,
    /// 32 buffers, like the send buffer of a server.
    buffers: Vec<Buf>,
    target: Arc<Memory>,
    random: Random,
}

const BUFFERS: usize = 32;
const BLOCK: usize = 4096;
/// As the engine's.
const PREFETCH_BYTES: usize = 256;

impl TestRig {
    fn new(gib: u64, huge: HugePages) -> Result<TestRig> {
        let geometry = Geometry::for_memory(gib << 30);
        let bytes = Arena::bytes(&geometry, 512);
        let pages = reserve_huge_pages(bytes)?;
        let arena = shared_memory("figures", bytes, huge, &mut |_, _| ())
            .with_context(|| format!("{gib} GiB of shared memory"))?;
        drop(pages);
        let huge = if arena.has_huge_pages() { "huge" } else { "ordinary" };
        println!("{gib} GiB, {} slots, {huge} pages", geometry.slots);
        let memory = arena.memory().clone();
        let blocks = u64::from(geometry.slots) * 9 / 10;
        let limits = Limits::plain(blocks * 8, 512);
        let settings = Settings {
            durability: block::Durability::Flush,
            write: WriteMode::Through,
            dirty_blocks_max: geometry.slots / 4,
            dirty_age_ns: u64::MAX / 2,
            flush_target_ns: 0,
            retry_time_ns: 0,
            workers: 1,
            absorb_blocks_max: 32,
            ..Settings::default()
        };
        let shared = Shared::new(&limits, geometry, settings, 0, memory.clone())?;
        let slots_at = bytes - geometry.slots as usize * BLOCK;
        let rig = TestRig { shared, memory, blocks, slots_at };
        rig.fill();
        Ok(rig)
    }

    /// Writes every block once in write-through mode: a clean copy of each stays cached. The order
    /// scatters neighbours over the slots, as in a cache in use.
    fn fill(&self) {
        let lane = Lane::new();
        let rider = self.rider(&lane, 1);
        let blocks = self.blocks;
        let cache = rider.cache.clone();
        let from = Buf::new(8, 512);
        let done = std::rc::Rc::new(std::cell::Cell::new(false));
        let finished = done.clone();
        lane.spawn(async move {
            // A stride that is coprime to the number of blocks visits each once.
            let mut stride = blocks / 2 + 1;
            while gcd(stride, blocks) != 1 {
                stride += 1;
            }
            let mut block = 0;
            for _ in 0..blocks {
                block = (block + stride) % blocks;
                let at = Extent::new(block * 8, 8);
                let write = Request::Write { at, from: from.clone(), fua: false };
                cache.run(write).await.expect("a null device takes everything");
            }
            finished.set(true);
        })
        .expect("a slot is free");
        while !done.get() && lane.step() {}
        assert!(done.get());
    }

    fn rider(&self, lane: &Lane, seed: u64) -> Rider {
        let null = Null::new(self.blocks * 8, 512);
        let cache = Cache::attach(&self.shared, lane, Stack::new(lane, null));
        let target = Arc::new(Memory::heap(BUFFERS * BLOCK));
        let buffer = |index| Buf::from_memory(target.clone(), index * BLOCK, 8, 512);
        Rider {
            cache: Stack::new(lane, cache),
            buffers: (0..BUFFERS).map(buffer).collect(),
            target: target.clone(),
            random: Random::new(seed),
        }
    }

    /// Measures bare copies from random slots.
    fn copies(&self, rider: &mut Rider, count: u64) -> f64 {
        let start = cpu_ns();
        for step in 0..count as usize {
            let slot = rider.random.below(self.blocks) as usize;
            let target = step % BUFFERS * BLOCK;
            self.memory.copy(self.slots_at + slot * BLOCK, &rider.target, target, BLOCK);
        }
        (cpu_ns() - start) as f64 / count as f64
    }

    /// Measures copies from slots that the bound's index names, and that are prefetched before
    /// their header is read.
    fn found(&self, bound: &Bound, rider: &mut Rider, count: u64) -> f64 {
        let start = cpu_ns();
        for step in 0..count as usize {
            let at = |slot: usize| self.slots_at + slot * BLOCK;
            let block = rider.random.below(self.blocks);
            let slot = bound.find(block, |slot| self.memory.prefetch(at(slot), PREFETCH_BYTES));
            let target = step % BUFFERS * BLOCK;
            self.memory.copy(at(slot), &rider.target, target, BLOCK);
        }
        (cpu_ns() - start) as f64 / count as f64
    }

    /// Measures hits on blocks that `pick` chooses.
    fn hits(&self, rider: &mut Rider, count: u64, pick: impl Fn(&mut Random) -> u64) -> f64 {
        let start = cpu_ns();
        for step in 0..count as usize {
            let block = pick(&mut rider.random);
            let into = rider.buffers[step % BUFFERS].clone();
            let request = Request::Read { at: Extent::new(block * 8, 8), into };
            assert!(rider.cache.try_now(&request).is_some(), "every block is held");
        }
        (cpu_ns() - start) as f64 / count as f64
    }

    /// Measures hits in batches of 16, as a server finds them in its receive buffer.
    fn batches(&self, rider: &mut Rider, count: u64) -> f64 {
        let mut requests = Vec::with_capacity(16);
        let start = cpu_ns();
        for step in 0..count as usize / 16 {
            requests.clear();
            for index in 0..16 {
                let at = Extent::new(rider.random.below(self.blocks) * 8, 8);
                let into = rider.buffers[(step * 16 + index) % BUFFERS].clone();
                requests.push(Request::Read { at, into });
            }
            rider.cache.prefetch(&requests);
            for request in &requests {
                assert!(rider.cache.try_now(request).is_some(), "every block is held");
            }
        }
        (cpu_ns() - start) as f64 / count as f64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Huge pages reserved from the kernel; released when dropped.
struct Reserved {
    before: String,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl Drop for Reserved {
    fn drop(&mut self) {
        // Pages in use stay until they are unmapped; the pool shrinks as they are released.
        let _ = std::fs::write(HUGE_PAGES, &self.before);
    }
}

fn reserve_huge_pages(bytes: usize) -> Result<Option<Reserved>> {
    let before = std::fs::read_to_string(HUGE_PAGES)?.trim().to_string();
    let wanted = before.parse::<usize>()? + bytes.div_ceil(2 << 20) + 1;
    Ok(std::fs::write(HUGE_PAGES, wanted.to_string()).is_ok().then_some(Reserved { before }))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let huge = if arguments.any_pages { HugePages::IfFree } else { HugePages::Require };
    for &gib in &arguments.gib {
        let rig = TestRig::new(gib, huge)?;
        let lane = Lane::new();
        let (mut rider, mut bare) = (rig.rider(&lane, 2), rig.rider(&lane, 3));
        let (pairs, count) = (arguments.pairs, arguments.hits);
        let blocks = rig.blocks;
        let alone = alternate(
            pairs,
            || rig.hits(&mut rider, count, |random| random.below(blocks)),
            || rig.copies(&mut bare, count),
        );
        alone.print("a hit, against a bare copy", 0.7);
        let slots = (rig.memory.bytes() - rig.slots_at) / BLOCK;
        let bound = Bound::new(blocks, slots as u32);
        let found = alternate(
            pairs,
            || rig.found(&bound, &mut rider, count),
            || rig.copies(&mut bare, count),
        );
        let (low, middle, high) = found.speed();
        println!(
            "    the bound, an index and headers of this size that are only searched: ratio \
             {middle:.3} ({low:.3} to {high:.3})"
        );
        let batches =
            alternate(pairs, || rig.batches(&mut rider, count), || rig.copies(&mut bare, count));
        batches.print("a hit in batches of 16, against a bare copy", 0.95);
        two_threads(&rig, arguments);
    }
    Ok(())
}

/// Compares two threads with one, which sometimes use the same shard: hits per second in total. The
/// same figure for bare copies is shown as well, because two processors share one memory.
fn two_threads(rig: &TestRig, arguments: &Arguments) {
    let lanes = Lane::new();
    let mut one = rig.rider(&lanes, 5);
    let mut bare = rig.rider(&lanes, 6);
    let mut hits = Vec::new();
    let mut copies = Vec::new();
    for _ in 0..arguments.pairs {
        let single = rig.hits(&mut one, arguments.hits, |random| random.below(rig.blocks));
        let double = run_in_parallel(rig, arguments.hits, |rig, rider, count| {
            rig.hits(rider, count, |random| random.below(rig.blocks))
        });
        hits.push(single / double);
        let single = rig.copies(&mut bare, arguments.hits);
        let double = run_in_parallel(rig, arguments.hits, TestRig::copies);
        copies.push(single / double);
    }
    let gain = crate::sides::median(hits);
    let bound = crate::sides::median(copies);
    let verdict = if gain >= 1.7 { "reached" } else { "MISSED" };
    println!(
        "two threads on any blocks                     {gain:.2} x one (bare copies: {bound:.2} x) \
         target 1.70: {verdict}"
    );
}

/// Runs two threads in parallel; returns wall-clock nanoseconds per item.
fn run_in_parallel(rig: &TestRig, count: u64, work: fn(&TestRig, &mut Rider, u64) -> f64) -> f64 {
    let ready = AtomicU64::new(0);
    let go = AtomicBool::new(false);
    let mut took = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|part| {
                let (ready, go) = (&ready, &go);
                scope.spawn(move || {
                    let lane = Lane::new();
                    let mut rider = rig.rider(&lane, 7 + part as u64);
                    ready.fetch_add(1, Ordering::SeqCst);
                    while !go.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    work(rig, &mut rider, count);
                })
            })
            .collect();
        while ready.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
        let start = wall_ns();
        go.store(true, Ordering::SeqCst);
        for thread in threads {
            thread.join().expect("a rider does not panic");
        }
        took = wall_ns() - start;
    });
    took as f64 / (2 * count) as f64
}
