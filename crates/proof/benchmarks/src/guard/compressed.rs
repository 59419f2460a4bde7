//! `--compress auto` against off, while programs keep every processor busy and while they do not:
//! random reads of twice the memory, of a file in the page cache (a hit of the tier hardly saves
//! anything) and behind a delay.

use super::{Arguments, Contest, Hogs};
use crate::fio::{Load, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::TemporaryPath;
use anyhow::{Context, Result};
use lane::Random;
use std::io::Write;
use std::path::Path;

/// Memory of the caches, in MiB.
const MEMORY_MIB: u64 = 64;
/// Bytes of a block that are random; the rest is text.
const NOISE_BYTES: usize = 1200;
/// Minimum speed of the server that compresses.
const SPEED_MIN: f64 = 0.95;
/// Time in which the caches fill.
const WARM_MS: u32 = 3000;

/// Writes blocks of text behind random bytes.
fn fill(path: &Path, blocks: u64) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let (mut file, mut random) = (std::io::BufWriter::new(file), Random::new(1));
    for number in 0..blocks {
        let mut block = format!("block {number} of a file that is text. ").repeat(200).into_bytes();
        block[..NOISE_BYTES].fill_with(|| random.below(256) as u8);
        file.write_all(&block[..4096])?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}

/// Runs every comparison.
pub(super) fn run(overdrive: &Overdrive, arguments: &Arguments) -> Result<()> {
    let file = arguments.program_options.file("guard-compressed");
    fill(file.path(), (MEMORY_MIB * 2) << 8)?;
    for busy in [arguments.busy, 0] {
        rows(overdrive, arguments, &file, busy)?;
    }
    Ok(())
}

fn rows(
    overdrive: &Overdrive,
    arguments: &Arguments,
    file: &TemporaryPath,
    busy: usize,
) -> Result<()> {
    let (processors, split) = (Processors::all()?, Processors::split()?);
    let (memory, backing) = (format!("{MEMORY_MIB}M"), file.path().display().to_string());
    let slow = arguments.delays_us.iter().map(|us| Some(format!("read={us}us,servers=32")));
    for delay in [None].into_iter().chain(slow) {
        let serve = |name: &str, compress: &str| {
            let more = ["--no-holder", "--read-only", "--buffered", "--memory", &memory];
            let delayed = delay.iter().flat_map(|delay| ["--delay", delay.as_str()]);
            let more: Vec<&str> =
                more.into_iter().chain(["--compress", compress]).chain(delayed).collect();
            overdrive.serve(&split.of_servers(), name, &backing, &more)
        };
        println!(
            "{}: --compress auto against off, {} busy programs on {} processors",
            delay.as_deref().unwrap_or("page cache"),
            busy * processors.len(),
            processors.len()
        );
        let (with, without) = (serve("auto", "auto")?, serve("off", "off")?);
        let contest = Contest { overdrive, client: split.of_client(), with, without, arguments };
        for &depth in &arguments.depths {
            let load = Load::new("randread", depth);
            let hogs = Hogs::start(&processors, busy)?;
            for server in [&contest.with, &contest.without] {
                fio_load(server, &contest.client, &load, WARM_MS)?;
            }
            super::print(&format!("randread, depth {depth}"), &contest.compare(&load)?, SPEED_MIN);
            drop(hogs);
            let stats = overdrive.stats_of(&contest.with)?;
            let count = |name: &str| stats["counters"][name].as_u64().unwrap_or(0);
            println!(
                "    auto: {} blocks stored, {} answered from the tier, {} reads missed of {}",
                count("compressed_stored"),
                count("compressed_used"),
                count("read_misses"),
                count("read_misses") + count("read_hits"),
            );
        }
    }
    Ok(())
}
