//! The cost of a miss that is admitted: the engine over a device that makes each read wait, with
//! data, in virtual time. It is compared with the bound, a layer that only copies the block to a
//! random slot.
//!
//! The difference is the engine's own work: two searches of the index, the stream detector, the
//! samples, the registration of the fetch, the eviction and the new entry. In a server, other work
//! clears the processor's caches between two steps of a request. With `--clear-kib` the device
//! reads that much other memory during each wait.

use crate::sides::{Pairs, alternate, cpu_ns, median, verdict};
use crate::virtual_time::{Slow, shuffled};
use anyhow::Result;
use block::{Buf, Extent, Limits, Memory, Null, Request, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Sizes of the cache, in MiB.
    #[arg(long, value_delimiter = ',', default_value = "64,1024")]
    mib: Vec<u64>,
    /// Reads under way.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    depths: Vec<usize>,
    /// Other memory that is read while a read waits, in KiB.
    #[arg(long, value_delimiter = ',', default_value = "0,256")]
    clear_kib: Vec<usize>,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Misses in each run.
    #[arg(long, default_value_t = 20_000)]
    misses: u64,
}

/// The volume is this many times as large as the cache, so that no read is a hit.
const TIMES: u64 = 32;
/// Maximum processor time of an admitted miss above the copy, in nanoseconds.
const EXTRA_NS_MAX: f64 = 1000.0;
/// Bytes of a block, and of a line of the processor's caches.
const BLOCK: usize = 4096;
const LINE: usize = 64;

/// A device that makes each read wait, and then reads other memory.
struct Clearing {
    slow: Slow,
    other: Rc<Vec<u8>>,
}

impl block::Block for Clearing {
    fn limits(&self) -> &Limits {
        self.slow.limits()
    }

    async fn run(&self, request: Request) -> block::Result {
        let result = self.slow.run(request).await;
        let lines = self.other.iter().step_by(LINE);
        std::hint::black_box(lines.fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
        result
    }
}

/// The bound: copies each block that was read to a random slot, as the engine does.
struct Copier {
    below: Stack,
    slots: Arc<Memory>,
    random: RefCell<Random>,
}

impl block::Block for Copier {
    fn limits(&self) -> &Limits {
        self.below.limits()
    }

    async fn run(&self, request: Request) -> block::Result {
        let Request::Read { at, ref into } = request else { unreachable!("it is only read") };
        let into = into.clone();
        let result = self.below.run(request).await;
        let slots = (self.slots.bytes() / BLOCK) as u64;
        let slot = self.random.borrow_mut().below(slots) as usize;
        into.copy_part_past_caches(0, at.count, &self.slots, slot * BLOCK);
        result
    }
}

/// A stack, the world that drives it, and the number of reads until now.
struct Side {
    world: World,
    lane: Lane,
    stack: Stack,
    blocks: u64,
    reads: Rc<Cell<u64>>,
    depth: usize,
}

impl Side {
    fn new(mib: u64, depth: usize, other: &Rc<Vec<u8>>, above: impl Fn(Stack) -> Stack) -> Side {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let sectors = (mib << 11) * TIMES;
        let slow = Slow { null: Null::new(sectors, 512), lane: lane.clone() };
        let below = Stack::new(&lane, Clearing { slow, other: other.clone() });
        let stack = above(below);
        Side { world, lane, stack, blocks: sectors / 8, reads: Rc::default(), depth }
    }

    /// Makes the side of the engine, with a full cache.
    fn engine(mib: u64, depth: usize, other: &Rc<Vec<u8>>) -> Result<Side> {
        let geometry = Geometry::for_memory(mib << 20);
        let memory = touched(Arena::bytes(&geometry, 512));
        let limits = Limits::plain((mib << 11) * TIMES, 512);
        let settings = Settings {
            write: WriteMode::Through,
            dirty_age_ns: 5_000_000_000,
            workers: 1,
            ..Settings::default()
        };
        let slots = geometry.slots.into();
        let shared = Shared::new(&limits, geometry, settings, 0, memory)?;
        let mut side = Side::new(mib, depth, other, |below| {
            let lane = below.lane().clone();
            Stack::new(&lane, Cache::attach(&shared, &lane, below))
        });
        side.read(slots);
        Ok(side)
    }

    fn copier(mib: u64, depth: usize, other: &Rc<Vec<u8>>) -> Side {
        let slots = touched((mib << 20) as usize);
        Side::new(mib, depth, other, |below| {
            let lane = below.lane().clone();
            let random = RefCell::new(Random::new(1));
            Stack::new(&lane, Copier { below, slots: slots.clone(), random })
        })
    }

    /// Reads blocks, of which each is read for the first time; returns nanoseconds of processor
    /// time per read.
    fn read(&mut self, reads: u64) -> f64 {
        let end = self.reads.get() + reads;
        let running = Rc::new(Cell::new(self.depth));
        for _ in 0..self.depth {
            let (stack, reads, running) = (self.stack.clone(), self.reads.clone(), running.clone());
            let (into, blocks) = (Buf::new(8, 512), self.blocks);
            let reader = async move {
                while reads.get() < end {
                    reads.set(reads.get() + 1);
                    let at = Extent::new(shuffled(reads.get(), blocks) * 8, 8);
                    let request = Request::Read { at, into: into.clone() };
                    if stack.try_now(&request).is_none() {
                        stack.run(request).await.expect("a null device does not fail");
                    }
                }
                running.set(running.get() - 1);
            };
            self.lane.spawn(reader).expect("a slot is free");
        }
        let start = cpu_ns();
        self.world.run_until(|| running.get() == 0);
        (cpu_ns() - start) as f64 / reads as f64
    }
}

/// Allocates memory whose pages exist.
fn touched(bytes: usize) -> Arc<Memory> {
    let memory = Memory::heap(bytes);
    memory.zero(0, bytes);
    Arc::new(memory)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for &mib in &arguments.mib {
        for &depth in &arguments.depths {
            for &kib in &arguments.clear_kib {
                let other = Rc::new(vec![1; kib << 10]);
                let mut engine = Side::engine(mib, depth, &other)?;
                let mut copier = Side::copier(mib, depth, &other);
                let misses = arguments.misses;
                let pairs =
                    alternate(arguments.pairs, || engine.read(misses), || copier.read(misses));
                print(&format!("{mib} MiB, depth {depth}, clearing {kib} KiB"), &pairs);
            }
        }
    }
    Ok(())
}

fn print(what: &str, pairs: &Pairs) {
    let extra = median(pairs.differences());
    println!(
        "{what}: {:.0} ns a miss, {:.0} ns with a copy alone; the engine's own work {extra:.0} ns  \
         target at most {EXTRA_NS_MAX:.0}: {}",
        pairs.a(),
        pairs.b(),
        verdict(extra <= EXTRA_NS_MAX)
    );
}
