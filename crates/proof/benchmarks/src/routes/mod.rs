//! Hits through a block device of this machine, 4 KiB at random: by ublk compared with a ublk
//! device that answers immediately and stores nothing, and with the kernel's NBD client to a daemon
//! of the same kind.
//!
//! It needs a kernel with both. Each side is attached all the time, and used in turns.

mod null;

use crate::device::{Attached, Load, fio};
use crate::overdrive::Overdrive;
use crate::program::{ProgramOptions, TemporaryPath, fill};
use crate::sides::{Pairs, Side, in_turns, verdict};
use anyhow::Result;
use null::Null;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Size of each device, in MiB; all of it is in memory.
    #[arg(long, default_value_t = 64)]
    image_mib: u64,
    /// Queue depth.
    #[arg(long, default_value_t = 32)]
    depth: u32,
    /// Threads of a daemon, and queues of a device.
    #[arg(long, default_value_t = 2)]
    threads: u16,
    /// Seconds of a run.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Pairs of runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Minimum rate relative to a device that stores nothing.
const OF_NULL_MIN: f64 = 0.8;
/// Minimum rate relative to the kernel's NBD client.
const OF_NBD_MIN: f64 = 1.5;

/// Attaches a volume with all blocks in memory, by this route.
fn attach<'a>(
    overdrive: &'a Overdrive,
    place: &Path,
    arguments: &Arguments,
    via: &str,
) -> Result<Attached<'a>> {
    let image = place.join(via);
    fill(&image, arguments.image_mib << 20)?;
    let (memory, threads) =
        (format!("{}M", arguments.image_mib * 2), arguments.threads.to_string());
    // The image may be in memory itself: the guard would then bypass the cache.
    let more = ["--via", via, "--memory", &memory, "--threads", &threads, "--guard", "off"];
    let attached = Attached::new(overdrive, &image, &more)?;
    for _ in 0..2 {
        fio(&attached.node(), &Load::pass("read", 4))?;
    }
    Ok(attached)
}

/// Prints the comparison of ublk with another device.
fn against(
    arguments: &Arguments,
    ublk: &Path,
    (other, what): (&Path, &str),
    goal: f64,
) -> Result<()> {
    let load = Load::timed("randread", arguments.depth, arguments.seconds);
    let found = in_turns(arguments.rounds, |side| {
        Ok(1e6 / fio(if side == Side::A { ublk } else { other }, &load)?)
    })?;
    let pairs = Pairs::of(&found, |period_us| *period_us);
    println!(
        "4 KiB hits by ublk at depth {}, against {what}: {} x; {:.1} and {:.1} us each; goal {goal}: {}",
        arguments.depth,
        pairs.speed_words(),
        pairs.a(),
        pairs.b(),
        verdict(pairs.speed().1 >= goal)
    );
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let place = TemporaryPath::directory("routes")?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let null = Null::start(arguments.image_mib << 20, arguments.threads)?;
    let ublk = attach(&overdrive, place.path(), arguments, "ublk")?;
    let node = ublk.node();
    against(arguments, &node, (null.node(), "a ublk device that keeps nothing"), OF_NULL_MIN)?;
    let nbd = attach(&overdrive, place.path(), arguments, "nbd")?;
    against(arguments, &node, (&nbd.node(), "the kernel's NBD client"), OF_NBD_MIN)?;
    nbd.detach()?;
    ublk.detach()
}
