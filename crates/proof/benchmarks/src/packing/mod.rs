//! Compressed blocks: how many more fit into the same memory, the time of each codec, and the
//! memory that is wasted after a day of churn.

mod churn;
mod files;
mod held;
mod tools;

use crate::sides::{cpu_ns, median, verdict};
use anyhow::Result;
use churn::{Order, day};
use files::{Goal, Set};
use held::{Choice, HEADER_BYTES, Store};
use packing::{BLOCK_BYTES, Compressor, Outcome};
use tools::Alone;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data of each kind, in MiB.
    #[arg(long, default_value_t = 64)]
    mib: usize,
    /// Replacements of the simulated day.
    #[arg(long, default_value_t = 2_000_000)]
    stores: usize,
    /// Objects of the simulated day.
    #[arg(long, value_delimiter = ',', default_value = "20000,150000,1000000")]
    objects: Vec<usize>,
    /// Repetitions of each timing.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Minimum factor of blocks in the same memory.
const MORE_BLOCKS: f64 = 1.6;
/// Of data that no codec shortens.
const AS_MANY: f64 = 0.99;
/// Part of a codec's own ratio that must be left.
const PART_OF_ALONE: f64 = 0.95;

/// Returns the memory of these blocks without packing, in bytes.
fn plain_bytes(blocks: usize) -> f64 {
    blocks as f64 * (BLOCK_BYTES as f64 + HEADER_BYTES)
}

/// Returns nanoseconds for each trial: of blocks that are packed, and of the others.
fn trial_ns(set: &Set, choice: Choice) -> (f64, f64) {
    let mut compressor = Compressor::new();
    let (mut ns, mut counts) = ([0; 2], [0u32; 2]);
    for (at, block) in (0..).zip(&set.blocks) {
        let begin = cpu_ns();
        let outcome = choice.compress(&mut compressor, at, block);
        let end = cpu_ns();
        if !matches!(outcome, Outcome::Pattern(_)) {
            let side = usize::from(outcome == Outcome::Incompressible);
            ns[side] += end - begin;
            counts[side] += 1;
        }
    }
    (ns[0] as f64 / f64::from(counts[0]), ns[1] as f64 / f64::from(counts[1]))
}

/// Returns nanoseconds of the clock's own reading.
fn clock_ns() -> f64 {
    let begin = cpu_ns();
    (0..1000).for_each(|_| {
        std::hint::black_box(cpu_ns());
    });
    (cpu_ns() - begin) as f64 / 1000.0
}

/// Formats a time, which is no number if nothing was timed.
fn time_words(ns: f64) -> String {
    if ns.is_nan() { "never".to_owned() } else { format!("{ns:.0} ns") }
}

/// Prints the figures of a set and a codec, whose own ratio is `alone`. Returns the factor of the
/// blocks in the same memory, and the part of `alone` that is left without metadata.
fn show(set: &Set, choice: Choice, alone: f64, rounds: usize) -> (f64, f64) {
    let store = Store::of(set, choice);
    let figures = store.figures();
    let bytes = (set.blocks.len() * BLOCK_BYTES) as f64;
    let held = plain_bytes(set.blocks.len()) / (figures.memory + figures.metadata);
    let memory = bytes / figures.memory;
    let clock = clock_ns();
    let times = |time: &dyn Fn() -> f64| median((0..rounds).map(|_| time()).collect()) - clock;
    let pack = times(&|| trial_ns(set, choice).0);
    let give_up = times(&|| trial_ns(set, choice).1);
    let decode = times(&|| store.decode(set));
    println!(
        "{:<10} {:<4} {held:.3}x blocks held; {memory:.3} without metadata, {:.3} without the area, \
         {alone:.3} the codec alone; {:.1} bytes of metadata for each block; {} packed, {} patterns, \
         {} raw; compress {}, decode {}, give up {}",
        set.name,
        choice.name(),
        bytes / figures.content,
        figures.metadata / set.blocks.len() as f64,
        figures.packed,
        figures.patterns,
        figures.raw,
        time_words(pack),
        time_words(decode),
        time_words(give_up),
    );
    (held, memory / alone)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (mut sets, missing) = files::sets((arguments.mib << 20) / BLOCK_BYTES)?;
    missing.iter().for_each(|reason| println!("without {reason}"));
    let kinds = lengths(&sets);
    sets.push(Set::together(&sets));
    for set in &sets {
        let alone = Alone::of(set)?;
        for choice in Choice::ALL {
            let own = match choice {
                Choice::Lz4 => alone.lz4.as_ref(),
                Choice::Zstd => alone.zstd.as_ref(),
            };
            if let Err(error) = own {
                println!("{}: {error:#}", choice.name());
            }
            let own = own.map_or(f64::NAN, |own| *own);
            let (held, part) = show(set, choice, own, arguments.rounds);
            match set.goal {
                Goal::None => {}
                Goal::AsMany => println!("    target 1.0: {}", verdict(held >= AS_MANY)),
                Goal::More => println!(
                    "    target at least {MORE_BLOCKS}: {}; {part:.3} of the codec alone  target at \
                     least {PART_OF_ALONE}: {}",
                    verdict(held >= MORE_BLOCKS),
                    verdict(part >= PART_OF_ALONE)
                ),
            }
        }
        match alone.zram {
            Ok(ratio) => println!("{:<10} zram {ratio:.3}", set.name),
            Err(error) => println!("{:<10} zram: {error:#}", set.name),
        }
    }
    show_days(&kinds, arguments);
    Ok(())
}

/// Returns the lengths of the objects of each set of compressible blocks.
fn lengths(sets: &[Set]) -> Vec<Vec<u16>> {
    let mut compressor = Compressor::new();
    let sets = sets.iter().filter(|set| set.goal != Goal::AsMany);
    sets.map(|set| {
        let length = |block| match compressor.compress(0, block) {
            Outcome::Packed(object) => Some(object.length),
            _ => None,
        };
        set.blocks.iter().filter_map(length).collect()
    })
    .collect()
}

/// Prints the figures of days of churn with the objects of compressible sets.
fn show_days(kinds: &[Vec<u16>], arguments: &Arguments) {
    for objects in &arguments.objects {
        for (order, name) in [(Order::Oldest, "oldest"), (Order::Random, "random")] {
            let day = day(kinds, *objects, arguments.stores, order);
            println!(
                "a day, {objects} objects, {name} leave: memory {:.3} of the objects' bytes in the \
                 mean, {:.3} at most; {:.2} moves and {:.1} headers for each store; {:.2} bytes of \
                 metadata for each object",
                day.mean, day.most, day.moves, day.headers, day.metadata
            );
        }
    }
}
