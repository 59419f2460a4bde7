//! The engine in virtual time, over a device that has the blocks of a pool, and whose reads wait.

use crate::sides::cpu_ns;
use crate::virtual_time::shuffled;
use ::policy::TierShare;
use anyhow::Result;
use block::{Buf, Compress, Extent, Limits, Memory, Request, Stack, WriteMode};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
/// The latency of a read of the device.
const READ_NS: u64 = 100_000;

/// A device that makes each read wait, and has the blocks of a pool again and again.
struct Device {
    limits: Limits,
    lane: Lane,
    pool: Arc<Memory>,
}

impl block::Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> block::Result {
        let Request::Read { at, into } = request else { unreachable!("it is only read") };
        self.lane.sleep_until(self.lane.now() + READ_NS).await;
        let pool_blocks = (self.pool.bytes() / BLOCK) as u64;
        for block in 0..u64::from(at.count / 8) {
            let from = ((at.first / 8 + block) % pool_blocks) as usize * BLOCK;
            into.part(block as u32 * 8, 8).copy_from(&self.pool, from);
        }
        Ok(())
    }
}

/// A cache, and the world that drives it.
pub(crate) struct Side {
    world: World,
    lane: Lane,
    stack: Stack,
    cache: Cache,
    shared: Arc<Shared>,
    /// Blocks of the volume.
    pub(crate) blocks: u64,
    pub(crate) slots: u64,
}

impl Side {
    /// Returns the settings of a cache that compresses in this way.
    pub(crate) fn settings(compress: Compress) -> Settings {
        Settings {
            write: WriteMode::Through,
            workers: 1,
            readahead: false,
            compress,
            ..Settings::default()
        }
    }

    /// Makes a cache with this memory, in front of a volume of this many blocks.
    pub(crate) fn new(
        pool: &Arc<Memory>,
        blocks: u64,
        memory_bytes: u64,
        settings: Settings,
    ) -> Result<Side> {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let geometry = Geometry::for_memory(memory_bytes);
        let slots = u64::from(geometry.slots);
        let limits = Limits::plain(blocks * 8, 512);
        let device = Device { limits, lane: lane.clone(), pool: pool.clone() };
        let memory = Memory::heap(Arena::bytes(&geometry, 512));
        memory.zero(0, memory.bytes());
        let shared = Shared::new(&device.limits, geometry, settings, 0, Arc::new(memory))?;
        let below = Stack::new(&lane, device);
        let cache = Cache::attach(&shared, &lane, below);
        let stack = Stack::new(&lane, cache.clone());
        Ok(Side { world, lane, stack, cache, shared, blocks, slots })
    }

    /// Fixes the share of its compressed tier.
    pub(crate) fn fix_tier_share(&self, share: TierShare) {
        self.shared.force_tier_share(share);
    }

    /// Reads these blocks one after the other; returns nanoseconds of processor time per read.
    pub(crate) fn read(&mut self, blocks: impl IntoIterator<Item = u64, IntoIter: 'static>) -> f64 {
        let (stack, into) = (self.stack.clone(), Buf::new(8, 512));
        let (done, blocks) = (Rc::new(Cell::new(None)), blocks.into_iter());
        let ended = done.clone();
        let reader = async move {
            let mut reads = 0;
            for block in blocks {
                reads += 1;
                let request = Request::Read { at: Extent::new(block * 8, 8), into: into.clone() };
                match stack.try_now(&request) {
                    Some(result) => result.expect("the device does not fail"),
                    None => stack.run(request).await.expect("the device does not fail"),
                }
            }
            ended.set(Some(reads));
        };
        self.lane.spawn(reader).expect("a slot is free");
        let start = cpu_ns();
        self.world.run_until(|| done.get().is_some());
        (cpu_ns() - start) as f64 / done.get().unwrap_or(1).max(1) as f64
    }

    /// Reads these blocks by their number in an order that is no stream, one after the other.
    /// Returns nanoseconds of processor time per read in the steps of the reads themselves, without
    /// other tasks of the cache that run while a read waits.
    pub(crate) fn read_shuffled_alone(&mut self, numbers: std::ops::Range<u64>) -> f64 {
        let (stack, into, all) = (self.stack.clone(), Buf::new(8, 512), self.blocks);
        let reads = (numbers.end - numbers.start).max(1);
        let done = Rc::new(Cell::new(None));
        let ended = done.clone();
        let reader = async move {
            let mut spent_ns = 0;
            for block in numbers.map(|number| shuffled(number, all)) {
                let request = Request::Read { at: Extent::new(block * 8, 8), into: into.clone() };
                let mut run = std::pin::pin!(async {
                    match stack.try_now(&request) {
                        Some(result) => result,
                        None => stack.run(request).await,
                    }
                });
                let steps = std::future::poll_fn(|context| {
                    let begun_ns = cpu_ns();
                    let polled = run.as_mut().poll(context);
                    spent_ns += cpu_ns() - begun_ns;
                    polled
                });
                steps.await.expect("the device does not fail");
            }
            ended.set(Some(spent_ns));
        };
        self.lane.spawn(reader).expect("a slot is free");
        self.world.run_until(|| done.get().is_some());
        done.get().unwrap_or(0) as f64 / reads as f64
    }

    /// Reads these blocks by their number in an order that is no stream.
    pub(crate) fn read_shuffled(&mut self, numbers: std::ops::Range<u64>) -> f64 {
        let blocks = self.blocks;
        self.read(numbers.map(move |number| shuffled(number, blocks)))
    }

    /// Returns the blocks in memory, compressed or not.
    pub(crate) fn held(&mut self) -> Vec<u64> {
        let (cache, held) = (self.cache.clone(), Rc::new(RefCell::new(None)));
        let listed = held.clone();
        let list = async move {
            let (mut blocks, mut next) = (Vec::new(), Some(0));
            while let Some(from) = next {
                next = cache.list_held_blocks(from, &mut blocks).await;
            }
            listed.replace(Some(blocks));
        };
        self.lane.spawn(list).expect("a slot is free");
        self.world.run_until(|| held.borrow().is_some());
        held.take().unwrap_or_default().into_iter().map(|held| held.block).collect()
    }

    /// Returns the counters of the volume.
    pub(crate) fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }
}
