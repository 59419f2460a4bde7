//! A load as plain data, and its result: tasks on the measured lane, in virtual time.

use super::device::{Speed, drive, limits};
use crate::latencies::{Latencies, Spread};
use anyhow::Result;
use block::{Buf, CacheSpec, Extent, Memory, Request, Stack};
use cache::{Arena, BLOCK_SECTORS, Cache, Counters, Geometry, Settings, Shared};
use lane::{Event, Lane, Prices, Random, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The span of every load and the size of the drive, in blocks of 4 KiB: 8 GiB.
pub(crate) const SPAN: u64 = 1 << 21;
/// A second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The addresses of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Addresses {
    /// Anywhere in the span.
    Random,
    /// In order.
    Sequential,
    /// Each of this number of blocks (a power of two), scattered over the span, then all again.
    Rounds(u64),
}

/// When a client flushes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Flushes {
    /// Never, except at the end.
    Never,
    /// At every multiple of this number of nanoseconds.
    Every(u64),
    /// After this number of writes.
    After(u64),
}

/// When a load ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Until {
    /// After this number of nanoseconds.
    Time(u64),
    /// After this number of writes.
    Writes(u64),
}

/// A load on a drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Load {
    /// Queue depth.
    pub(crate) depth: u32,
    /// Percentage of reads.
    pub(crate) reads: u64,
    /// Blocks in a request.
    pub(crate) blocks: u32,
    /// Their addresses.
    pub(crate) place: Addresses,
    /// When a client flushes.
    pub(crate) flushes: Flushes,
    /// Whether no request is sent while a flush is under way, nor a flush while any request is: a
    /// burst, then its flush. Otherwise only the task that flushes waits.
    pub(crate) pauses: bool,
    /// When it ends.
    pub(crate) until: Until,
}

/// Writes between two flushes, and the flush that ends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// The time when the first write was sent.
    pub(crate) began_ns: u64,
    /// Number of writes.
    pub(crate) writes: u64,
    /// Time from then until the flush was answered.
    pub(crate) took_ns: u64,
}

/// The result of a run.
pub(crate) struct Found {
    /// Requests answered.
    pub(crate) requests: u64,
    /// Writes answered.
    pub(crate) writes: u64,
    /// Time of the last answer, in nanoseconds.
    pub(crate) answered_ns: u64,
    /// The same with the final drain.
    pub(crate) took_ns: u64,
    /// Latencies of writes.
    pub(crate) write: Spread,
    /// Latencies of reads.
    pub(crate) read: Spread,
    /// Every batch that was ended by a flush.
    pub(crate) batches: Vec<Batch>,
    /// The counters of the engine. None: a bare drive.
    pub(crate) counters: Option<Counters>,
}

impl Found {
    /// Returns requests per second, including the final drain.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.took_ns.max(1) as f64
    }

    /// Returns requests per second as measured by the clients, without the final drain.
    pub(crate) fn rate_answered(&self) -> f64 {
        self.requests as f64 * 1e9 / self.answered_ns.max(1) as f64
    }
}

struct Rider {
    lane: Lane,
    stack: Stack,
    load: Load,
    buffer: Buf,
    random: RefCell<Random>,
    /// Requests sent, writes sent, writes answered.
    sent: Cell<u64>,
    writes: Cell<u64>,
    under_way: Cell<u32>,
    /// Writes since the last flush, and the time when the first of them was sent.
    batch: Cell<(u64, u64)>,
    flush_due_ns: Cell<u64>,
    flushing: Cell<bool>,
    changed: Event,
    riding: Cell<u32>,
    end_ns: Cell<u64>,
    write: RefCell<Latencies>,
    read: RefCell<Latencies>,
    batches: RefCell<Vec<Batch>>,
}

impl Rider {
    fn new(lane: &Lane, stack: &Stack, load: Load) -> Rc<Rider> {
        let period_ns = if let Flushes::Every(ns) = load.flushes { ns } else { 0 };
        Rc::new(Rider {
            lane: lane.clone(),
            stack: stack.clone(),
            load,
            buffer: Buf::new(load.blocks * BLOCK_SECTORS, 0),
            random: RefCell::new(Random::new(1)),
            sent: Cell::new(0),
            writes: Cell::new(0),
            under_way: Cell::new(0),
            batch: Cell::new((0, 0)),
            flush_due_ns: Cell::new(lane.now() + period_ns),
            flushing: Cell::new(false),
            changed: Event::new(),
            riding: Cell::new(load.depth),
            end_ns: Cell::new(0),
            write: RefCell::default(),
            read: RefCell::default(),
            batches: RefCell::default(),
        })
    }

    async fn ride(&self) {
        while !self.is_over() {
            let seen = self.changed.seen();
            if self.is_flush_due() {
                self.flush().await;
            } else if self.load.pauses && self.flushing.get() {
                self.changed.after(seen).await;
            } else {
                self.request().await;
                // Otherwise a cache that answers without a wait would never let another task run.
                self.lane.rest().await;
            }
        }
        self.riding.set(self.riding.get() - 1);
        self.end_ns.set(self.lane.now());
    }

    fn is_over(&self) -> bool {
        match self.load.until {
            Until::Time(ns) => self.lane.now() >= ns,
            Until::Writes(count) => self.writes.get() >= count,
        }
    }

    fn is_flush_due(&self) -> bool {
        let (writes, _) = self.batch.get();
        let due = match self.load.flushes {
            Flushes::Never => false,
            Flushes::Every(_) => self.lane.now() >= self.flush_due_ns.get(),
            Flushes::After(count) => writes >= count,
        };
        due && writes > 0 && !self.flushing.get()
    }

    async fn flush(&self) {
        self.flushing.set(true);
        while self.load.pauses && self.under_way.get() > 0 {
            let seen = self.changed.seen();
            self.changed.after(seen).await;
        }
        let (writes, began_ns) = self.batch.take();
        self.stack.run(Request::Flush).await.expect("this drive does not fail");
        let now = self.lane.now();
        self.batches.borrow_mut().push(Batch { began_ns, writes, took_ns: now - began_ns });
        if let Flushes::Every(period_ns) = self.load.flushes {
            // At multiples of the period; flushes missed during a long one are not made up for.
            self.flush_due_ns.set(now - now % period_ns + period_ns);
        }
        self.flushing.set(false);
        self.changed.notify();
    }

    async fn request(&self) {
        let (request, is_write) = self.next();
        let start = self.lane.now();
        if is_write {
            self.writes.set(self.writes.get() + 1);
            let (writes, began_ns) = self.batch.get();
            self.batch.set((writes + 1, if writes == 0 { start } else { began_ns }));
        }
        self.under_way.set(self.under_way.get() + 1);
        let result = match self.stack.try_now(&request) {
            Some(result) => result,
            None => self.stack.run(request).await,
        };
        result.expect("this drive does not fail");
        self.under_way.set(self.under_way.get() - 1);
        let took = self.lane.now() - start;
        let latencies = if is_write { &self.write } else { &self.read };
        latencies.borrow_mut().record(took);
        if self.under_way.get() == 0 && self.flushing.get() {
            self.changed.notify();
        }
    }

    fn next(&self) -> (Request, bool) {
        let mut random = self.random.borrow_mut();
        let number = self.sent.get();
        self.sent.set(number + 1);
        let blocks = u64::from(self.load.blocks);
        let first = match self.load.place {
            Addresses::Random => random.below(SPAN / blocks) * blocks,
            Addresses::Sequential => number * blocks % SPAN,
            // Odd strides visit every number below a power of two once per round.
            Addresses::Rounds(room) => number * 7919 % room * (SPAN / room),
        };
        let at = Extent::new(first * u64::from(BLOCK_SECTORS), self.buffer.sectors());
        let buffer = self.buffer.clone();
        match random.below(100) < self.load.reads {
            true => (Request::Read { at, into: buffer }, false),
            false => (Request::Write { at, from: buffer, fua: false }, true),
        }
    }
}

/// Runs a load on a fresh drive, behind a cache or bare.
pub(crate) fn run(
    load: Load,
    speed: Speed,
    prices: Prices,
    spec: Option<&CacheSpec>,
) -> Result<Found> {
    let mut world = World::timed(prices);
    let lane = world.lane();
    let sectors = SPAN * u64::from(BLOCK_SECTORS);
    let below = drive(&lane, sectors, speed);
    let cache = spec.map(|spec| attach(&lane, spec, below.clone())).transpose()?;
    let stack = cache.clone().map_or(below, |cache| Stack::new(&lane, cache));
    let rider = Rider::new(&lane, &stack, load);
    for _ in 0..load.depth {
        let rider = rider.clone();
        lane.spawn(async move { rider.ride().await }).expect("a lane has room for its riders");
    }
    world.run_until(|| rider.riding.get() == 0);
    drain(&mut world, &lane, &stack, cache.as_ref());
    let now = lane.now();
    Ok(Found {
        requests: rider.sent.get(),
        writes: rider.writes.get(),
        answered_ns: rider.end_ns.get(),
        took_ns: now,
        write: rider.write.take().spread(),
        read: rider.read.take().spread(),
        batches: rider.batches.take(),
        counters: cache.map(|cache| cache.shared().counters(now)),
    })
}

pub(super) fn attach(lane: &Lane, spec: &CacheSpec, below: Stack) -> Result<Cache> {
    let geometry = Geometry::for_memory(spec.memory.0);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
    let settings = Settings::from_spec(spec, &geometry);
    let limits = limits(below.limits().sectors);
    let shared = Shared::new(&limits, geometry, settings, 0, memory)?;
    Ok(Cache::attach(&shared, lane, below))
}

/// Makes all answered writes durable.
pub(super) fn drain(world: &mut World, lane: &Lane, stack: &Stack, cache: Option<&Cache>) {
    let done = Rc::new(Cell::new(false));
    let (finished, stack, cache) = (done.clone(), stack.clone(), cache.cloned());
    let drains = async move {
        let result = match cache {
            Some(cache) => cache.drain().await,
            None => stack.run(Request::Flush).await,
        };
        result.expect("this drive does not fail");
        finished.set(true);
    };
    lane.spawn(drains).expect("a lane has room for one more");
    world.run_until(|| done.get());
}

#[cfg(test)]
mod tests {
    use super::super::device::FLUSH_NS;
    use super::super::rows::SINGLE;
    use super::*;

    fn bare(load: Load, speed: Speed) -> Found {
        run(load, speed, Prices::default(), None).expect("nothing is asked of the system")
    }

    #[test]
    fn the_drive_has_the_figures_that_it_is_said_to_have() {
        let second = Load { until: Until::Time(SECOND), ..SINGLE };
        let alone = bare(second, Speed::Steady);
        assert_eq!(alone.write.quantiles[0], 43_877);
        assert_eq!(alone.took_ns - alone.answered_ns, 1_500_000);
        let deep = bare(Load { depth: 128, ..second }, Speed::Steady).rate_answered();
        assert!((deep / 66_667.0 - 1.0).abs() < 0.002, "{deep}");
        let reads = bare(Load { reads: 100, ..second }, Speed::Steady);
        assert_eq!(reads.read.max, 99_877);
        let large = Load { blocks: 256, place: Addresses::Sequential, depth: 8, ..second };
        let rate = bare(large, Speed::Steady).rate_answered() * 1.048_576;
        assert!((rate / 520.0 - 1.0).abs() < 0.01, "{rate} MB/s");
        let slow = bare(Load { depth: 128, ..second }, Speed::Slow).rate_answered();
        assert!((slow * 4.0 / deep - 1.0).abs() < 0.01, "{slow}");
        let half = bare(Load { depth: 128, ..second }, Speed::Dips(SECOND / 2, 2 * SECOND));
        assert!((half.rate_answered() / (0.625 * deep) - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_flush_ends_a_batch_and_pauses_what_it_must() {
        let load = Load {
            depth: 4,
            flushes: Flushes::After(100),
            pauses: true,
            until: Until::Writes(1000),
            ..SINGLE
        };
        let found = bare(load, Speed::Steady);
        assert_eq!(found.batches.len(), 9);
        for batch in &found.batches {
            assert!((100..104).contains(&batch.writes), "{batch:?}");
            let least = batch.writes * 15_000 + FLUSH_NS;
            assert!((least..least + 50_000).contains(&batch.took_ns), "{batch:?}");
        }
        let every = Load {
            flushes: Flushes::Every(SECOND / 10),
            until: Until::Time(SECOND),
            pauses: false,
            ..load
        };
        let found = bare(every, Speed::Steady);
        assert_eq!(found.batches.len(), 9);
        assert!(found.batches.iter().all(|batch| batch.took_ns < SECOND / 10 + 2 * FLUSH_NS));
    }

    #[test]
    fn a_hot_set_is_written_to_the_drive_once() {
        let load = Load { place: Addresses::Rounds(64), until: Until::Writes(640), ..SINGLE };
        let spec = CacheSpec {
            memory: block::Size(4 << 20),
            write: block::WriteMode::BackNow,
            ..CacheSpec::default()
        };
        let mut prices = Prices::default();
        prices.ns[lane::Cost::Absorb as usize] = 1000;
        let found = run(load, Speed::Steady, prices, Some(&spec)).expect("nothing is asked");
        let counters = found.counters.expect("there is a cache");
        assert_eq!((found.writes, counters.blocks_absorbed, counters.blocks_dirty), (640, 640, 0));
        assert_eq!(counters.blocks_written + counters.blocks_saved, 640);
        assert!(counters.blocks_written < 640 / 2, "{}", counters.blocks_written);
        assert!(found.took_ns > found.answered_ns + FLUSH_NS, "the drain is inside");
    }

    #[test]
    fn the_same_prices_give_the_same_run() {
        let load = Load { reads: 50, depth: 4, until: Until::Time(SECOND / 10), ..SINGLE };
        let spec = CacheSpec { write: block::WriteMode::BackNow, ..CacheSpec::default() };
        let prices = Prices { ns: [100, 100, 100, 500, 100, 200, 100] };
        let all = [(); 2].map(|()| {
            let found = run(load, Speed::Steady, prices, Some(&spec)).expect("nothing is asked");
            (found.requests, found.took_ns, found.write.max, found.counters)
        });
        assert!(all[0].0 > 1000);
        assert!(all[0] == all[1]);
    }
}
