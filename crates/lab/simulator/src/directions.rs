//! Caches of one policy and several sizes, with hits of reads and writes apart, and by origin.
//!
//! The accesses come one by one, and the caches run on other threads meanwhile. First accesses miss
//! with any size, and are counted. Only the other misses are simulated, and each size has a sample
//! of the blocks that is large enough for it: all sizes together take less time than one with all
//! blocks. A cache that never fills has no other misses, so its hits are exact.

use crate::blocks::{BLOCK_BYTES, NUMBER_BITS};
use crate::choice::DEFAULT;
use crate::hash::OfBlocks;
use crate::sample::Rate;
use policy::Simulation;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use trace::{Access, Direction};

/// Accesses that are given to the workers together.
const CHUNK: usize = 1 << 14;
/// Maximum number of chunks that wait for a worker.
const QUEUE: usize = 4;
/// Number of slots that are enough for a simulated cache: larger ones have a sample of the blocks.
const SLOTS_ENOUGH: u32 = 1 << 13;
/// Maximum number of blocks that are remembered, for each slot of the largest cache: first accesses
/// to more blocks are estimated like other misses.
const SEEN_PER_SLOT: u64 = 4;

/// Hits of a cache.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hits {
    /// Size of the cache in bytes.
    pub memory_bytes: u64,
    /// Blocks of reads that were cached; of a sample, the extrapolated number.
    pub read_blocks: u64,
    /// The same of writes.
    pub write_blocks: u64,
    /// Time that the reads took without a cache, as far as their blocks were cached, in
    /// nanoseconds.
    pub read_ns: u64,
    /// The part of each origin, by its number.
    pub origins: Vec<Accessed>,
}

/// Blocks that were accessed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accessed {
    /// Blocks of reads, counted each time.
    pub read_blocks: u64,
    /// The same of writes.
    pub write_blocks: u64,
    /// Time of the reads whose time is known, spread evenly over their blocks, in nanoseconds.
    pub read_ns: u64,
}

/// Caches with the policy of `serve`. Reads and writes both admit their blocks.
pub struct DirectionCaches {
    rate: Rate,
    chunk: Chunk,
    senders: Vec<SyncSender<Arc<Chunk>>>,
    workers: Vec<JoinHandle<Vec<Cache>>>,
    /// Accessed blocks by origin.
    accessed: Vec<Accessed>,
    /// Blocks of the sample that were accessed.
    seen: HashSet<u64, OfBlocks>,
    seen_max: u64,
    /// First accesses to blocks of the sample, by origin.
    firsts: Vec<Accessed>,
}

#[derive(Default)]
struct Chunk {
    blocks: Vec<u64>,
    origins: Vec<Origin>,
    /// The block's part of the time of its request, in nanoseconds.
    times_ns: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Origin {
    number: u32,
    is_write: bool,
    /// Whether the block is accessed for the first time.
    is_first: bool,
}

struct Cache {
    memory_bytes: u64,
    /// The blocks that it has, of all blocks.
    rate: Rate,
    policy: Simulation,
    /// Missed blocks by origin, without first accesses.
    misses: Vec<Accessed>,
}

impl Accessed {
    fn count(counts: &mut Vec<Accessed>, origin: Origin, blocks: u64, ns: u64) {
        let number = origin.number as usize;
        if counts.len() <= number {
            counts.resize(number + 1, Accessed::default());
        }
        let counts = &mut counts[number];
        match origin.is_write {
            true => counts.write_blocks += blocks,
            false => {
                counts.read_blocks += blocks;
                counts.read_ns = counts.read_ns.saturating_add(ns);
            }
        }
    }

    /// Returns the sum of several origins.
    pub fn sum<'a>(origins: impl IntoIterator<Item = &'a Accessed>) -> Accessed {
        origins.into_iter().fold(Accessed::default(), |sum, one| Accessed {
            read_blocks: sum.read_blocks + one.read_blocks,
            write_blocks: sum.write_blocks + one.write_blocks,
            read_ns: sum.read_ns.saturating_add(one.read_ns),
        })
    }
}

impl DirectionCaches {
    /// Returns empty caches of these sizes in bytes, simulated on `threads` threads with this
    /// sample of the blocks.
    pub fn new(sizes: &[u64], rate: Rate, threads: usize) -> DirectionCaches {
        let slots = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES).unwrap_or(u32::MAX >> 1);
        let cache = |bytes: &u64| {
            let rate = rate_of(rate, slots(*bytes));
            Cache {
                memory_bytes: *bytes,
                rate,
                policy: Simulation::new(DEFAULT, rate.scaled(slots(*bytes)).max(1)),
                misses: Vec::new(),
            }
        };
        let count = threads.clamp(1, sizes.len().max(1));
        let mut parts: Vec<Vec<Cache>> = (0..count).map(|_| Vec::new()).collect();
        for (number, bytes) in sizes.iter().enumerate() {
            parts[number % count].push(cache(bytes));
        }
        let (mut senders, mut workers) = (Vec::new(), Vec::new());
        for part in parts {
            let (sender, receiver) = sync_channel(QUEUE);
            senders.push(sender);
            workers.push(std::thread::spawn(move || work(part, &receiver)));
        }
        let largest = sizes.iter().max().map_or(0, |bytes| rate.scaled(slots(*bytes)));
        DirectionCaches {
            rate,
            chunk: Chunk::default(),
            senders,
            workers,
            accessed: Vec::new(),
            seen: HashSet::default(),
            seen_max: u64::from(largest.max(SLOTS_ENOUGH)) * SEEN_PER_SLOT,
            firsts: Vec::new(),
        }
    }

    /// Accesses the blocks of a request; others than reads and writes touch none.
    pub fn access(&mut self, access: &Access) {
        self.access_from(access, 0);
    }

    /// Accesses the blocks of a request of this origin. Numbers of origins begin at 0, and are
    /// small: each has its own counts.
    pub fn access_from(&mut self, access: &Access, origin: u32) {
        if access.bytes == 0 || access.direction == Direction::Other {
            return;
        }
        let is_write = access.direction == Direction::Write;
        let mut origin = Origin { number: origin, is_write, is_first: false };
        let first = access.first_byte / BLOCK_BYTES;
        let last = (access.first_byte + access.bytes - 1) / BLOCK_BYTES;
        let blocks = last - first + 1;
        let block_ns = access.details.took_ns.unwrap_or(0) / blocks;
        Accessed::count(&mut self.accessed, origin, blocks, block_ns.saturating_mul(blocks));
        let device = u64::from(access.device) << NUMBER_BITS;
        for block in (first..=last).map(|block| device | block) {
            if self.rate.takes(block) {
                let has_room = (self.seen.len() as u64) < self.seen_max;
                origin.is_first = has_room && self.seen.insert(block);
                if origin.is_first {
                    Accessed::count(&mut self.firsts, origin, 1, block_ns);
                }
                self.chunk.blocks.push(block);
                self.chunk.origins.push(origin);
                self.chunk.times_ns.push(block_ns);
            }
        }
        if self.chunk.blocks.len() >= CHUNK {
            self.send();
        }
    }

    fn send(&mut self) {
        let chunk = Arc::new(std::mem::take(&mut self.chunk));
        for sender in &self.senders {
            // A worker ends before its sender only by a panic, which `end` passes on.
            let _ = sender.send(chunk.clone());
        }
    }

    /// Returns the hits by size, in ascending order, and the number of accessed blocks by origin.
    ///
    /// Misses of a sample are extrapolated by its rate, independent of its share of the accesses
    /// (SHARDS-adj).
    pub fn end(mut self) -> (Vec<Hits>, Vec<Accessed>) {
        self.send();
        drop(std::mem::take(&mut self.senders));
        let (rate, accessed) = (self.rate, self.accessed);
        self.firsts.resize(accessed.len(), Accessed::default());
        let mut found = Vec::new();
        for worker in self.workers {
            let caches = match worker.join() {
                Ok(caches) => caches,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            found.extend(caches.into_iter().map(|mut cache| {
                cache.misses.resize(accessed.len(), Accessed::default());
                let hits = |all: &Accessed, firsts: &Accessed, misses: &Accessed| {
                    let left = |all: u64, firsts, misses| {
                        let missed = rate.extrapolated(firsts) + cache.rate.extrapolated(misses);
                        all.saturating_sub(missed)
                    };
                    Accessed {
                        read_blocks: left(all.read_blocks, firsts.read_blocks, misses.read_blocks),
                        write_blocks: left(
                            all.write_blocks,
                            firsts.write_blocks,
                            misses.write_blocks,
                        ),
                        read_ns: left(all.read_ns, firsts.read_ns, misses.read_ns),
                    }
                };
                let sums = [&accessed, &self.firsts, &cache.misses].map(Accessed::sum);
                let all = hits(&sums[0], &sums[1], &sums[2]);
                let origins = accessed.iter().zip(&self.firsts).zip(&cache.misses);
                Hits {
                    memory_bytes: cache.memory_bytes,
                    read_blocks: all.read_blocks,
                    write_blocks: all.write_blocks,
                    read_ns: all.read_ns,
                    origins: origins
                        .map(|((all, firsts), misses)| hits(all, firsts, misses))
                        .collect(),
                }
            }));
        }
        found.sort_by_key(|hits| hits.memory_bytes);
        (found, accessed)
    }
}

/// Returns the share of all blocks for a cache of this many slots: that of the sample, or as much
/// less as leaves slots enough.
fn rate_of(sample: Rate, slots: u32) -> Rate {
    let mut rate = sample;
    while rate.scaled(slots) >= SLOTS_ENOUGH * 2 {
        rate = Rate::new(rate.share() / 2.0).unwrap_or(rate);
    }
    rate
}

fn work(mut caches: Vec<Cache>, chunks: &Receiver<Arc<Chunk>>) -> Vec<Cache> {
    for chunk in chunks {
        for cache in &mut caches {
            let facts = chunk.origins.iter().zip(&chunk.times_ns);
            for (block, (origin, ns)) in chunk.blocks.iter().zip(facts) {
                let is_miss = cache.rate.takes(*block) && !cache.policy.read(*block);
                if is_miss && !origin.is_first {
                    Accessed::count(&mut cache.misses, *origin, 1, *ns);
                }
            }
        }
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::Random;

    fn access(direction: Direction, block: u64) -> Access {
        Access {
            time_ns: 0,
            device: 0,
            direction,
            first_byte: block * 4096,
            bytes: 4096,
            details: trace::Details::default(),
        }
    }

    #[test]
    fn reads_and_writes_share_a_cache_and_are_counted_apart() {
        let mut caches = DirectionCaches::new(&[40_960, 4096], Rate::ALL, 2);
        for _ in 0..2 {
            (0..4).for_each(|block| caches.access(&access(Direction::Write, block)));
            (0..4).for_each(|block| caches.access(&access(Direction::Read, block)));
        }
        caches.access(&Access { bytes: 0, ..access(Direction::Read, 9) });
        caches.access(&access(Direction::Other, 9));
        let (hits, accessed) = caches.end();
        assert_eq!(accessed, [Accessed { read_blocks: 8, write_blocks: 8, read_ns: 0 }]);
        let of = |hits: &Hits| (hits.memory_bytes, hits.read_blocks, hits.write_blocks);
        assert_eq!((of(&hits[0]), of(&hits[1])), ((4096, 0, 0), (40_960, 8, 4)));
    }

    #[test]
    fn origins_share_a_cache_and_are_counted_apart() {
        let mut caches = DirectionCaches::new(&[40_960], Rate::ALL, 1);
        let details = trace::Details { took_ns: Some(70), ..trace::Details::default() };
        let read = |block| Access { details, ..access(Direction::Read, block) };
        caches.access_from(&read(1), 2);
        caches.access_from(&read(1), 0);
        caches.access_from(&read(2), 0);
        caches.access_from(&access(Direction::Write, 2), 2);
        let (hits, accessed) = caches.end();
        let counts = |read_blocks, write_blocks| Accessed {
            read_blocks,
            write_blocks,
            read_ns: read_blocks * 70,
        };
        assert_eq!(accessed, [counts(2, 0), counts(0, 0), counts(1, 1)]);
        assert_eq!(hits[0].origins, [counts(1, 0), counts(0, 0), counts(0, 1)]);
        assert_eq!((hits[0].read_blocks, hits[0].write_blocks, hits[0].read_ns), (1, 1, 70));
    }

    #[test]
    fn larger_sizes_are_sampled_and_near_the_whole() {
        let blocks = u64::from(SLOTS_ENOUGH) * 8;
        let (bytes, slots) = (blocks / 2 * BLOCK_BYTES, (blocks / 2) as u32);
        assert_eq!(rate_of(Rate::ALL, SLOTS_ENOUGH), Rate::ALL);
        assert_eq!(rate_of(Rate::ALL, slots).share(), 0.25);
        let mut caches = DirectionCaches::new(&[bytes, blocks * 2 * BLOCK_BYTES], Rate::ALL, 2);
        let mut whole = Simulation::new(DEFAULT, slots);
        let (mut random, mut hits, all) = (Random::new(4), 0, 500_000);
        let mut seen = HashSet::new();
        for _ in 0..all {
            let part = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
            let block = (blocks as f64 * part * part) as u64;
            caches.access(&access(Direction::Read, block));
            hits += u64::from(whole.read(block));
            seen.insert(block);
        }
        let (found, _) = caches.end();
        let difference = found[0].read_blocks as f64 / hits as f64 - 1.0;
        assert!(difference.abs() < 0.01, "{difference}");
        // A cache with room for all blocks is exact.
        assert_eq!(found[1].read_blocks, all - seen.len() as u64);
    }

    #[test]
    fn a_sample_is_near_the_whole() {
        let ratio = |rate: Rate| {
            let mut caches = DirectionCaches::new(&[16 << 20], rate, 1);
            let mut random = Random::new(3);
            for _ in 0..400_000 {
                let part = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
                caches.access(&access(Direction::Read, 40_000f64.powf(part) as u64));
            }
            let (hits, accessed) = caches.end();
            hits[0].read_blocks as f64 / accessed[0].read_blocks as f64
        };
        let (whole, part) = (ratio(Rate::ALL), ratio(Rate::new(0.25).expect("a rate")));
        assert!((whole - part).abs() < 0.02, "{whole}, {part}");
    }
}
