//! Compressed blocks of files: how many more the engine holds in the same memory, and the time of
//! each codec.

mod alone;
mod files;
mod held;
mod resident;
mod tools;

use crate::cached_pool::{BLOCK, Side};
use crate::sides::verdict;
use alone::Figures;
use anyhow::{Result, ensure};
use block::Compress;
use cache::Settings;
use files::{Goal, Set};
use held::Held;
use packing::{Codec, Encoder};
use std::path::PathBuf;
use tools::Alone;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data of each kind, in MiB.
    #[arg(long, default_value_t = 64)]
    mib: usize,
    /// Repetitions of each timing.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Maximum size of a compressed block that is stored, in percent of a block.
    #[arg(long, default_value_t = Settings::default().compressed_percent_max)]
    stored_percent_max: u32,
    /// Only the set of this name, for example `together`.
    #[arg(long)]
    only: Option<String>,
    /// Print the blocks that a cache over this file holds for each byte of the process's memory.
    #[arg(long, hide = true)]
    resident_of: Option<PathBuf>,
    /// The setting of that cache.
    #[arg(long, hide = true, default_value = "off")]
    compress: Compress,
}

impl Arguments {
    /// Returns the settings of a cache that compresses in this way.
    fn settings(&self, compress: Compress) -> Settings {
        Settings { compressed_percent_max: self.stored_percent_max, ..Side::settings(compress) }
    }
}

/// Minimum factor of blocks in the same memory.
const MORE_BLOCKS: f64 = 1.6;
/// Of data that no codec shortens.
const AS_MANY: f64 = 0.99;
/// Part of a command's own ratio that must be left.
const PART_OF_ALONE: f64 = 0.95;

/// Formats a time, which is no number if nothing was timed.
fn time_words(ns: f64) -> String {
    if ns.is_nan() { "never".to_owned() } else { format!("{ns:.0} ns") }
}

/// Prints the figures of a codec by itself, and the part of a command's ratio that it reaches.
fn show_codec(set: &Set, codec: Codec, command: &Result<f64>, arguments: &Arguments) {
    let bytes_max = BLOCK * arguments.stored_percent_max as usize / 100;
    let figures = Figures::of(set, codec, bytes_max, arguments.rounds);
    println!(
        "{:<10} {codec:?}: ratio {:.3}, {:.3} with metadata; compress {}, decode {}, give up {}; {} compressed, {} words, \
         {} refused, {} not tried",
        set.name,
        figures.ratio,
        figures.packed_ratio,
        time_words(figures.compress_ns),
        time_words(figures.decode_ns),
        time_words(figures.give_up_ns),
        figures.compressed,
        figures.words,
        figures.refused,
        figures.untried,
    );
    match command {
        Ok(ratio) if set.goal == Goal::More => println!(
            "    {:.3} of the command's {ratio:.3}  target at least {PART_OF_ALONE}: {}",
            figures.ratio / ratio,
            verdict(figures.ratio / ratio >= PART_OF_ALONE)
        ),
        Ok(ratio) => println!("    the command's ratio is {ratio:.3}"),
        Err(error) => println!("    {error:#}"),
    }
}

/// Prints the blocks that the engine holds with this setting.
fn show_held(set: &Set, compress: Compress, arguments: &Arguments) -> Result<()> {
    let (packed, off) = (arguments.settings(compress), arguments.settings(Compress::Off));
    let (held, plain) = (Held::of(set, packed)?, Held::of(set, off)?);
    let gain = held.gain(&plain);
    let resident_gain = resident::density(set, packed)? / resident::density(set, off)?;
    println!(
        "{:<10} engine with {compress}: {gain:.3} times as many blocks in the same memory, {:.3} by \
         RSS, {:.3} without metadata; {}; {:.1} bytes of metadata for each block, {:.1} without \
         compression",
        set.name,
        resident_gain,
        held.blocks / plain.blocks,
        held.tier_words(),
        held.metadata_bytes(),
        plain.metadata_bytes(),
    );
    match set.goal {
        Goal::None => {}
        Goal::AsMany => println!("    target at least {AS_MANY}: {}", verdict(gain >= AS_MANY)),
        Goal::More => {
            println!("    target at least {MORE_BLOCKS}: {}", verdict(gain >= MORE_BLOCKS))
        }
    }
    Ok(())
}

/// Returns the bytes of each compressible block of this machine's files with LZ4, also of those
/// that would not be stored.
///
/// # Errors
/// No set can be made.
pub(crate) fn sizes_together(mib: usize) -> Result<Vec<u32>> {
    let (sets, _) = files::sets((mib << 20) / BLOCK)?;
    let mut encoder = Encoder::new(BLOCK, BLOCK);
    let size = |block: &files::Block| {
        let encoded = encoder.encode(Codec::Lz4, block);
        encoded.map_or(BLOCK, |(_, data)| data.len()) as u32
    };
    Ok(Set::together(&sets).blocks.iter().map(size).collect())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(file) = &arguments.resident_of {
        return resident::print(file, arguments.settings(arguments.compress));
    }
    let (mut sets, missing) = files::sets((arguments.mib << 20) / BLOCK)?;
    missing.iter().for_each(|reason| println!("without {reason}"));
    sets.push(Set::together(&sets));
    sets.push(Set::words((arguments.mib << 20) / BLOCK));
    sets.push(Set::random((arguments.mib << 20) / BLOCK));
    sets.retain(|set| arguments.only.as_ref().is_none_or(|name| name == set.name));
    ensure!(!sets.is_empty(), "no set has this name");
    for set in &sets {
        let alone = Alone::of(set)?;
        show_codec(set, Codec::Lz4, &alone.lz4, arguments);
        show_codec(set, Codec::Zstd, &alone.zstd, arguments);
        show_held(set, Compress::Lz4, arguments)?;
        show_held(set, Compress::Zstd, arguments)?;
        match alone.zram {
            Ok(ratio) => println!("{:<10} zram with LZ4: ratio {ratio:.3}", set.name),
            Err(error) => println!("{:<10} zram: {error:#}", set.name),
        }
    }
    Ok(())
}
