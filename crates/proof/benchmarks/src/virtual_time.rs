//! The engine over a null device in virtual time, without data: the cost of its own work.

use crate::sides::{cpu_ns, median};
use anyhow::Result;
use block::{Buf, Extent, Limits, Memory, Null, Request, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Requests in each run.
    #[arg(long, default_value_t = 400_000)]
    requests: u64,
    /// Runs; the median is printed.
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Sizes of the cache, in MiB, in front of a volume four times as large. The metadata of the
    /// first default fits into a processor's own cache, that of the second does not.
    #[arg(long, value_delimiter = ',', default_value = "64,1024")]
    mib: Vec<u64>,
}

/// Returns a volume with a quarter of it cached, without bytes (grain 0).
fn start_cache(world: &mut World, mib: u64, waits: bool) -> Result<(Lane, Stack, u64)> {
    let geometry = Geometry::for_memory(mib << 20);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
    let sectors = mib << 13;
    let settings = Settings {
        durability: block::Durability::Flush,
        write: WriteMode::Through,
        dirty_blocks_max: geometry.slots / 4,
        dirty_age_ns: 5_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 0,
        workers: 4,
        absorb_blocks_max: 32,
        // Every miss is admitted: the figure is for a miss with its eviction and its fill.
        ..Settings::default()
    };
    let shared = Shared::new(&Limits::plain(sectors, 0), geometry, settings, 0, memory)?;
    let lane = world.lane();
    let null = Null::new(sectors, 0);
    let below = match waits {
        true => Stack::new(&lane, Slow { null, lane: lane.clone() }),
        false => Stack::new(&lane, null),
    };
    let cache = Cache::attach(&shared, &lane, below);
    Ok((lane.clone(), Stack::new(&lane, cache), sectors / 8))
}

/// A null device that takes one virtual nanosecond: a miss then waits and is woken, as on a real
/// device.
pub(crate) struct Slow {
    pub(crate) null: Null,
    pub(crate) lane: Lane,
}

impl block::Block for Slow {
    fn limits(&self) -> &Limits {
        self.null.limits()
    }

    async fn run(&self, request: Request) -> block::Result {
        self.lane.sleep_until(self.lane.now() + 1).await;
        self.null.run(request).await
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for &mib in &arguments.mib {
        run_with(arguments, mib, false)?;
        run_with(arguments, mib, true)?;
    }
    Ok(())
}

/// Returns a block's number in an order that visits each once and is no stream: every step can be
/// undone.
pub(crate) fn shuffled(number: u64, blocks: u64) -> u64 {
    let bits = blocks.next_power_of_two().trailing_zeros().max(2);
    let mask = (1u64 << bits) - 1;
    let mut place = number % blocks;
    loop {
        for odd in [0x9e37_79b9_7f4a_7c15, 0xc4ce_b9fe_1a85_ec53] {
            place = place.wrapping_mul(odd) & mask;
            place ^= place >> (bits / 2);
        }
        if place < blocks {
            return place;
        }
    }
}

fn run_with(arguments: &Arguments, mib: u64, waits: bool) -> Result<()> {
    let answers = if waits { "that makes each miss wait" } else { "that answers at once" };
    println!("{mib} MiB of cache in front of a null device of {} MiB {answers}", 4 * mib);
    let mut world = World::timed(Prices::default());
    let (lane, stack, blocks) = start_cache(&mut world, mib, waits)?;
    let mut misses = Vec::new();
    let mut hits = Vec::new();
    let next = Rc::new(Cell::new(0));
    for run in 0..arguments.runs as u64 {
        misses.push(reads(&mut world, &lane, &stack, arguments.requests, || {
            // The order continues: a block is repeated only after all others.
            let next = next.clone();
            move || {
                next.set(next.get() + 1);
                shuffled(next.get(), blocks)
            }
        }));
        let hot = next.get();
        hits.push(reads(&mut world, &lane, &stack, arguments.requests, move || {
            let mut random = Random::new(run);
            // Among the last blocks that were fetched.
            move || shuffled(hot - random.below(1000), blocks)
        }));
    }
    for (what, times, target) in [("a miss", misses, 300.0), ("a hit", hits, 50.0)] {
        let low = times.iter().copied().fold(f64::MAX, f64::min);
        let high = times.iter().copied().fold(f64::MIN, f64::max);
        let middle = median(times);
        let verdict = if middle <= target { "reached" } else { "MISSED" };
        println!(
            "{what:<7} {middle:>6.1} ns of processor time ({low:.1} to {high:.1})  \
             target {target}: {verdict}"
        );
    }
    Ok(())
}

/// Runs 32 readers at a time; returns nanoseconds of processor time per request.
fn reads<P, N>(world: &mut World, lane: &Lane, stack: &Stack, requests: u64, picker: P) -> f64
where
    P: Fn() -> N,
    N: FnMut() -> u64 + 'static,
{
    let left = Rc::new(Cell::new(requests));
    let running = Rc::new(Cell::new(32));
    for _ in 0..32 {
        let (stack, left, running, mut next) =
            (stack.clone(), left.clone(), running.clone(), picker());
        let into = Buf::new(8, 0);
        lane.spawn(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let at = Extent::new(next() * 8, 8);
                let request = Request::Read { at, into: into.clone() };
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("a null device does not fail");
                }
            }
            running.set(running.get() - 1);
        })
        .expect("a slot is free");
    }
    let start = cpu_ns();
    world.run_until(|| running.get() == 0);
    (cpu_ns() - start) as f64 / requests as f64
}
