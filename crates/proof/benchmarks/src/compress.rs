//! The compressed tier: the engine over a device with compressible data that makes each read wait,
//! in virtual time, with `--compress lz4` or `zstd`, and
//! `off`, in turns.
//!
//! ```text
//!   hits     of uncompressed blocks, processor time a read; with a fixed share of the tier, and
//!            while the share is chosen
//!   tier     first reads of compressed blocks, compared with reads of uncompressed ones
//!   misses   every read is a miss that evicts a block, which is dropped or compressed
//!   zipf     hit ratio of the same memory, and of uncompressed memory twice as large
//! ```

use crate::cached_pool::{BLOCK, Side};
use crate::sides::{Pairs, alternate, median, verdict};
use crate::virtual_time::shuffled;
use crate::zipf::Zipf;
use ::policy::TierShare;
use anyhow::{Result, ensure};
use block::{Compress, Memory};
use cache::Geometry;
use lane::Random;
use std::str::FromStr;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Codec of the tier: lz4 or zstd.
    #[arg(long, default_value = "lz4", value_parser = codec)]
    compress: Compress,
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

/// Different blocks of the device.
const POOL_BLOCKS: u64 = 512;
/// Blocks of the volume for each slot.
const TIMES: u64 = 64;

/// The share of the tier while times are compared: a change of it moves blocks.
const SHARE: TierShare = TierShare { percent: 50, stores_rejected: false };

/// A hit of a compressed block may take this much more, in nanoseconds.
fn tier_ns_max(compress: Compress) -> f64 {
    match compress {
        Compress::Zstd => 9_000.0,
        _ => 2_000.0,
    }
}

/// A miss may take this much more, in nanoseconds.
const MISS_NS_MAX: f64 = 100.0;
/// The rate of uncompressed hits, compared with no compression.
const HITS_LEAST: f64 = 0.98;

fn codec(word: &str) -> Result<Compress, String> {
    match Compress::from_str(word) {
        Ok(found @ (Compress::Lz4 | Compress::Zstd)) => Ok(found),
        _ => Err("write lz4 or zstd".to_owned()),
    }
}

/// Returns the blocks of the device: text behind random bytes.
fn pool(random_percent: u64) -> Arc<Memory> {
    let mut random = Random::new(1);
    let pool = Memory::heap(POOL_BLOCKS as usize * BLOCK);
    for number in 0..POOL_BLOCKS {
        let mut block = format!("{number} hot blocks stay as they are. ").repeat(400).into_bytes();
        let noise = BLOCK * random_percent as usize / 100;
        block[..noise].fill_with(|| random.below(256) as u8);
        pool.write(number as usize * BLOCK, &block[..BLOCK]);
    }
    Arc::new(pool)
}

fn side(arguments: &Arguments, mib: u64, compress: Compress) -> Result<Side> {
    let blocks = u64::from(Geometry::for_memory(mib << 20).slots) * TIMES;
    Side::new(&pool(arguments.random_percent), blocks, mib << 20, Side::settings(compress))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sides = || -> Result<[Side; 2]> {
        Ok([
            side(arguments, arguments.mib, arguments.compress)?,
            side(arguments, arguments.mib, Compress::Off)?,
        ])
    };
    println!("--compress {}", arguments.compress);
    let mut fixed = sides()?;
    fixed[0].fix_tier_share(SHARE);
    run_tier(arguments, &mut fixed)?;
    drop(fixed);
    let mut fixed = sides()?;
    fixed[0].fix_tier_share(SHARE);
    run_hits(arguments, &mut fixed, "fixed share")?;
    print_held(&fixed[0]);
    run_misses(arguments, &mut fixed, "blocks that the policy rejects are dropped");
    fixed[0].fix_tier_share(TierShare { stores_rejected: true, ..SHARE });
    run_misses(arguments, &mut fixed, "each evicted block is compressed");
    drop(fixed);
    run_hits(arguments, &mut sides()?, "chosen share")?;
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

fn run_hits(arguments: &Arguments, sides: &mut [Side; 2], share: &str) -> Result<()> {
    let hot = sides[0].slots / 8;
    // The cache is full, its slots are in no order, and the hot blocks are the newest.
    for side in sides.iter_mut() {
        let (all, mut random) = (side.slots * 3 / 2, Random::new(3));
        side.read_shuffled(0..all);
        let blocks = side.blocks;
        side.read((0..all * 2).map(move |_| shuffled(random.below(all), blocks)));
        side.read_shuffled(hot..all);
        for _ in 0..8 {
            side.read_shuffled(0..hot);
        }
    }
    let before = sides[0].counters();
    let reads = arguments.reads * 4;
    let pairs = each_in_turn(arguments.pairs, sides, |side, run| {
        let blocks = side.blocks;
        let first = run as u64 * reads;
        side.read((first..first + reads).map(move |at| shuffled(at % hot, blocks)))
    });
    let used = sides[0].counters().compressed_used - before.compressed_used;
    ensure!(used == 0, "{used} of the reads were hits of the tier");
    println!(
        "hits of uncompressed blocks, {share}: {:.0} ns with a tier, {:.0} ns without; rate {}  target \
         at least {HITS_LEAST}: {}",
        pairs.a(),
        pairs.b(),
        pairs.speed_words(),
        pairs.level(HITS_LEAST)
    );
    Ok(())
}

fn print_held(side: &Side) {
    let counters = side.counters();
    println!(
        "memory of {} blocks holds {} and {} compressed in {}: {:.2} times as many",
        side.slots,
        counters.blocks_held,
        counters.compressed_blocks,
        counters.compressed_slots,
        (counters.blocks_held + counters.compressed_blocks) as f64 / side.slots as f64
    );
}

/// Compares first reads of compressed blocks with reads of uncompressed ones, in caches that are
/// new: a tier whose blocks were read before stores those again when they are the oldest, and then
/// has no room for some new ones.
fn run_tier(arguments: &Arguments, sides: &mut [Side; 2]) -> Result<()> {
    let [tier, plain] = sides;
    for side in [&mut *tier, &mut *plain] {
        side.read_shuffled(0..side.slots * 3 / 2);
    }
    let cold = cold_blocks(plain);
    let reads = arguments.reads.min(tier.slots / 4 / arguments.pairs as u64);
    let before = [tier.counters(), plain.counters()];
    // The oldest blocks are compressed, and reading them once moves none.
    let (mut next, mut rest) = (0, cold.chunks(reads as usize));
    let pairs = alternate(
        arguments.pairs,
        || {
            next += reads;
            tier.read_shuffled(next - reads..next)
        },
        || plain.read(rest.next().expect("a quarter of the slots").to_vec()),
    );
    let read = reads * arguments.pairs as u64;
    let used = tier.counters().compressed_used - before[0].compressed_used;
    ensure!(used == read, "only {used} of {read} reads were hits of the tier");
    let hits = plain.counters().read_hits - before[1].read_hits;
    ensure!(hits == read, "only {hits} of {read} reads were hits without a tier");
    let (extra, max) = (median(pairs.differences()), tier_ns_max(arguments.compress));
    println!(
        "hits of compressed blocks: {:.0} ns, {:.0} ns of uncompressed ones; {extra:.0} ns more  \
         target at most {max:.0}: {}",
        pairs.a(),
        pairs.b(),
        verdict(extra <= max)
    );
    Ok(())
}

/// Returns the blocks in memory in random order.
fn cold_blocks(side: &mut Side) -> Vec<u64> {
    let (mut cold, mut random) = (side.held(), Random::new(7));
    for at in (1..cold.len()).rev() {
        cold.swap(at, random.below(at as u64 + 1) as usize);
    }
    cold
}

/// Reads blocks that are in no cache: in the steps of the misses themselves, and with all tasks.
fn run_misses(arguments: &Arguments, sides: &mut [Side; 2], evicted: &str) {
    // Blocks of earlier calls may still be cached.
    let (mut next, reads) = (sides[0].slots * 2 + sides[0].counters().read_misses, arguments.reads);
    for part in ["their own steps", "all tasks"] {
        let before = sides[0].counters();
        let pairs = each_in_turn(arguments.pairs, sides, |side, run| {
            let from = next + run as u64 * reads;
            match part {
                "all tasks" => side.read_shuffled(from..from + reads),
                _ => side.read_shuffled_alone(from..from + reads),
            }
        });
        next += arguments.pairs as u64 * reads;
        let after = sides[0].counters();
        let stored = after.compressed_stored - before.compressed_stored;
        let more = median(pairs.differences());
        let target = match part {
            "all tasks" => String::new(),
            _ => format!("  target at most {MISS_NS_MAX:.0}: {}", verdict(more <= MISS_NS_MAX)),
        };
        println!(
            "misses, {evicted}, {part}: {:.0} ns with a tier, {:.0} ns without; {more:.0} ns more, with \
             the compression of {:.2} blocks a miss{target}",
            pairs.a(),
            pairs.b(),
            stored as f64 / (reads * arguments.pairs as u64) as f64
        );
    }
}

fn run_zipf(arguments: &Arguments) -> Result<()> {
    let ratio = |mib: u64, compress| -> Result<f64> {
        let mut side = side(arguments, mib, compress)?;
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
    let tier = ratio(arguments.mib, arguments.compress)?;
    let off = ratio(arguments.mib, Compress::Off)?;
    let twice = ratio(arguments.mib * 2, Compress::Off)?;
    println!(
        "zipf {} over four times the memory: {:.1} % hits with the tier, {:.1} % without, {:.1} % with twice \
         the memory",
        arguments.zipf,
        tier * 100.0,
        off * 100.0,
        twice * 100.0
    );
    Ok(())
}
