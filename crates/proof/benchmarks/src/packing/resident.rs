//! The memory of a cache by the kernel's count (RSS), in a process of its own: in this one, the
//! memory of earlier caches is used again.

use super::files::Set;
use super::held::Held;
use crate::cached_pool::BLOCK;
use anyhow::{Context, Result, ensure};
use block::Memory;
use cache::Settings;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Returns the bytes of memory that this process has.
fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).context("Rss")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

/// Prints the blocks that a cache over a file holds for each byte of memory that the process has
/// because of it.
pub(super) fn print(file: &Path, settings: Settings) -> Result<()> {
    let bytes = std::fs::read(file)?;
    let pool = Memory::heap(bytes.len() / BLOCK * BLOCK);
    pool.write(0, &bytes[..pool.bytes()]);
    let pool = Arc::new(pool);
    let before = resident_bytes()?;
    let (held, _side) = Held::of_pool(&pool, settings)?;
    println!("{}", held.count / (resident_bytes()? - before) as f64);
    Ok(())
}

/// Returns the blocks that a cache over a set holds for each byte of memory that a process has
/// because of it.
pub(super) fn density(set: &Set, settings: Settings) -> Result<f64> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), set.blocks.as_flattened())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["packing", "--compress", &settings.compress.to_string()]);
    command.args(["--stored-percent-max", &settings.compressed_percent_max.to_string()]);
    let output = command.arg("--resident-of").arg(file.path()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the process that measures its memory: {errors}");
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
