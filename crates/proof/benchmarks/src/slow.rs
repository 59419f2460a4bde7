//! A slow backing: 0.5 ms per request and four requests at a time, a zipf load, and memory for a
//! quarter of the data.
//!
//! Three comparisons: with the same server without a cache; with the computed rate of the best
//! fixed choice of blocks (the hottest quarter), at the costs of hits and misses measured in the
//! same run; and of the hit ratio with that of a plain LRU list of the same size.

use crate::client::BLOCK;
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::ProgramOptions;
use crate::rider::{DRAWS, Rider, Split};
use crate::sides::{Pairs, Side, in_turns, median, verdict};
use crate::zipf::Zipf;
use anyhow::Result;
use lane::Random;
use policy::{Kind, Simulation};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The volume's size, in MiB; memory is a quarter of it.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// The load's exponent.
    #[arg(long, default_value_t = 1.1)]
    exponent: f64,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u64,
    /// Maximum seconds of warming up, even if the hit ratio still changes.
    #[arg(long, default_value_t = 90)]
    warm_s: u64,
}

/// Queue depths, and the required speed relative to the uncached server.
const DEPTHS: [(usize, f64); 2] = [(1, 8.0), (32, 5.0)];
/// Minimum share of the best fixed choice's rate.
const STATIC_MIN: f64 = 0.9;
const DELAY: &str = "read=500us,write=500us,flush=500us,servers=4";
/// Maximum rate of the backing.
const BACKING_RATE: f64 = 4.0 / 500e-6;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let zipf =
        Zipf::new((arguments.mib << 20) / BLOCK as u64, arguments.exponent, &mut Random::new(1));
    let room = zipf.blocks() / 4;
    let ideal = zipf.share(room);
    println!(
        "ram:{}M behind {DELAY}; memory {}M; zipf {}, ranks scrambled; the best static quarter \
         hits {:.2} %, an LRU of a quarter {:.2} %",
        arguments.mib,
        arguments.mib / 4,
        arguments.exponent,
        100.0 * ideal,
        100.0 * lru_ratio(&zipf, room),
    );
    processors.take_clients()?;
    for polls in [false, true] {
        println!("{}", if polls { "with --poll" } else { "without --poll" });
        both(&overdrive, &processors, &zipf, polls, arguments)?;
    }
    Ok(())
}

/// Returns the hit ratio of a warm plain LRU list under this load.
fn lru_ratio(zipf: &Zipf, room: usize) -> f64 {
    let mut random = Random::new(99);
    let mut lru = Simulation::new(Kind::Lru, room.max(1) as u32);
    for block in zipf.draw(DRAWS, &mut random) {
        lru.read(block.into());
    }
    let draws = zipf.draw(DRAWS / 4, &mut random);
    let count = draws.len() as f64;
    draws.into_iter().filter(|&block| lru.read(block.into())).count() as f64 / count
}

fn both(
    overdrive: &Overdrive,
    processors: &Processors,
    zipf: &Zipf,
    polls: bool,
    arguments: &Arguments,
) -> Result<()> {
    let backing = format!("ram:{}M", arguments.mib);
    let memory = format!("{}M", arguments.mib / 4);
    let serve = |socket: &str, memory: &str| {
        let mut options = vec!["--no-holder", "--delay", DELAY, "--memory", memory];
        options.extend(polls.then_some("--poll"));
        overdrive.serve(&processors.of_servers(), socket, &backing, &options)
    };
    let cached = serve("cached", &memory)?;
    let mut to_cached = Rider::new(&cached, zipf, 2)?;
    to_cached.warm(arguments.warm_s)?;
    let before = overdrive.counted()?;
    let uncached = serve("uncached", "0")?;
    let mut to_uncached = Rider::new(&uncached, zipf, 3)?;
    for (depth, target) in DEPTHS {
        let found = in_turns(arguments.pairs, |side| match side {
            Side::A => to_cached.reads(depth, arguments.run_ms),
            Side::B => to_uncached.reads(depth, arguments.run_ms),
        })?;
        print_result(&found, depth, target, zipf);
    }
    drop(to_uncached);
    uncached.stop()?;
    let after = overdrive.counted()?;
    let of = |name: &str| after.since(&before, name);
    let (hits, misses, joins) = (of("read_hits"), of("read_misses"), of("read_joins"));
    println!(
        "  the server counted {hits} hits, {misses} misses, {joins} that waited for another's: \
         {:.2} % hits; {} misses were not kept for want of worth",
        100.0 * hits as f64 / (hits + misses + joins).max(1) as f64,
        of("bypass_not_admitted")
    );
    Ok(())
}

fn print_result(found: &[(Split, Split)], depth: usize, target: f64, zipf: &Zipf) {
    let periods = Pairs::of(found, |split| split.run.period_ns());
    let (_, middle, _) = periods.speed();
    println!(
        "  depth {depth}: {:.0} against {:.0} a second uncached  ratio {}  target at least \
         {target}: {}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        periods.speed_words(),
        verdict(middle >= target)
    );
    let ideal = zipf.share(zipf.blocks() / 4);
    let of = |value: &dyn Fn(&Split) -> f64| -> f64 {
        median(found.iter().map(|(cached, _)| value(cached)).collect())
    };
    let share = of(&|split| split.mean_ns(ideal) / split.mean_ns(split.hit_ratio()));
    println!(
        "    hits {:.2} % at {:.1} us, misses at {:.0} us; the best static quarter at these costs: \
         {:.2} % hits, {:.0} a second; of that {share:.3}  target at least {STATIC_MIN}: {}",
        100.0 * of(&|split| split.hit_ratio()),
        of(&|split| split.hit_ns) / 1e3,
        of(&|split| split.miss_ns) / 1e3,
        100.0 * ideal,
        depth as f64 * of(&|split| 1e9 / split.mean_ns(ideal)),
        verdict(share >= STATIC_MIN)
    );
    if depth > 4 {
        let bound = BACKING_RATE / (1.0 - ideal);
        let rate = of(&|split| split.run.rate());
        println!(
            "    (were the backing busy all the time, that quarter would give {bound:.0} a second; \
             of that {:.3})",
            rate / bound
        );
    }
}
