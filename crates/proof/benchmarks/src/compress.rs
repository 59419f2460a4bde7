//! The compressed tier: the engine over a device with compressible data that makes each read wait,
//! in virtual time, with `--compress lz4` and `off` in turns.
//!
//! ```text
//!   hits     of uncompressed blocks, processor time a read
//!   tier     hits of compressed blocks, compared with those of uncompressed ones
//!   misses   every read is a miss that evicts a block, which is compressed
//!   zipf     hit ratio of the same memory, and of uncompressed memory twice as large
//! ```

use crate::sides::{Pairs, alternate, cpu_ns, median, verdict};
use crate::virtual_time::shuffled;
use crate::zipf::Zipf;
use anyhow::{Result, ensure};
use block::{Buf, Compress, Extent, Limits, Memory, Request, Stack, WriteMode};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Share of each block that is random, in percent; the rest is text.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=100))]
    random_percent: u64,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Reads in each run.
    #[arg(long, default_value_t = 4_000)]
    reads: u64,
    /// Exponent of the zipf load over four times the memory.
    #[arg(long, default_value_t = 0.9)]
    zipf: f64,
    /// Reads of the zipf load.
    #[arg(long, default_value_t = 1_500_000)]
    zipf_reads: u64,
}

const BLOCK: usize = 4096;
/// Different blocks of the device.
const POOL_BLOCKS: u64 = 512;
/// Blocks of the volume for each slot.
const TIMES: u64 = 64;
/// The latency of a read of the device.
const READ_NS: u64 = 100_000;

/// A hit of a compressed block may take this much more, in nanoseconds.
const TIER_NS_MAX: f64 = 2_000.0;
/// The rate of uncompressed hits, compared with no compression.
const HITS_LEAST: f64 = 0.98;

/// A device that makes each read wait, and has the same few blocks again and again.
struct Device {
    limits: Limits,
    lane: Lane,
    pool: Arc<Memory>,
}

impl Device {
    fn new(sectors: u64, lane: &Lane, random_percent: u64) -> Device {
        let mut random = Random::new(1);
        let pool = Memory::heap(POOL_BLOCKS as usize * BLOCK);
        for number in 0..POOL_BLOCKS {
            let mut block =
                format!("{number} hot blocks stay as they are. ").repeat(400).into_bytes();
            let noise = BLOCK * random_percent as usize / 100;
            block[..noise].fill_with(|| random.below(256) as u8);
            pool.write(number as usize * BLOCK, &block[..BLOCK]);
        }
        Device { limits: Limits::plain(sectors, 512), lane: lane.clone(), pool: Arc::new(pool) }
    }
}

impl block::Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> block::Result {
        let Request::Read { at, into } = request else { unreachable!("it is only read") };
        self.lane.sleep_until(self.lane.now() + READ_NS).await;
        for block in 0..u64::from(at.count / 8) {
            let from = ((at.first / 8 + block) % POOL_BLOCKS) as usize * BLOCK;
            into.part(block as u32 * 8, 8).copy_from(&self.pool, from);
        }
        Ok(())
    }
}

/// A cache, and the world that drives it.
struct Side {
    world: World,
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
    /// Blocks of the volume.
    blocks: u64,
    slots: u64,
}

impl Side {
    fn new(arguments: &Arguments, mib: u64, compress: Compress) -> Result<Side> {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let geometry = Geometry::for_memory(mib << 20);
        let slots = u64::from(geometry.slots);
        let blocks = slots * TIMES;
        let device = Device::new(blocks * 8, &lane, arguments.random_percent);
        let memory = Memory::heap(Arena::bytes(&geometry, 512));
        memory.zero(0, memory.bytes());
        let settings = Settings {
            write: WriteMode::Through,
            workers: 1,
            readahead: false,
            compress,
            ..Settings::default()
        };
        let shared = Shared::new(&device.limits, geometry, settings, 0, Arc::new(memory))?;
        let below = Stack::new(&lane, device);
        let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
        Ok(Side { world, lane, stack, shared, blocks, slots })
    }

    /// Reads these blocks one after the other; returns nanoseconds of processor time per read.
    fn read(&mut self, blocks: impl IntoIterator<Item = u64, IntoIter: 'static>) -> f64 {
        let (stack, into) = (self.stack.clone(), Buf::new(8, 512));
        let (done, blocks) = (Rc::new(Cell::new(None)), blocks.into_iter());
        let ended = done.clone();
        let reader = async move {
            let mut reads = 0;
            for block in blocks {
                reads += 1;
                let request = Request::Read { at: Extent::new(block * 8, 8), into: into.clone() };
                match stack.try_now(&request) {
                    Some(result) => result.expect("the device does not fail"),
                    None => stack.run(request).await.expect("the device does not fail"),
                }
            }
            ended.set(Some(reads));
        };
        self.lane.spawn(reader).expect("a slot is free");
        let start = cpu_ns();
        self.world.run_until(|| done.get().is_some());
        (cpu_ns() - start) as f64 / done.get().unwrap_or(1).max(1) as f64
    }

    /// Reads these blocks by their number in an order that is no stream.
    fn read_shuffled(&mut self, numbers: std::ops::Range<u64>) -> f64 {
        let blocks = self.blocks;
        self.read(numbers.map(move |number| shuffled(number, blocks)))
    }

    fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut sides = [
        Side::new(arguments, arguments.mib, Compress::Lz4)?,
        Side::new(arguments, arguments.mib, Compress::Off)?,
    ];
    run_hits(arguments, &mut sides);
    run_tier(arguments, &mut sides)?;
    run_misses(arguments, &mut sides);
    run_zipf(arguments)
}

fn each_in_turn(
    pairs: usize,
    sides: &mut [Side; 2],
    read: impl Fn(&mut Side, usize) -> f64,
) -> Pairs {
    let [one, two] = sides;
    let (mut run_one, mut run_two) = (0, 0);
    alternate(
        pairs,
        || {
            run_one += 1;
            read(one, run_one - 1)
        },
        || {
            run_two += 1;
            read(two, run_two - 1)
        },
    )
}

fn run_hits(arguments: &Arguments, sides: &mut [Side; 2]) {
    let hot = sides[0].slots / 8;
    // The cache is full, and the hot blocks are the newest.
    for side in sides.iter_mut() {
        side.read_shuffled(0..side.slots * 3 / 2);
        for _ in 0..3 {
            side.read_shuffled(0..hot);
        }
    }
    let reads = arguments.reads * 4;
    let pairs = each_in_turn(arguments.pairs, sides, |side, run| {
        let blocks = side.blocks;
        let first = run as u64 * reads;
        side.read((first..first + reads).map(move |at| shuffled(at % hot, blocks)))
    });
    let rate = pairs.b() / pairs.a();
    println!(
        "hits of uncompressed blocks: {:.0} ns with lz4, {:.0} ns without; rate {rate:.3}  target at \
         least {HITS_LEAST}: {}",
        pairs.a(),
        pairs.b(),
        verdict(rate >= HITS_LEAST)
    );
}

fn run_tier(arguments: &Arguments, sides: &mut [Side; 2]) -> Result<()> {
    let [tier, plain] = sides;
    let all = tier.slots * 3 / 2;
    let counters = tier.counters();
    println!(
        "memory of {} blocks holds {} and {} compressed in {}: {:.2} times as many",
        tier.slots,
        counters.blocks_held,
        counters.compressed_blocks,
        counters.compressed_slots,
        (counters.blocks_held + counters.compressed_blocks) as f64 / tier.slots as f64
    );
    // The oldest blocks are compressed, behind the hot ones. In the other cache the newest ones are
    // there.
    let first = tier.slots / 8 + tier.slots / 64;
    let reads = arguments.reads.min(tier.slots / 4 / arguments.pairs as u64);
    let (mut next, mut newest) = (first, all);
    let pairs = alternate(
        arguments.pairs,
        || {
            next += reads;
            tier.read_shuffled(next - reads..next)
        },
        || {
            newest -= reads;
            plain.read_shuffled(newest..newest + reads)
        },
    );
    let used = tier.counters().compressed_used - counters.compressed_used;
    let read = reads * arguments.pairs as u64;
    ensure!(used * 10 > read * 9, "only {used} of {read} reads were hits of the tier");
    let extra = median(pairs.differences());
    println!(
        "hits of compressed blocks: {:.0} ns, {:.0} ns of uncompressed ones; {extra:.0} ns more  \
         target at most {TIER_NS_MAX:.0}: {}",
        pairs.a(),
        pairs.b(),
        verdict(extra <= TIER_NS_MAX)
    );
    Ok(())
}

fn run_misses(arguments: &Arguments, sides: &mut [Side; 2]) {
    let (first, reads) = (sides[0].slots * 2, arguments.reads);
    let before = sides[0].counters();
    let pairs = each_in_turn(arguments.pairs, sides, |side, run| {
        let from = first + run as u64 * reads;
        side.read_shuffled(from..from + reads)
    });
    let after = sides[0].counters();
    let stored = after.compressed_stored - before.compressed_stored;
    println!(
        "misses: {:.0} ns with lz4, {:.0} ns without; {:.0} ns more, with the compression of {:.2} \
         blocks a miss",
        pairs.a(),
        pairs.b(),
        median(pairs.differences()),
        stored as f64 / (arguments.reads * arguments.pairs as u64) as f64
    );
}

fn run_zipf(arguments: &Arguments) -> Result<()> {
    let ratio = |mib: u64, compress| -> Result<f64> {
        let mut side = Side::new(arguments, mib, compress)?;
        let blocks = (arguments.mib << 8) * 4;
        let mut random = Random::new(5);
        let zipf = Zipf::new(blocks, arguments.zipf, &mut random);
        let mut half = |side: &mut Side| {
            let draws = zipf.draw(arguments.zipf_reads as usize / 2, &mut random);
            side.read(draws.into_iter().map(u64::from));
        };
        half(&mut side);
        let before = side.counters();
        half(&mut side);
        let after = side.counters();
        let hits = after.read_hits - before.read_hits;
        Ok(hits as f64 / (hits + after.read_misses - before.read_misses) as f64)
    };
    let lz4 = ratio(arguments.mib, Compress::Lz4)?;
    let off = ratio(arguments.mib, Compress::Off)?;
    let twice = ratio(arguments.mib * 2, Compress::Off)?;
    println!(
        "zipf {} over four times the memory: {:.1} % hits with lz4, {:.1} % without, {:.1} % with twice \
         the memory",
        arguments.zipf,
        lz4 * 100.0,
        off * 100.0,
        twice * 100.0
    );
    Ok(())
}
