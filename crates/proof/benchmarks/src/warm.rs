//! A restart with the list of hot blocks, in virtual time and without data: a load fills a cache;
//! its list is saved and read back in a second life, while the load goes on from the first second.
//! Requests arrive at fixed times, so a wait delays those behind it.

use crate::policy::traces;
use crate::program::ProgramOptions;
use crate::sides::{cpu_ns, verdict};
use crate::zipf::Zipf;
use anyhow::{Context, Result};
use block::{Buf, DelaySpec, Extent, Limits, Memory, Null, Request, Size, Stack, WriteMode};
use cache::{Arena, Cache, CleanBlocks, Counters, Geometry, Pressure, Settings, Shared};
use hotlist::{Description, Entry, HotList, encode};
use lane::{Lane, Prices, Random, World};
use layers::{Delay, DelayShared};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory of the zipf load, in MiB; the volume is four times as large.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// A recorded trace, for the same with a tenth of its footprint as memory.
    #[arg(long, default_value = "../shared/traces/arc-OLTP.lis.zst")]
    trace: PathBuf,
    /// Blocks of the list that is saved and loaded.
    #[arg(long, default_value_t = 2_000_000)]
    blocks: u32,
    /// Repeats of saving and loading; the minimum is printed.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Measures takeovers of the memory alone.
    #[arg(long)]
    pub(crate) only_takeover: bool,
    #[command(flatten)]
    pub(crate) live: LiveArguments,
}

/// Arguments of the part with a real daemon.
#[derive(clap::Args)]
pub(crate) struct LiveArguments {
    #[command(flatten)]
    pub(crate) program_options: ProgramOptions,
    /// Cached data of the real daemon whose saves are measured, in MiB.
    #[arg(long, default_value_t = 1024)]
    pub(crate) live_mib: u64,
    /// Its reads per second.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) live_rate: u64,
    /// Milliseconds of each run, with and without saves.
    #[arg(long, default_value_t = 5000)]
    pub(crate) live_run_ms: u64,
    /// Pairs of runs.
    #[arg(long, default_value_t = 9)]
    pub(crate) live_pairs: usize,
    /// Measures the requests beside saves alone.
    #[arg(long)]
    pub(crate) only_live: bool,
}

pub(crate) const MINUTE_NS: u64 = 60_000_000_000;
/// Minimum time of a read, and minimum number of servers: a network volume.
const READ_US: u64 = 500;
const SERVERS: u64 = 4;
/// Time in which the backing's servers read the list's blocks, in seconds.
const LIST_S: u64 = 10;
/// Requests in flight at most.
const CLIENTS: usize = 64;
const GUARD_NS: u64 = 50_000_000;
const POINTS_MAX: f64 = 5.0;
const BESIDE_MAX: f64 = 1.1;
const SAVE_MAX_S: f64 = 0.2;
const LOAD_MAX_S: f64 = 0.5;

/// Makes the loads.
///
/// # Errors
/// The trace cannot be read.
pub(crate) fn loads(arguments: &Arguments) -> Result<Vec<Load>> {
    let mut loads = vec![zipf(arguments.mib)];
    match arguments.trace.exists() {
        true => loads.push(recorded(&arguments.trace)?),
        false => println!("no trace: {} is not there", arguments.trace.display()),
    }
    Ok(loads)
}

/// Runs the parts with a list that is read back.
///
/// # Errors
/// A cache cannot be made.
pub(crate) fn run(arguments: &Arguments, loads: &[Load]) -> Result<()> {
    loads.iter().try_for_each(restart)?;
    save_and_load(arguments)
}

/// A load: what fills the first life, and its two minutes before and after the restart.
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) slots: u32,
    pub(crate) blocks: u64,
    pub(crate) fills: Vec<(Extent, bool)>,
    pub(crate) before: Vec<(Extent, bool)>,
    pub(crate) after: Vec<(Extent, bool)>,
}

fn zipf(mib: u64) -> Load {
    let (slots, blocks) = ((mib << 8) as u32, mib << 10);
    let mut random = Random::new(5);
    let zipf = Zipf::new(blocks, 1.1, &mut random);
    let minute = 60 * blocks as usize / 256;
    let mut draw = |count| -> Vec<_> {
        let drawn = zipf.draw(count, &mut random);
        drawn.into_iter().map(|block| (Extent::new(u64::from(block) * 8, 8), false)).collect()
    };
    let (fills, before, after) = (draw(blocks as usize * 4), draw(minute), draw(minute));
    Load { name: "zipf 1.1".to_owned(), slots, blocks, fills, before, after }
}

/// Returns a trace as a load: its last two twentieths are the two minutes.
fn recorded(path: &std::path::Path) -> Result<Load> {
    let trace = traces::read(path.to_owned())?;
    let extents = trace.requests.iter().map(|request| {
        let blocks = request.blocks();
        (Extent::new(blocks.start * 8, ((blocks.end - blocks.start) * 8) as u32), request.is_write)
    });
    let mut fills: Vec<_> = extents.collect();
    let minute = fills.len() / 20;
    let after = fills.split_off(fills.len() - minute);
    let before = fills.split_off(fills.len() - minute);
    let (slots, blocks) = (trace.slots(10), trace.bytes.div_ceil(4096));
    Ok(Load { name: trace.name, slots, blocks, fills, before, after })
}

/// A cache over a device.
pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) lane: Lane,
    cache: Cache,
    pub(crate) stack: Stack,
    pub(crate) shared: Arc<Shared>,
    memory: Arc<Memory>,
    device: Device,
}

/// A device that serves this number of requests in parallel, each in this time.
struct Device {
    blocks: u64,
    read_us: u64,
    servers: u32,
}

impl Bed {
    /// Makes a cache over a device whose servers read as many blocks as the cache has in
    /// [`LIST_S`].
    pub(crate) fn new(slots: u32, blocks: u64) -> Result<Bed> {
        let (slots_each, list_us) = (u64::from(slots), LIST_S * 1_000_000);
        let servers = (slots_each * READ_US).div_ceil(list_us).max(SERVERS);
        let read_us = (list_us * servers / slots_each).max(READ_US);
        Bed::over(slots, blocks, read_us, servers as u32)
    }

    /// Makes a cache over a device that serves this number of requests in parallel, each in this
    /// time.
    pub(crate) fn over(slots: u32, blocks: u64, read_us: u64, servers: u32) -> Result<Bed> {
        let geometry = Geometry::for_memory(u64::from(slots) << 12);
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
        let device = Device { blocks, read_us, servers };
        Bed::with_memory(geometry, memory, device, CleanBlocks::Drop)
    }

    /// Kills the cache's process, and makes the next one over the same memory.
    pub(crate) fn kill(self) -> Result<Bed> {
        let Bed { world, lane, cache, stack, shared, memory, device } = self;
        let geometry = *shared.geometry();
        drop((stack, cache, shared, lane, world));
        Bed::with_memory(geometry, memory, device, CleanBlocks::Keep)
    }

    fn with_memory(
        geometry: Geometry,
        memory: Arc<Memory>,
        device: Device,
        clean: CleanBlocks,
    ) -> Result<Bed> {
        let Device { blocks, read_us, servers } = device;
        let settings = Settings {
            write: WriteMode::BackNow,
            dirty_blocks_max: geometry.slots / 4,
            absorb_blocks_max: 128,
            stream_blocks_max: (geometry.slots / 16).max(256),
            ..Settings::default()
        };
        let settings = Settings { fill_cost_ns: 400, ..settings };
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let delay = DelaySpec {
            read_us,
            write_us: read_us,
            flush_us: read_us,
            servers,
            bandwidth: Size(0),
        };
        let sectors = blocks.next_multiple_of(1024 * 8) * 8;
        let null = Stack::new(&lane, Null::new(sectors, 0));
        let below = Stack::new(&lane, Delay::attach(DelayShared::new(&delay), &lane, null));
        let limits = Limits::plain(sectors, 0);
        let shared = Shared::take_over(&limits, geometry, settings, 0, memory.clone(), clean)?;
        let cache = Cache::attach(&shared, &lane, below);
        let stack = Stack::new(&lane, cache.clone());
        let bed = Bed { world, lane, cache, stack, shared, memory, device };
        bed.start_guard();
        Ok(bed)
    }

    fn start_guard(&self) {
        let (lane, shared) = (self.lane.clone(), Arc::downgrade(&self.shared));
        let guard = async move {
            while let Some(shared) = shared.upgrade() {
                shared.guard(lane.now(), Pressure::default());
                drop(shared);
                lane.sleep_until(lane.now() + GUARD_NS).await;
            }
        };
        self.lane.spawn(guard).expect("a lane has room");
    }

    /// Sends requests, each at its time in `span_ns` (0: as fast as they are answered). Returns
    /// each one's time since the start, its wait from then to its answer, and whether it missed.
    pub(crate) fn send(&mut self, requests: &[(Extent, bool)], span_ns: u64) -> Vec<Sent> {
        let requests: Rc<Vec<_>> = Rc::new(requests.to_vec());
        let (next, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(CLIENTS)));
        let sent = Rc::new(RefCell::new(Vec::with_capacity(requests.len())));
        let start = self.lane.now();
        for _ in 0..CLIENTS {
            let (requests, next, left) = (requests.clone(), next.clone(), left.clone());
            let (stack, lane, sent) = (self.stack.clone(), self.lane.clone(), sent.clone());
            let client = async move {
                while let Some(&(at, is_write)) = requests.get(next.get()) {
                    let number = next.replace(next.get() + 1) as u64;
                    let due_ns = number * (span_ns / requests.len() as u64);
                    if span_ns > 0 {
                        lane.sleep_until(start + due_ns).await;
                    }
                    let request = request_of(at, is_write);
                    let is_missed = stack.try_now(&request).is_none();
                    if is_missed {
                        lane.turn().await;
                        stack.run(request).await.expect("a null device does not fail");
                    } else if span_ns == 0 {
                        lane.rest().await;
                    }
                    let wait_ns = lane.now().saturating_sub(start + due_ns);
                    sent.borrow_mut().push(Sent { due_ns, wait_ns, is_missed });
                }
                left.set(left.get() - 1);
            };
            self.lane.spawn(client).expect("a lane has room");
        }
        self.world.run_until(|| left.get() == 0);
        sent.take()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }

    /// Returns the processor time of each step of a ranking: a request waits for one of them at
    /// most.
    fn time_steps(&mut self) -> Vec<u64> {
        let (cache, is_done) = (self.cache.clone(), Rc::new(Cell::new(false)));
        let done = is_done.clone();
        let work = async move {
            drop(cache.hot_blocks().await);
            done.set(true);
        };
        self.lane.spawn(work).expect("a lane has room");
        let mut steps = Vec::new();
        while !is_done.get() {
            let begun = cpu_ns();
            self.world.step();
            steps.push(cpu_ns() - begun);
        }
        steps
    }

    /// Orders the blocks that were taken over.
    pub(crate) fn order(&mut self, list: HotList) {
        let (cache, is_done) = (self.cache.clone(), Rc::new(Cell::new(false)));
        let done = is_done.clone();
        let work = async move {
            cache.order_retained(&list).await;
            done.set(true);
        };
        self.lane.spawn(work).expect("a lane has room");
        self.world.run_until(|| is_done.get());
    }

    /// Returns the list of hot blocks.
    pub(crate) fn rank(&mut self) -> Vec<Entry> {
        let (cache, place) = (self.cache.clone(), Rc::new(RefCell::new(None)));
        let ranked = place.clone();
        let work = async move { *place.borrow_mut() = Some(cache.hot_blocks().await) };
        self.lane.spawn(work).expect("a lane has room");
        self.world.run_until(|| ranked.borrow().is_some());
        ranked.take().expect("it has ended")
    }
}

fn request_of(at: Extent, is_write: bool) -> Request {
    let buffer = Buf::new(at.count, 0);
    match is_write {
        true => Request::Write { at, from: buffer, fua: false },
        false => Request::Read { at, into: buffer },
    }
}

/// A request that was answered.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    due_ns: u64,
    wait_ns: u64,
    is_missed: bool,
}

/// Returns the share of hits among the reads between two states of the counters, in percent.
pub(crate) fn hits(from: &Counters, to: &Counters) -> f64 {
    let reads = |all: &Counters| all.read_hits + all.read_misses + all.read_joins;
    let found = to.read_hits - from.read_hits;
    100.0 * found as f64 / (reads(to) - reads(from)).max(1) as f64
}

/// Returns this quantile of the waits.
fn quantile(mut waits: Vec<u64>, share: f64) -> u64 {
    waits.sort_unstable();
    let at = ((waits.len() as f64 * share) as usize).min(waits.len().saturating_sub(1));
    waits.get(at).copied().unwrap_or_default()
}

pub(crate) fn description(load_blocks: u64) -> Description {
    Description { identity: "bench".to_owned(), volume_blocks: load_blocks, saved_s: 0 }
}

/// The second life of a load, with or without its list.
struct Life {
    hits: f64,
    counters: Counters,
    sent: Vec<Sent>,
}

fn second_life(load: &Load, list: Option<&[u8]>) -> Result<Life> {
    let mut bed = Bed::new(load.slots, load.blocks)?;
    if let Some(bytes) = list {
        bed.shared.warm(HotList::parse(bytes).context("the list")?, bed.lane.now());
    }
    let sent = bed.send(&load.after, MINUTE_NS);
    let counters = bed.counters();
    Ok(Life { hits: hits(&Counters::default(), &counters), counters, sent })
}

/// Compares the first minute after a restart with the one before it.
fn restart(load: &Load) -> Result<()> {
    let mut bed = Bed::new(load.slots, load.blocks)?;
    bed.send(&load.fills, 0);
    let from = bed.counters();
    bed.send(&load.before, MINUTE_NS);
    let before = hits(&from, &bed.counters());
    let blocks = load.blocks.next_multiple_of(1024 * 8);
    let bytes = encode(&description(blocks), bed.rank());
    drop(bed);
    let (warm, cold) = (second_life(load, Some(&bytes))?, second_life(load, None)?);
    let Counters { warm_listed, warm_cached, warm_used, warm_wasted, warm_ns, .. } = warm.counters;
    println!(
        "{}: {} blocks of memory, {} requests a second; a list of {warm_listed} blocks in {} bytes",
        load.name,
        load.slots,
        load.after.len() / 60,
        bytes.len()
    );
    println!(
        "  hits of reads: {before:.1} % in the minute before the restart, {:.1} % in the first one \
         after it  target within {POINTS_MAX} points: {}; {:.1} % without the list",
        warm.hits,
        verdict(before - warm.hits <= POINTS_MAX),
        cold.hits
    );
    println!(
        "  the list was read in {:.1} s: {warm_cached} blocks, {warm_used} of them used, \
         {warm_wasted} evicted or changed unused",
        warm_ns as f64 / 1e9
    );
    let waits = |life: &Life, only_missed: bool| -> u64 {
        let is_it = |one: &&Sent| one.due_ns < warm_ns && (one.is_missed || !only_missed);
        quantile(life.sent.iter().filter(is_it).map(|one| one.wait_ns).collect(), 0.99)
    };
    let ratio = |only_missed: bool| -> f64 {
        waits(&warm, only_missed) as f64 / waits(&cold, only_missed).max(1) as f64
    };
    println!(
        "  p99 of requests while it was read: {} us, without the list {} us: {:.2}x  target \
         {BESIDE_MAX}: {}; of misses alone: {:.2}x",
        waits(&warm, false) / 1000,
        waits(&cold, false) / 1000,
        ratio(false),
        verdict(ratio(false) <= BESIDE_MAX),
        ratio(true)
    );
    Ok(())
}

/// Measures the processor time of a save and of a load.
fn save_and_load(arguments: &Arguments) -> Result<()> {
    let blocks = u64::from(arguments.blocks) * 4;
    let mut bed = Bed::new(arguments.blocks, blocks)?;
    let mut random = Random::new(9);
    // All blocks of the memory, in random order, so that neighbours in the policy's list are not
    // neighbours in memory.
    let entry = |number: u32| Entry::new(u64::from(number) * 4 + random.below(4), 0);
    let list = encode(&description(blocks), (0..arguments.blocks).map(entry).collect());
    bed.shared.warm(HotList::parse(&list).context("the list")?, bed.lane.now());
    bed.send(&[(Extent::new(0, 8), false)], 20 * MINUTE_NS);
    let named: Vec<u64> = HotList::parse(&list).context("the list")?.into_blocks().collect();
    let draw = |_| (Extent::new(named[random.below(named.len() as u64) as usize] * 8, 8), false);
    let reads: Vec<_> = (0..2 * arguments.blocks).map(draw).collect();
    bed.send(&reads, 0);
    let (mut save_s, mut load_s, mut bytes, mut ranked) = (f64::MAX, f64::MAX, Vec::new(), 0);
    let mut parts = (0.0, 0.0);
    for _ in 0..arguments.runs {
        let begun = cpu_ns();
        let entries = bed.rank();
        let walked = cpu_ns();
        ranked = entries.len();
        bytes = encode(&description(blocks), entries);
        let encoded = cpu_ns();
        let seconds = |ns: u64| ns as f64 / 1e9;
        if seconds(encoded - begun) < save_s {
            save_s = seconds(encoded - begun);
            parts = (seconds(walked - begun), seconds(encoded - walked));
        }
        let begun = cpu_ns();
        let parsed = HotList::parse(&bytes).context("the list")?;
        let sum = parsed.into_blocks().fold(0u64, u64::wrapping_add);
        load_s = load_s.min(seconds(cpu_ns() - begun));
        anyhow::ensure!(sum > 0, "the list has blocks");
    }
    println!(
        "saving {ranked} blocks takes {save_s:.3} s of a processor ({:.3} s to rank them, {:.3} s to \
         sort and code them)  target {SAVE_MAX_S}: {}; {} bytes, {:.2} a block  target 3: {}",
        parts.0,
        parts.1,
        verdict(save_s <= SAVE_MAX_S),
        bytes.len(),
        bytes.len() as f64 / ranked as f64,
        verdict(bytes.len() <= 3 * ranked)
    );
    let steps = bed.time_steps();
    println!(
        "a request waits for one step of the ranking at most: p50 {} ns, p99.9 {} ns of a processor",
        quantile(steps.clone(), 0.5),
        quantile(steps, 0.999)
    );
    println!(
        "loading them takes {load_s:.3} s  target {LOAD_MAX_S}: {}",
        verdict(load_s <= LOAD_MAX_S)
    );
    time_order(bed, &bytes)
}

/// Measures the processor time in which a list orders the blocks of a takeover.
fn time_order(bed: Bed, bytes: &[u8]) -> Result<()> {
    let (mut bed, list) = (bed.kill()?, HotList::parse(bytes).context("the list")?);
    let begun = cpu_ns();
    bed.order(list);
    println!(
        "ordering {} blocks after a takeover takes {:.3} s of a processor",
        bed.counters().blocks_retained,
        (cpu_ns() - begun) as f64 / 1e9
    );
    Ok(())
}
