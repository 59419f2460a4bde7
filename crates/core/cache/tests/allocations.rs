//! In the steady state the engine allocates no memory from the system: on hits, misses with
//! evictions, streams, absorbed writes, write-throughs, zeroes, and writeback with its flushes and
//! releases; also where flushes only close epochs, and with hints about files.

use allocations::of_this_thread;
use block::{
    Block, Buf, Compress, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack,
    WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use policy::{CLASSES, ClassExtent, ClassMap, Hints, Treatments};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
/// Blocks of the volume: four times the number in the cache.
const BLOCKS: u64 = 4096;
const CLIENTS: u64 = 12;

/// Slow RAM, so that requests wait for each other.
struct Slow {
    ram: Ram,
    lane: Lane,
    limits: Limits,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        self.lane.sleep_until(self.lane.now() + 10_000).await;
        self.ram.run(request).await
    }
}

/// The requests of the clients.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Hits,
    Misses,
    Streams,
    Absorbs,
    Parts,
    WriteBack,
    Passes,
    Zeroes,
    Mixed,
}

const PHASES: [Phase; 9] = [
    Phase::Hits,
    Phase::Misses,
    Phase::Streams,
    Phase::Absorbs,
    Phase::Parts,
    Phase::WriteBack,
    Phase::Passes,
    Phase::Zeroes,
    Phase::Mixed,
];

impl Phase {
    /// Returns the request with this number.
    fn request(self, number: u64, random: &mut Random, buf: &Buf) -> Request {
        let block = |random: &mut Random, among: u64| random.below(among) * 8;
        let run = |random: &mut Random| 8 * (1 + random.below(4) as u32);
        let read = |first, count| Request::Read {
            at: Extent::new(first, count),
            into: buf.part(0, count),
        };
        let write = |first, count, fua| Request::Write {
            at: Extent::new(first, count),
            from: buf.part(0, count),
            fua,
        };
        match self {
            Phase::Hits => read(block(random, 64), 8),
            Phase::Misses => read(block(random, BLOCKS - 4), run(random)),
            Phase::Streams => read(number * 8 % (BLOCKS * 8), 8),
            Phase::Absorbs => write(block(random, BLOCKS - 4), run(random), false),
            Phase::Parts => {
                let first = random.below(BLOCKS * 8 - 16);
                let count = 1 + random.below(15) as u32;
                if random.one_in(3) { read(first, count) } else { write(first, count, false) }
            }
            Phase::WriteBack if random.one_in(8) => Request::Flush,
            Phase::WriteBack => write(block(random, 256), 8, false),
            Phase::Passes => write(block(random, BLOCKS - 4), 8, true),
            Phase::Zeroes => {
                let at = Extent::new(block(random, BLOCKS - 64), 8 * 64);
                match random.below(3) {
                    0 => Request::Discard { at },
                    1 => Request::Flush,
                    _ => Request::Zero { at, fua: false, may_unmap: true },
                }
            }
            Phase::Mixed => {
                let phase = PHASES[random.below(8) as usize];
                phase.request(number, random, buf)
            }
        }
    }
}

/// One client: `try_now` first, as exports do.
async fn client(stack: Stack, mut random: Random, phase: Rc<Cell<Phase>>, done: Rc<Cell<u64>>) {
    let buf = Buf::new(32, GRAIN);
    loop {
        let request = phase.get().request(done.get(), &mut random, &buf);
        if stack.try_now(&request).is_none() {
            stack.run(request).await.expect("RAM does not fail");
        } else {
            stack.lane().rest().await;
        }
        done.set(done.get() + 1);
    }
}

fn settings(durability: Durability) -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability,
        dirty_blocks_max: 256,
        dirty_age_ns: 5_000_000,
        retry_time_ns: 1_000_000,
        stall_time_ns: 4_000_000,
        workers: 4,
        readers: 1,
        absorb_blocks_max: 32,
        fill_cost_ns: 400,
        ..Settings::default()
    }
}

fn cache(lane: &Lane, settings: Settings) -> Cache {
    let geometry = Geometry {
        slots: 1024,
        shards: 2,
        region_blocks: 64,
        extents: 64,
        fills: 64,
        run_blocks: 16,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    };
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(&limits, geometry, settings, 7, memory).expect("a fresh arena");
    let below = Stack::new(lane, Slow { ram, lane: lane.clone(), limits });
    Cache::attach(&shared, lane, below)
}

#[test]
fn requests_in_stride_allocate_nothing() {
    // One after the other: the allocator counts for both.
    stride(&settings(Durability::Flush), &PHASES, None);
    stride(&settings(Durability::Ordered), &PHASES, None);
    let compressing = Settings { compress: Compress::Lz4, ..settings(Durability::Flush) };
    stride(&compressing, &[Phase::Misses, Phase::Mixed], None);
    let phases = [Phase::Hits, Phase::Misses, Phase::Mixed];
    stride(&settings(Durability::Flush), &phases, Some(hints()));
}

/// A map with a class for each 64 blocks in turn.
fn hints() -> Arc<Hints> {
    let extent = |at: u64| ClassExtent {
        first: at * 64,
        blocks: 64,
        class: (at % CLASSES.len() as u64) as u8,
    };
    let map = ClassMap::new((0..BLOCKS / 64).map(extent), BLOCKS).expect("sorted");
    Arc::new(Hints { map, treatments: Treatments::default() })
}

fn stride(settings: &Settings, phases: &[Phase], hints: Option<Arc<Hints>>) {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let cache = cache(&lane, *settings);
    let stack = Stack::new(&lane, cache.clone());
    let hinted = cache.clone();
    let task = async move { hinted.set_hints(hints).await };
    lane.spawn(task).expect("a slot is free");
    let phase = Rc::new(Cell::new(Phase::Mixed));
    let done = Rc::new(Cell::new(0));
    let random = RefCell::new(Random::new(7));
    for _ in 0..CLIENTS {
        let random = random.borrow_mut().fork();
        let task = client(stack.clone(), random, phase.clone(), done.clone());
        lane.spawn(task).expect("a slot is free");
    }
    let mut run = |next: Phase, requests: u64| {
        phase.set(next);
        let end = done.get() + requests;
        world.run_until(|| done.get() >= end);
    };
    // Pools and lists reach their sizes: also with all workers busy, which the window allows only
    // after a while, and with all writers waiting in the same queue.
    // Compression runs have fewer phases.
    let rounds = if settings.compress == Compress::Off { 24 } else { 16 };
    for next in phases.repeat(rounds) {
        run(next, 10_000);
    }
    for next in phases.iter().copied() {
        // The first requests still belong to the last phase.
        run(next, 1_000);
        let before = (of_this_thread(), cache.shared().counters(lane.now()));
        run(next, 10_000);
        let after = (of_this_thread(), cache.shared().counters(lane.now()));
        assert_eq!(after.0 - before.0, 0, "allocations in 10000 requests of {next:?}");
        let more = |count: fn(&cache::Counters) -> u64| count(&after.1) - count(&before.1);
        let seen = match next {
            Phase::Hits => more(|counters| counters.read_hits),
            Phase::Misses => more(|counters| counters.evictions),
            Phase::Streams => more(|counters| counters.readahead_used),
            Phase::Absorbs | Phase::Parts => more(|counters| counters.blocks_absorbed),
            Phase::WriteBack => more(|counters| counters.epochs.min(counters.blocks_written)),
            Phase::Passes if settings.durability == Durability::Ordered => {
                more(|counters| counters.epochs)
            }
            Phase::Passes => more(|counters| counters.writes_through_fua),
            Phase::Zeroes => more(|counters| counters.zeroes_written),
            Phase::Mixed => more(|counters| counters.evictions.min(counters.epochs)),
        };
        assert!(seen > 100, "{next:?} did not do what it stands for: {seen}");
    }
    let stored = cache.shared().counters(lane.now()).compressed_stored;
    let compresses = settings.compress == Compress::Lz4;
    assert_eq!(stored > 10_000, compresses, "{stored} blocks were compressed");
}
