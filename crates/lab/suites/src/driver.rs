//! The driver of another vendor's cache: the processor time that it takes for each request, the
//! writes that it lets through because their stream is long, and that it passes all requests
//! through while the processors are busy.
//!
//! Only the lab has it. It changes nothing of the engine below: it sets the engine's own write mode
//! for each write, and splits writes that are too large for the engine to absorb.

use block::{Extent, Layer, Padding, Request, SECTOR, Stack, WriteMode};
use cache::Shared;
use lane::Lane;
use std::cell::RefCell;
use std::sync::Arc;

/// Cost and rule of a driver, in virtual time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DriverCost {
    /// Time of a request that is answered from memory, except for its blocks, in nanoseconds.
    pub served_ns: u64,
    /// Additional time of a request that goes to the drive, in nanoseconds.
    pub passed_ns: u64,
    /// Processors of the machine.
    pub processors: u32,
    /// Load of other programs, in percent of all processors.
    pub other_load_percent: u32,
    /// Load of all processors above which requests are passed through, in percent.
    pub load_percent_max: u32,
    /// Bytes of a stream of writes behind which the rest of it is let through.
    pub stream_bytes_max: u64,
    /// Bytes up to which a write is absorbed as a whole; a larger one is absorbed in such parts.
    pub part_bytes: u32,
    /// Whether the time of a suite's own flush after a test counts.
    pub counts_final_flush: bool,
}

/// Time between two looks at the load of the processors.
const WINDOW_NS: u64 = 50_000_000;

/// Puts the driver in front of a cache, and starts its rule.
pub(crate) fn attach(
    cost: DriverCost,
    write: WriteMode,
    shared: Arc<Shared>,
    lane: &Lane,
    below: Stack,
) -> Stack {
    let rule = Rule {
        cost,
        write,
        shared,
        lane: lane.clone(),
        mark: (lane.now(), lane.charged()),
        is_busy: false,
        streams: [Stream::default(); STREAMS],
        turn: 0,
    };
    Stack::new(lane, Driver { rule: RefCell::new(rule), lane: lane.clone(), cost, below })
}

/// Streams of writes that are followed at the same time.
const STREAMS: usize = 8;

/// A stream of writes in order.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// The sector behind its last write.
    next: u64,
    /// The sectors of its last write.
    last: u32,
    /// The bytes of all its writes.
    bytes: u64,
    /// The number of the write that continued it last.
    turn: u64,
}

/// The rules: while the processors are busy, nothing is cached; the end of a long stream of writes
/// is let through.
struct Rule {
    cost: DriverCost,
    write: WriteMode,
    shared: Arc<Shared>,
    lane: Lane,
    /// Time, and charged work, at the last look.
    mark: (u64, u64),
    is_busy: bool,
    streams: [Stream; STREAMS],
    /// The number of writes until now.
    turn: u64,
}

impl Rule {
    /// Looks at the load if a window has passed.
    fn look(&mut self) {
        let (now, charged) = (self.lane.now(), self.lane.charged());
        let (then, before) = self.mark;
        if now < then + WINDOW_NS {
            return;
        }
        let own = (charged - before) as f64 / (now - then) as f64;
        let load = 100.0 * own / f64::from(self.cost.processors.max(1))
            + f64::from(self.cost.other_load_percent);
        self.is_busy = load > f64::from(self.cost.load_percent_max);
        self.shared.set_write_mode(if self.is_busy { WriteMode::None } else { self.write });
        self.mark = (now, charged);
    }

    /// Sets the engine's mode for a write. Returns whether the write is absorbed.
    fn decide(&mut self, at: &Extent) -> bool {
        let is_long = self.follow(at) > self.cost.stream_bytes_max;
        let mode = match (self.is_busy, is_long) {
            (true, _) => WriteMode::None,
            (false, true) => WriteMode::Through,
            (false, false) => self.write,
        };
        self.shared.set_write_mode(mode);
        mode == self.write
    }

    /// Adds a write to its stream, and returns the bytes of that. A write that is already its
    /// stream's last one was seen before, when it could not be answered immediately.
    fn follow(&mut self, at: &Extent) -> u64 {
        self.turn += 1;
        let is_last = |stream: &Stream| stream.next == at.end() && stream.last == at.count;
        let known = self.streams.iter().position(|it| it.next == at.first || is_last(it));
        let oldest = || (0..STREAMS).min_by_key(|place| self.streams[*place].turn);
        let place = known.or_else(oldest).expect("there are streams");
        let before = if known.is_some() { self.streams[place] } else { Stream::default() };
        let added = if known.is_some() && is_last(&before) { 0 } else { at.count };
        self.streams[place] = Stream {
            next: at.end(),
            last: at.count,
            bytes: before.bytes + u64::from(added) * SECTOR,
            turn: self.turn,
        };
        self.streams[place].bytes
    }
}

struct Driver {
    rule: RefCell<Rule>,
    lane: Lane,
    cost: DriverCost,
    below: Stack,
}

impl Layer for Driver {
    fn lower(&self) -> &Stack {
        &self.below
    }

    fn try_now(&self, request: &Request) -> Option<block::Result> {
        if let Request::Write { at, .. } = request {
            self.rule.borrow_mut().decide(at);
        }
        let answer = self.below.try_now(request);
        if answer.is_some() {
            self.lane.charge_ns(self.cost.served_ns);
            self.rule.borrow_mut().look();
        }
        answer
    }

    async fn serve(&self, request: Request, padding: Padding) -> block::Result {
        self.lane.charge_ns(self.cost.passed_ns);
        self.rule.borrow_mut().look();
        let Request::Write { at, from, fua: false } = &request else {
            return self.below.serve(request, padding).await;
        };
        let part_sectors = u32::try_from(u64::from(self.cost.part_bytes) / SECTOR).unwrap_or(1);
        let is_absorbed = self.rule.borrow_mut().decide(at);
        if !is_absorbed || at.count <= part_sectors {
            return self.below.serve(request, padding).await;
        }
        let mut done = 0;
        while done < at.count {
            let count = part_sectors.max(1).min(at.count - done);
            let part = Extent::new(at.first + u64::from(done), count);
            let from = from.part(done, count);
            let write = Request::Write { at: part, from, fua: false };
            self.below.serve(write, padding).await?;
            done += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{CacheSpec, Size};

    fn rule(stream_bytes_max: u64) -> Rule {
        let mut world = lane::World::timed(lane::Prices::default());
        let lane = world.lane();
        let below = Stack::new(&lane, block::Null::new(1 << 30, 512));
        let spec = CacheSpec { memory: Size(4 << 20), ..CacheSpec::default() };
        let cache = crate::in_front::cache(&spec, &lane, below).expect("a cache");
        let cost = DriverCost { stream_bytes_max, ..crate::Rapid::new().driver };
        Rule {
            cost,
            write: WriteMode::BackNow,
            shared: cache.shared().clone(),
            lane: lane.clone(),
            mark: (0, 0),
            is_busy: false,
            streams: [Stream::default(); STREAMS],
            turn: 0,
        }
    }

    #[test]
    fn the_end_of_a_long_stream_of_writes_is_let_through() {
        let mut rule = rule(1 << 20);
        let mut absorbed = |first: u64| rule.decide(&Extent::new(first, 512));
        for write in 0..4 {
            let first = 9_000_000 + write * 512;
            assert!(absorbed(first), "the first MiB: {write}");
            assert!(absorbed(first), "asked again: {write}");
            assert!(absorbed(1_000_000 * (write + 1)), "other writes between");
        }
        assert!(!absorbed(9_002_048), "the stream is longer");
        assert!(absorbed(500_000), "another write is no part of it");
        assert!(!absorbed(9_002_560));
        rule.is_busy = true;
        assert!(!rule.decide(&Extent::new(77, 8)), "nothing is absorbed on a busy machine");
    }
}
