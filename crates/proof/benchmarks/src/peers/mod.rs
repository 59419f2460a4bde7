//! Overdrive compared with other caches for block devices, each with the same memory over the same
//! slow device.
//!
//! It runs in a guest, whose kernel has the other caches as modules ([`COMMAND`]). Each cache has a
//! `null_blk` device of its own below it, which takes 0.5 ms for a request and serves four at a
//! time. The kernel's caches are made for an SSD as their cache device. Here they get a RAM disk of
//! the size of Overdrive's memory, so that all have equally fast media. The last part shows the
//! price of that: it counts the synced blocks that are not on the slow device.

mod kernel;
mod load;
mod pages;

use crate::device::Attached;
use crate::overdrive::Overdrive;
use crate::program::ProgramOptions;
use crate::sides::{Pairs, median};
use crate::zipf::Zipf;
use anyhow::{Context, Result, ensure};
use kernel::{Bcache, Mapped};
use lane::Random;
use load::{Run, Target};
use pages::{Group, Qemu};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Memory of each cache, in MiB; the RAM disks must have this size.
    #[arg(long, default_value_t = 64)]
    memory_mib: u64,
    /// Part of each device that is used, in MiB.
    #[arg(long, default_value_t = 256)]
    span_mib: u64,
    /// Exponent of the distribution of reads.
    #[arg(long, default_value_t = 1.1)]
    exponent: f64,
    /// Reads before the measurements, for each cache.
    #[arg(long, default_value_t = 60_000)]
    warm: usize,
    /// Requests of each run.
    #[arg(long, default_value_t = 3_200)]
    requests: usize,
    /// Maximum time of each run, in seconds; of warming up, four times as long.
    #[arg(long, default_value_t = 30)]
    limit_seconds: u64,
    /// Runs of each cache and load.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// The command that loads the modules and runs this.
const COMMAND: &str = "cargo xtask guest --memory-mib 4096 --timeout-seconds 1800 \
    --module ublk_drv --module nbd --module bcache --module dm_cache_smq --module dm_writecache \
    --module 'brd rd_nr=4 rd_size=65536' --module 'null_blk nr_devices=7 gb=1 memory_backed=1 \
    irqmode=2 completion_nsec=500000 submit_queues=1 hw_queue_depth=4' \
    --build benchmarks --build overdrive -- benchmarks peers";

/// Number of slow devices, one for each cache.
const DEVICES: usize = 7;
/// Concurrent reads of the second load, and of warming up.
const DEPTH: usize = 8;

/// A cache, as one of several that are compared.
struct Peer<'a> {
    name: &'static str,
    target: Target,
    /// The control group that this process joins while it uses the target.
    group: Option<&'a Group>,
    /// The slow device, and the position in it of the target's first byte.
    below: (PathBuf, u64),
}

fn slow(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/nullb{number}"))
}

fn ram(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/ram{number}"))
}

impl<'a> Peer<'a> {
    fn new(name: &'static str, node: PathBuf, device: usize) -> Result<Peer<'a>> {
        let target = Target::new(node, true)?;
        Ok(Peer { name, target, group: None, below: (slow(device), 0) })
    }

    /// Runs a load, in this peer's control group.
    fn run<T>(&self, load: impl FnOnce(&Target) -> Result<T>) -> Result<T> {
        let joined = self.group.map(Group::join).transpose()?;
        let result = load(&self.target);
        drop(joined);
        result.with_context(|| self.name)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for path in (0..DEVICES).map(slow).chain((0..4).map(ram)) {
        ensure!(path.exists(), "{} is not there; run: {COMMAND}", path.display());
    }
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let memory = arguments.memory_mib << 20;
    let attached =
        Attached::new(&overdrive, &slow(1), &["--memory", &format!("{}M", arguments.memory_mib)])?;
    let group = Group::new("pages", memory)?;
    let qemu = Qemu::connect(&slow(3), Path::new("/dev/nbd0"), memory)?;
    let bcache = Bcache::new(&slow(4), &ram(0))?;
    let dm_cache = Mapped::cache(&slow(5), &ram(1), &ram(2))?;
    let dm_writecache = Mapped::writecache(&slow(6), &ram(3))?;
    let page_cache = Peer {
        target: Target::new(slow(2), false)?,
        group: Some(&group),
        ..Peer::new("page cache", slow(2), 2)?
    };
    let in_bcache =
        Peer { below: (slow(4), kernel::BCACHE_DATA), ..Peer::new("bcache", bcache.node(), 4)? };
    let peers = [
        Peer::new("no cache", slow(0), 0)?,
        Peer::new("overdrive", attached.node(), 1)?,
        page_cache,
        Peer::new("QEMU cache=writeback", qemu.node().to_owned(), 3)?,
        in_bcache,
        Peer::new("dm-cache", dm_cache.node(), 5)?,
        Peer::new("dm-writecache", dm_writecache.node(), 6)?,
    ];
    compare(arguments, &peers)?;
    // A device that is open cannot be detached.
    drop(peers);
    attached.detach()
}

fn compare(arguments: &Arguments, peers: &[Peer<'_>]) -> Result<()> {
    println!(
        "devices of 0.5 ms with 4 servers; {} MiB of memory for each cache; 4 KiB blocks within \
         {} MiB; medians of {} runs",
        arguments.memory_mib, arguments.span_mib, arguments.rounds
    );
    let blocks = arguments.span_mib << 8;
    let zipf = Zipf::new(blocks, arguments.exponent, &mut Random::new(1));
    let (limit_ns, count) = (arguments.limit_seconds * 1_000_000_000, arguments.requests);
    // Each cache gets the same reads.
    let warm = zipf.draw(arguments.warm, &mut Random::new(2));
    for peer in peers {
        let run = peer.run(|target| target.reads(&warm, DEPTH, 4 * limit_ns))?;
        println!("  {:<22} {:>8} reads before", peer.name, run.requests);
    }
    for depth in [1, DEPTH] {
        let name = format!("zipf {} reads at depth {depth}", arguments.exponent);
        let draws = zipf.draw(count * arguments.rounds, &mut Random::new(3 + depth as u64));
        let runs = in_rounds(arguments, peers, |target, round| {
            target.reads(&draws[round * count..(round + 1) * count], depth, limit_ns)
        })?;
        print(&name, peers, &runs);
    }
    let runs = in_rounds(arguments, peers, |target, round| {
        target.synced_writes(blocks, count as u64, limit_ns, &mut Random::new(round as u64))
    })?;
    print("random writes with a sync after each 32", peers, &runs);
    println!("\nsynced blocks that the slow device lacks, of {}", load::STAMPED);
    for peer in peers {
        peer.run(|target| target.stamp(blocks))?;
        let missing = load::missing(&peer.below.0, peer.below.1, blocks)?;
        println!("  {:<22} {missing:>8}", peer.name);
    }
    Ok(())
}

/// A run of a peer, and the requests of the slow device during it.
struct Round {
    run: Run,
    below: u64,
}

impl Round {
    fn period_ns(&self) -> f64 {
        self.run.time_ns as f64 / self.run.requests.max(1) as f64
    }

    /// Returns the requests of the slow device for a hundred of the client.
    fn percent(&self) -> f64 {
        100.0 * self.below as f64 / self.run.requests.max(1) as f64
    }
}

/// Runs a load on all peers in turns: in order, then backwards, and so on. Returns the rounds of
/// each peer.
fn in_rounds(
    arguments: &Arguments,
    peers: &[Peer<'_>],
    mut load: impl FnMut(&Target, usize) -> Result<Run>,
) -> Result<Vec<Vec<Round>>> {
    let mut rounds: Vec<Vec<Round>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 0..arguments.rounds {
        let mut order: Vec<usize> = (0..peers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (peer, before) = (&peers[index], load::completed(&peers[index].below.0)?);
            let run = peer.run(|target| load(target, round))?;
            let below = load::completed(&peer.below.0)? - before;
            rounds[index].push(Round { run, below });
        }
    }
    Ok(rounds)
}

/// Prints for each peer the requests that reached the slow device, its rate, and the ratio of the
/// rate to no cache in the same round.
fn print(name: &str, peers: &[Peer<'_>], rounds: &[Vec<Round>]) {
    println!("\n{name}: requests to the slow device for each 100; per second; against no cache");
    for (peer, own) in peers.iter().zip(rounds) {
        let periods: Vec<(f64, f64)> = own
            .iter()
            .zip(&rounds[0])
            .map(|(own, bare)| (own.period_ns(), bare.period_ns()))
            .collect();
        let pairs = Pairs::of(&periods, |period| *period);
        let ((low, middle, high), rate) = (pairs.speed(), 1e9 / pairs.a());
        let below = median(own.iter().map(Round::percent).collect());
        println!(
            "  {:<22} {below:>7.1} {rate:>8.0} {middle:>8.2} x ({low:.2} to {high:.2})",
            peer.name
        );
    }
}

#[cfg(test)]
mod tests {
    use super::COMMAND;

    #[test]
    fn the_command_with_its_modules_is_in_the_table_of_figures() {
        let figures = include_str!("../../../../../docs/FIGURES.md");
        assert!(figures.contains(&format!("`{COMMAND}`")), "{COMMAND}");
    }
}
