//! The limit of a stored block: the misses of the default policy over traces, whose blocks have the
//! sizes of this machine's compressible files.

use super::Arguments;
use super::gap::PERCENTS;
use super::traces;
use crate::packing::sizes_together;
use ::policy::{CompressedBytes, Simulation, TieredSimulation};
use anyhow::Result;
use simulator::{BLOCK_BYTES, BlockSizes};
use std::sync::Arc;

/// Limits, in percent of a block.
const LIMITS: [u64; 5] = [65, 75, 82, 83, 90];
/// Data of each kind of files, in MiB.
const FILES_MIB: usize = 32;

/// Compares the limits.
///
/// # Errors
/// A trace or the files cannot be read.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let sizes = BlockSizes::new("files".to_owned(), sizes_together(FILES_MIB)?);
    let limited = LIMITS
        .map(|percent| sizes.clone().with_stored_bytes_max((BLOCK_BYTES * percent / 100) as u32));
    println!("changes of the misses by the compressed tier, in percent, by the limit of a block");
    let heads: String = LIMITS.iter().map(|percent| format!("{percent:>6} %")).collect();
    let stored: String =
        limited.iter().map(|sizes| format!("{:>8.3}", sizes.stored_share())).collect();
    println!("  {:<16} {:>10}{heads}\n  {:<27}{stored}", "", "without", "share of stored blocks");
    let (mut sums, mut cells) = ([0.0; LIMITS.len()], 0);
    for trace in traces::find(&arguments.traces)? {
        if !arguments.takes(&trace.name, trace.family()) {
            continue;
        }
        for percent in PERCENTS {
            let (kind, slots) = (simulator::DEFAULT, trace.slots(percent));
            let mut plain = Simulation::new(kind, slots);
            let mut caches = limited.clone().map(|sizes| {
                let bytes: Arc<CompressedBytes> = Arc::new(move |hash| sizes.of(hash));
                (TieredSimulation::new(kind, slots, 1, &bytes), 0u64)
            });
            let mut misses = 0u64;
            for block in trace.blocks() {
                misses += u64::from(!plain.read(block));
                for (cache, misses) in &mut caches {
                    *misses += u64::from(!cache.read(block));
                }
            }
            let changes = caches.map(|(_, of)| (of as f64 / misses as f64 - 1.0) * 100.0);
            let row: String = changes.iter().map(|change| format!("{change:>8.2}")).collect();
            println!("  {:<16} {misses:>10}{row}", format!("{} {percent} %", trace.name));
            sums.iter_mut().zip(changes).for_each(|(sum, change)| *sum += change);
            cells += 1;
        }
    }
    let means = sums.map(|sum| format!("{:>8.2}", sum / f64::from(cells.max(1))));
    println!("  {:<27}{}", "mean", means.concat());
    Ok(())
}
