//! The tasks of the workers: the caches of the runs, and the count of the footprint.

use crate::blocks::NUMBER_BITS;
use crate::footprint::Footprint;
use crate::lru::Lru;
use crate::optimum::Optimum;
use crate::outcome::{ClassAccesses, Hinted};
use policy::{
    CLASSES_MAX, CompressedBytes, HintedSimulation, Hints, Kind, Simulation, TieredSimulation,
    shard_of,
};
use std::sync::Arc;

/// Accesses that all workers receive.
#[derive(Default)]
pub(crate) struct Chunk {
    /// The number of the first one.
    pub(crate) first: u64,
    pub(crate) blocks: Vec<u64>,
    /// All blocks, if `blocks` is a sample and all blocks are counted.
    pub(crate) whole: Option<Vec<u64>>,
    /// The next use of each block; empty if that was not computed.
    pub(crate) nexts: Vec<u64>,
}

/// A piece of work over all accesses.
pub(crate) enum Task {
    Lru(Lrus),
    Policy(Box<Simulated>),
    Tiered(Box<SimulatedTier>),
    Hinted(Box<SimulatedHints>),
    Optimum(Optima),
    Footprint(Footprint),
    /// The footprint of the sample alone.
    SampledFootprint(Footprint),
}

/// LRU caches of all sizes of the plan: an [`Lru`] for each shard.
pub(crate) struct Lrus {
    shards: Vec<Lru>,
    /// The blocks of each shard in a chunk.
    blocks: Vec<Vec<u64>>,
}

/// A cache of one policy and size.
pub(crate) struct Simulated {
    run: usize,
    cache: Simulation,
    misses: u64,
}

/// A cache of one policy and size with a compressed tier.
pub(crate) struct SimulatedTier {
    run: usize,
    cache: TieredSimulation,
    misses: u64,
}

/// A cache of one policy and size with hints.
pub(crate) struct SimulatedHints {
    run: usize,
    cache: HintedSimulation,
    hints: Arc<Hints>,
    classes: [ClassAccesses; CLASSES_MAX],
}

/// The optimum of one size.
pub(crate) struct Optima {
    run: usize,
    shards: Vec<Optimum>,
    misses: u64,
}

impl Task {
    pub(crate) fn lru(sizes: &[u32], shards: u32) -> Task {
        Task::Lru(Lrus {
            shards: (0..shards).map(|_| Lru::new(sizes)).collect(),
            blocks: vec![Vec::new(); shards as usize],
        })
    }

    pub(crate) fn policy(run: usize, kind: Kind, slots: u32, shards: u32) -> Task {
        let cache = Simulation::with_shards(kind, slots, shards);
        Task::Policy(Box::new(Simulated { run, cache, misses: 0 }))
    }

    pub(crate) fn tiered(
        run: usize,
        kind: Kind,
        slots: u32,
        shards: u32,
        sizes: &Arc<CompressedBytes>,
    ) -> Task {
        let cache = TieredSimulation::new(kind, slots, shards, sizes);
        Task::Tiered(Box::new(SimulatedTier { run, cache, misses: 0 }))
    }

    pub(crate) fn hinted(
        run: usize,
        kind: Kind,
        slots: u32,
        shards: u32,
        hints: &Arc<Hints>,
    ) -> Task {
        let cache = HintedSimulation::new(kind, slots, shards, hints);
        let classes = [ClassAccesses::default(); CLASSES_MAX];
        Task::Hinted(Box::new(SimulatedHints { run, cache, hints: hints.clone(), classes }))
    }

    pub(crate) fn optimum(run: usize, slots: u32, shards: u32) -> Task {
        let shards = (0..shards).map(|_| Optimum::new(slots)).collect();
        Task::Optimum(Optima { run, shards, misses: 0 })
    }

    /// Returns the approximate time of an access, to divide the work among the workers.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Task::Footprint(_) | Task::SampledFootprint(_) => 2,
            Task::Lru(_) => 12,
            Task::Policy(_) => 10,
            Task::Tiered(_) | Task::Hinted(_) => 20,
            Task::Optimum(_) => 30,
        }
    }

    pub(crate) fn take(&mut self, chunk: &Chunk) {
        match self {
            Task::Lru(lrus) => lrus.take(&chunk.blocks),
            Task::Policy(simulated) => simulated.take(&chunk.blocks),
            Task::Tiered(simulated) => simulated.take(&chunk.blocks),
            Task::Hinted(simulated) => simulated.take(&chunk.blocks),
            Task::Optimum(optima) => optima.take(chunk),
            Task::Footprint(footprint) => {
                let whole = chunk.whole.as_ref().unwrap_or(&chunk.blocks);
                whole.iter().for_each(|block| footprint.add(*block));
            }
            Task::SampledFootprint(footprint) => {
                chunk.blocks.iter().for_each(|block| footprint.add(*block));
            }
        }
    }

    /// Returns the misses of a run of this size, if this task counted them.
    pub(crate) fn misses(&self, run: usize, slots_of_shard: Option<u32>) -> Option<u64> {
        match self {
            Task::Lru(lrus) => {
                let slots = slots_of_shard?;
                lrus.shards.iter().map(|lru| lru.misses(slots)).sum()
            }
            Task::Policy(simulated) => (simulated.run == run).then_some(simulated.misses),
            Task::Optimum(optima) => (optima.run == run).then_some(optima.misses),
            Task::Tiered(_) | Task::Hinted(_) => None,
            Task::Footprint(_) | Task::SampledFootprint(_) => None,
        }
    }

    /// Returns the cache with a compressed tier of a run, and its misses, if this task has it.
    pub(crate) fn tier(&self, run: usize) -> Option<(&TieredSimulation, u64)> {
        match self {
            Task::Tiered(simulated) if simulated.run == run => {
                Some((&simulated.cache, simulated.misses))
            }
            _ => None,
        }
    }
}

impl Task {
    /// Returns the results of the cache with hints of a run, if this task has it.
    pub(crate) fn hints(&self, run: usize) -> Option<Hinted> {
        match self {
            Task::Hinted(simulated) if simulated.run == run => Some(Hinted {
                block_misses: simulated.classes.iter().map(|class| class.misses).sum(),
                are_followed: simulated.cache.follows_hints(),
                classes: simulated.classes,
            }),
            _ => None,
        }
    }
}

impl Lrus {
    fn take(&mut self, blocks: &[u64]) {
        if let [only] = &mut self.shards[..] {
            return only.access_all(blocks);
        }
        let count = self.shards.len() as u32;
        for block in blocks {
            self.blocks[shard_of(*block, count) as usize].push(*block);
        }
        for (shard, blocks) in self.shards.iter_mut().zip(&mut self.blocks) {
            shard.access_all(blocks);
            blocks.clear();
        }
    }
}

impl Simulated {
    fn take(&mut self, blocks: &[u64]) {
        let cache = &mut self.cache;
        self.misses += blocks.iter().filter(|block| !cache.read(**block)).count() as u64;
    }
}

impl SimulatedTier {
    fn take(&mut self, blocks: &[u64]) {
        let cache = &mut self.cache;
        self.misses += blocks.iter().filter(|block| !cache.read(**block)).count() as u64;
    }
}

impl SimulatedHints {
    fn take(&mut self, blocks: &[u64]) {
        for block in blocks {
            // Only one device counts: its number is not needed.
            let block = block & ((1 << NUMBER_BITS) - 1);
            let class = &mut self.classes[usize::from(self.hints.map.class_of(block))];
            class.accesses += 1;
            class.misses += u64::from(!self.cache.read(block));
        }
    }
}

impl Optima {
    fn take(&mut self, chunk: &Chunk) {
        let count = self.shards.len() as u32;
        for ((number, block), next) in (chunk.first..).zip(&chunk.blocks).zip(&chunk.nexts) {
            let shard = &mut self.shards[shard_of(*block, count) as usize];
            self.misses += u64::from(!shard.access(number, *next));
        }
    }
}
