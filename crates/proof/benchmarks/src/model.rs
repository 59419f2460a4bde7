//! Modelled drives: the cost of simulating a request in virtual time, and the lateness of a drive
//! that is served in real time.

use crate::fio::{self, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::ProgramOptions;
use crate::sides::{cpu_ns, median, verdict};
use anyhow::{Context, Result};
use block::{Buf, Durability, Extent, Limits, Memory, Request, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings};
use drive_backend::{Keep, Modelled, Shared, State};
use drives::{Drive, Model, Op, Options};
use lane::{Lane, Prices, Random, World};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The drive.
    #[arg(long, default_value = "samsung-840-evo-250")]
    drive: String,
    /// The visible size of the drive, in GiB.
    #[arg(long, default_value_t = 16)]
    gib: u64,
    /// Requests in each run in virtual time.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Runs; the median is printed.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Milliseconds of each run in real time.
    #[arg(long, default_value_t = 3000)]
    run_ms: u32,
}

/// Queue depth in virtual time.
const DEPTH: u64 = 32;
/// The cache in front, in virtual time.
const CACHE_BYTES: u64 = 64 << 20;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // As the suites do.
    host::want_huge_allocations();
    let name = &arguments.drive;
    let model = Model::preset(name).with_context(|| format!("{name}: there is no such model"))?;
    let options = Options { user_bytes: Some(arguments.gib << 30), ..Options::default() };
    println!("{}, {} GiB of it, filled once", model.title, arguments.gib);
    in_virtual_time(&model, &options, arguments)?;
    in_real_time(&model, &options, arguments)
}

/// Random requests of 4 KiB, half of them reads, as slots.
struct Load {
    random: Random,
    slots: u64,
}

impl Load {
    fn new(options: &Options, seed: u64) -> Load {
        Load::with_bytes(options.user_bytes.unwrap_or(0), seed)
    }

    /// Returns a load within the first `bytes` bytes.
    fn with_bytes(bytes: u64, seed: u64) -> Load {
        Load { random: Random::new(seed), slots: bytes / 4096 }
    }

    fn next(&mut self) -> (u64, bool) {
        let drawn = self.random.below(2 * self.slots);
        (drawn / 2, drawn.is_multiple_of(2))
    }
}

fn in_virtual_time(model: &Model, options: &Options, arguments: &Arguments) -> Result<()> {
    println!("in virtual time, without data: 4 KiB at random, half reads, {DEPTH} at a time");
    print_result("the model alone", 1.5, arguments, |seed| {
        let mut drive = filled(model, options)?;
        Ok(alone(&mut drive, Load::new(options, seed), arguments.requests))
    })?;
    print_result("as a block device on a lane", 1.5, arguments, |seed| {
        Ok(on_a_lane(&shared(model, options)?, None, Load::new(options, seed), arguments.requests))
    })?;
    print_result("with the cache in front, all in memory", 1.0, arguments, |seed| {
        let shared = shared(model, options)?;
        let load = Load::with_bytes(CACHE_BYTES / 4, seed);
        Ok(on_a_lane(&shared, Some(CACHE_BYTES), load, arguments.requests))
    })?;
    print_result("with the cache in front, mostly misses", 1.0, arguments, |seed| {
        let shared = shared(model, options)?;
        let load = Load::new(options, seed);
        Ok(on_a_lane(&shared, Some(CACHE_BYTES), load, arguments.requests))
    })
}

fn shared(model: &Model, options: &Options) -> Result<Arc<Shared>> {
    let shared = Shared::new(model, options, Keep::Nothing).context("the drive")?;
    shared.age(State::Filled).context("the drive")?;
    Ok(shared)
}

/// Returns the same drive without a lane.
fn filled(model: &Model, options: &Options) -> Result<Drive> {
    Ok(match model.drive(options).context("the drive")? {
        Drive::Flash(drive) => {
            let slots = u64::from(drive.ftl().shape().logical_slots);
            Drive::Flash(Box::new(drive.fast_forward(|fast| fast.write_sequential(0, slots))))
        }
        disk => disk,
    })
}

/// Prints millions of requests per second of processor time.
fn print_result(
    what: &str,
    target: f64,
    arguments: &Arguments,
    mut run: impl FnMut(u64) -> Result<f64>,
) -> Result<()> {
    let runs: Result<Vec<f64>> = (0..arguments.runs.max(1) as u64).map(&mut run).collect();
    let rate = 1e3 / median(runs?);
    let verdict = verdict(rate >= target);
    println!("  {what:<40} {rate:>5.2} million a second  target {target}: {verdict}");
    Ok(())
}

/// Returns nanoseconds of processor time per request, for the plain model.
fn alone(drive: &mut Drive, mut load: Load, requests: u64) -> f64 {
    let mut ends: BinaryHeap<Reverse<u64>> = (0..DEPTH).map(Reverse).collect();
    let start = cpu_ns();
    for _ in 0..requests {
        let Some(Reverse(now)) = ends.pop() else { break };
        let (slot, reads) = load.next();
        let (first, count) = (slot * 8, 8);
        let op = if reads { Op::Read { first, count } } else { Op::Write { first, count } };
        ends.push(Reverse(drive.submit(now, op)));
    }
    (cpu_ns() - start) as f64 / requests as f64
}

/// Returns the same through a lane, with this much cache in front.
fn on_a_lane(shared: &Arc<Shared>, cache: Option<u64>, load: Load, requests: u64) -> f64 {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let mut stack = Stack::new(&lane, Modelled::attach(shared, &lane));
    if let Some(bytes) = cache {
        stack = in_front(&lane, shared.limits(), stack, bytes);
    }
    let left = Rc::new(Cell::new(requests));
    let running = Rc::new(Cell::new(DEPTH));
    let load = Rc::new(std::cell::RefCell::new(load));
    for _ in 0..DEPTH {
        let (stack, left, running) = (stack.clone(), left.clone(), running.clone());
        let (load, buf) = (load.clone(), Buf::new(8, 0));
        lane.spawn(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let (slot, reads) = load.borrow_mut().next();
                let at = Extent::new(slot * 8, 8);
                let request = match reads {
                    true => Request::Read { at, into: buf.clone() },
                    false => Request::Write { at, from: buf.clone(), fua: false },
                };
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("a drive with power");
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

fn in_front(lane: &Lane, limits: &Limits, below: Stack, bytes: u64) -> Stack {
    let geometry = Geometry::for_memory(bytes);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
    let settings = Settings {
        durability: Durability::Flush,
        write: WriteMode::BackNow,
        dirty_blocks_max: geometry.slots / 4,
        dirty_age_ns: 5_000_000_000,
        flush_target_ns: 0,
        retry_time_ns: 0,
        workers: 16,
        absorb_blocks_max: 32,
        ..Settings::default()
    };
    let shared = cache::Shared::new(limits, geometry, settings, 0, memory).expect("fresh memory");
    Stack::new(lane, Cache::attach(&shared, lane, below))
}

/// Returns the mean time of a request to the model alone, one at a time, as fio does.
fn modelled_us(model: &Model, options: &Options, reads: bool) -> Result<f64> {
    const REQUESTS: u64 = 100_000;
    let mut drive = filled(model, options)?;
    let mut load = Load::new(options, 7);
    let mut now = 0;
    for _ in 0..REQUESTS {
        let (slot, _) = load.next();
        let (first, count) = (slot * 8, 8);
        let op = if reads { Op::Read { first, count } } else { Op::Write { first, count } };
        now = drive.submit(now, op);
    }
    Ok(now as f64 / REQUESTS as f64 / 1e3)
}

fn in_real_time(model: &Model, options: &Options, arguments: &Arguments) -> Result<()> {
    println!("served, 4 KiB at random, one at a time, by fio; without a cache");
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let backing = format!("model:{}?size={}G&state=filled", arguments.drive, arguments.gib);
    for polls in [false, true] {
        for what in ["write", "read"] {
            let mut more = vec!["--memory", "0"];
            more.extend(polls.then_some("--poll"));
            let server = overdrive.serve(&processors.of_servers(), "model", &backing, &more)?;
            let load = fio::Load::new(&format!("rand{what}"), 1);
            let run = fio_load(&server, &processors.of_client(), &load, arguments.run_ms.max(100))?;
            let late = overdrive.stats()?["model"]["lateness"].clone();
            let late = |key: &str| late[key].as_f64().unwrap_or(0.0) / 1e3;
            println!(
                "  {what}s{}: {:.1} us between two answers, where the model alone says {:.1}; \
                 lateness p50 {:.1} us, p99 {:.1}, p99.9 {:.1}",
                if polls { ", --poll" } else { "" },
                run.period_ns / 1e3,
                modelled_us(model, options, what == "read")?,
                late("p50_ns"),
                late("p99_ns"),
                late("p99_9_ns"),
            );
            server.stop()?;
        }
    }
    Ok(())
}
