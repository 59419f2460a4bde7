//! Caches of one policy and several sizes, with hits of reads and writes apart.
//!
//! The accesses come one by one, and the caches run on other threads meanwhile.

use crate::blocks::{BLOCK_BYTES, NUMBER_BITS};
use crate::choice::DEFAULT;
use crate::sample::Rate;
use policy::Simulation;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use trace::{Access, Direction};

/// Accesses that are given to the workers together.
const CHUNK: usize = 1 << 14;
/// Maximum number of chunks that wait for a worker.
const QUEUE: usize = 4;

/// Hits of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hits {
    /// Size of the cache in bytes.
    pub memory_bytes: u64,
    /// Blocks of reads that were cached; of a sample, the extrapolated number.
    pub read_blocks: u64,
    /// The same of writes.
    pub write_blocks: u64,
}

/// Blocks that were accessed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accessed {
    /// Blocks of reads, counted each time.
    pub read_blocks: u64,
    /// The same of writes.
    pub write_blocks: u64,
}

/// Caches with the policy of `serve`. Reads and writes both admit their blocks.
pub struct DirectionCaches {
    rate: Rate,
    chunk: Chunk,
    senders: Vec<SyncSender<Arc<Chunk>>>,
    workers: Vec<JoinHandle<Vec<Cache>>>,
    accessed: Accessed,
}

#[derive(Default)]
struct Chunk {
    blocks: Vec<u64>,
    are_writes: Vec<bool>,
}

struct Cache {
    memory_bytes: u64,
    policy: Simulation,
    read_misses: u64,
    write_misses: u64,
}

impl DirectionCaches {
    /// Returns empty caches of these sizes in bytes, simulated on `threads` threads with this
    /// sample of the blocks.
    pub fn new(sizes: &[u64], rate: Rate, threads: usize) -> DirectionCaches {
        let slots = |bytes: u64| u32::try_from(bytes / BLOCK_BYTES).unwrap_or(u32::MAX >> 1);
        let cache = |bytes: &u64| Cache {
            memory_bytes: *bytes,
            policy: Simulation::new(DEFAULT, rate.scaled(slots(*bytes)).max(1)),
            read_misses: 0,
            write_misses: 0,
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
        let (chunk, accessed) = (Chunk::default(), Accessed::default());
        DirectionCaches { rate, chunk, senders, workers, accessed }
    }

    /// Accesses the blocks of a request; others than reads and writes touch none.
    pub fn access(&mut self, access: &Access) {
        if access.bytes == 0 || access.direction == Direction::Other {
            return;
        }
        let is_write = access.direction == Direction::Write;
        let first = access.first_byte / BLOCK_BYTES;
        let last = (access.first_byte + access.bytes - 1) / BLOCK_BYTES;
        let count = match is_write {
            true => &mut self.accessed.write_blocks,
            false => &mut self.accessed.read_blocks,
        };
        *count += last - first + 1;
        let device = u64::from(access.device) << NUMBER_BITS;
        for block in (first..=last).map(|block| device | block) {
            if self.rate.takes(block) {
                self.chunk.blocks.push(block);
                self.chunk.are_writes.push(is_write);
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

    /// Returns the hits by size, in ascending order, and the number of accessed blocks.
    ///
    /// Misses of a sample are extrapolated by its rate, independent of its share of the accesses
    /// (SHARDS-adj).
    pub fn end(mut self) -> (Vec<Hits>, Accessed) {
        self.send();
        drop(std::mem::take(&mut self.senders));
        let (rate, accessed) = (self.rate, self.accessed);
        let hits = |all: u64, misses| all.saturating_sub(rate.extrapolated(misses));
        let mut found = Vec::new();
        for worker in self.workers {
            let caches = match worker.join() {
                Ok(caches) => caches,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            found.extend(caches.into_iter().map(|cache| Hits {
                memory_bytes: cache.memory_bytes,
                read_blocks: hits(accessed.read_blocks, cache.read_misses),
                write_blocks: hits(accessed.write_blocks, cache.write_misses),
            }));
        }
        found.sort_by_key(|hits| hits.memory_bytes);
        (found, accessed)
    }
}

fn work(mut caches: Vec<Cache>, chunks: &Receiver<Arc<Chunk>>) -> Vec<Cache> {
    for chunk in chunks {
        for cache in &mut caches {
            for (block, is_write) in chunk.blocks.iter().zip(&chunk.are_writes) {
                let misses = match is_write {
                    true => &mut cache.write_misses,
                    false => &mut cache.read_misses,
                };
                *misses += u64::from(!cache.policy.read(*block));
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
        assert_eq!(accessed, Accessed { read_blocks: 8, write_blocks: 8 });
        assert_eq!(hits[0], Hits { memory_bytes: 4096, read_blocks: 0, write_blocks: 0 });
        assert_eq!(hits[1], Hits { memory_bytes: 40_960, read_blocks: 8, write_blocks: 4 });
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
            hits[0].read_blocks as f64 / accessed.read_blocks as f64
        };
        let (whole, part) = (ratio(Rate::ALL), ratio(Rate::new(0.25).expect("a rate")));
        assert!((whole - part).abs() < 0.02, "{whole}, {part}");
    }
}
