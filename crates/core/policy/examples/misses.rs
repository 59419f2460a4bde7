//! The first half of `cargo xtask policies`: generates traces from a seed, writes them into a
//! directory, and prints the number of misses of each trace under each policy that can be compared
//! with libcachesim.
//!
//! `cargo run --release --package policy --example misses -- DIRECTORY SEED`. A trace is a file of
//! block numbers, 64 bits each, little-endian. A line of the output: the trace, the slots, the
//! policy, its misses if it follows its paper, and if it follows libcachesim.

use lane::Random;
use policy::{Kind, Simulation};
use std::path::Path;

/// Sizes of the caches, in slots. Below 200, where it has one slot for HIR blocks, LIRS in
/// libcachesim evicts a block that was just hit.
const SLOTS: [u32; 4] = [200, 501, 997, 3_000];
/// Reads of each trace.
const READS: usize = 40_000;

/// Returns reads of `blocks` blocks whose frequencies are proportional to 1 / rank.
fn zipf(random: &mut Random, blocks: u64, reads: usize) -> Vec<u64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=blocks)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut rank = || {
        let point = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * sum;
        sums.partition_point(|&partial| partial <= point) as u64
    };
    // The multiplication scatters the ranks over the blocks; it maps no two ranks to the same
    // block.
    (0..reads).map(|_| rank() * 2_654_435_761 % (1 << 32)).collect()
}

/// Returns loops of several lengths, one after the other.
fn loops(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    while trace.len() < reads {
        let (from, length) = (random.below(2_000), 100 + random.below(1_200));
        let rounds = 2 + random.below(6);
        trace.extend((0..rounds * length).map(|read| from + read % length));
    }
    trace.truncate(reads);
    trace
}

/// Returns scans of blocks that are rarely read again, between reads of a few blocks that are.
fn scans(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    while trace.len() < reads {
        let (from, length) = (10_000 + random.below(1 << 20), random.below(600));
        trace.extend(from..from + length);
        let few = 50 + random.below(700);
        trace.extend((0..random.below(1_500)).map(|_| random.below(few)));
    }
    trace.truncate(reads);
    trace
}

/// Returns pieces of all the other traces, in random order.
fn mixed(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut trace = Vec::new();
    while trace.len() < reads {
        let piece = 500 + random.below(3_000) as usize;
        trace.extend(match random.below(3) {
            0 => zipf(random, 5_000, piece),
            1 => loops(random, piece),
            _ => scans(random, piece),
        });
    }
    trace.truncate(reads);
    trace
}

fn misses(mut simulation: Simulation, trace: &[u64]) -> usize {
    trace.iter().filter(|&&block| !simulation.read(block)).count()
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, seed) = match &arguments[..] {
        [directory, seed] => (Path::new(directory), seed.parse::<u64>()),
        _ => return Err(std::io::Error::other("give a directory and a seed")),
    };
    let mut random = Random::new(seed.map_err(std::io::Error::other)?);
    let traces = [
        ("zipf", zipf(&mut random, 5_000, READS)),
        ("loops", loops(&mut random, READS)),
        ("scans", scans(&mut random, READS)),
        ("mixed", mixed(&mut random, READS)),
        ("mixed-2", mixed(&mut random, READS)),
    ];
    for (name, trace) in traces {
        let bytes: Vec<u8> = trace.iter().flat_map(|block| block.to_le_bytes()).collect();
        std::fs::write(directory.join(name), bytes)?;
        for slots in SLOTS {
            // The sketch of W-TinyLFU uses other hashes, and the project's own policy exists only
            // here.
            let has_no_peer =
                |kind: &Kind| matches!(kind, Kind::WTinyLfu | Kind::WTinyLfu10 | Kind::Adaptive);
            for kind in Kind::ALL.into_iter().filter(|kind| !has_no_peer(kind)) {
                let paper = misses(Simulation::new(kind, slots), &trace);
                let libcachesim = misses(Simulation::as_libcachesim(kind, slots), &trace);
                println!("{name} {slots} {} {paper} {libcachesim}", kind.name());
            }
        }
    }
    Ok(())
}
