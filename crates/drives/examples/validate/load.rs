//! Load on a modelled drive: a closed loop at a queue depth, in virtual time.

use drives::{Drive, Model, Op, Options, Random, Timed};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const SLOT: u64 = 8;

/// A drive and its time.
pub(crate) struct Bench {
    pub(crate) drive: Drive,
    pub(crate) now: u64,
    pub(crate) sectors: u64,
    pub(crate) random: Random,
}

/// What a run came to.
pub(crate) struct Run {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) ns: u64,
    /// Requests that completed in each second.
    pub(crate) each_second: Vec<u32>,
}

impl Run {
    pub(crate) fn iops(&self) -> f64 {
        self.requests as f64 * 1e9 / self.ns as f64
    }

    pub(crate) fn mb_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.ns as f64
    }

    /// The mean rate from this second on.
    pub(crate) fn iops_from(&self, second: usize) -> f64 {
        let rest = &self.each_second[second.min(self.each_second.len() - 1)..];
        rest.iter().map(|count| f64::from(*count)).sum::<f64>() / rest.len() as f64
    }
}

/// When a run ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Seconds(u64),
    Bytes(u64),
}

impl Bench {
    pub(crate) fn new(name: &str) -> Bench {
        Bench::with(name, &Options::default())
    }

    pub(crate) fn with(name: &str, options: &Options) -> Bench {
        let model = Model::preset(name).unwrap_or_else(|| panic!("{name} is a preset"));
        let drive = model.drive(options).expect("the preset and its options fit");
        let bytes = options.user_bytes.unwrap_or(model.user_bytes());
        Bench { drive, now: 0, sectors: bytes / 4096 * 8, random: Random::new(options.seed) }
    }

    /// Ages a flash drive without time.
    pub(crate) fn fast(self, work: impl FnOnce(&mut drives::Fast)) -> Bench {
        let drive = match self.drive {
            Drive::Flash(flash) => Drive::Flash(Box::new(flash.fast_forward(work))),
            disk @ Drive::Disk(_) => disk,
        };
        Bench { drive, now: 0, ..self }
    }

    pub(crate) fn flash(&self) -> &Timed {
        match &self.drive {
            Drive::Flash(flash) => flash,
            Drive::Disk(_) => panic!("a hard disk has no flash"),
        }
    }

    /// Leaves the drive alone.
    pub(crate) fn rest(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
        self.drive.idle(self.now);
    }

    /// Keeps `depth` requests waiting; `next` makes each.
    pub(crate) fn run(
        &mut self,
        depth: usize,
        until: Until,
        mut next: impl FnMut(&mut Random) -> Op,
    ) -> Run {
        let start = self.now;
        let mut waiting: BinaryHeap<Reverse<u64>> = (0..depth).map(|_| Reverse(start)).collect();
        let mut run = Run { requests: 0, bytes: 0, ns: 0, each_second: vec![0] };
        while let Some(Reverse(now)) = waiting.pop() {
            let over = match until {
                Until::Seconds(seconds) => now >= start + seconds * SECOND,
                Until::Bytes(bytes) => run.bytes >= bytes,
            };
            if over {
                break;
            }
            let op = next(&mut self.random);
            let end = self.drive.submit(now, op);
            waiting.push(Reverse(end));
            run.requests += 1;
            run.bytes += match op {
                Op::Read { count, .. } | Op::Write { count, .. } => u64::from(count) * 512,
                Op::Trim { .. } | Op::Flush => 0,
            };
            self.now = self.now.max(end);
            let second = ((end - start) / SECOND) as usize;
            if second >= run.each_second.len() {
                run.each_second.resize(second + 1, 0);
            }
            run.each_second[second] += 1;
        }
        if let Until::Seconds(seconds) = until {
            run.each_second.truncate(seconds as usize);
        }
        run.ns = self.now - start;
        run
    }

    /// Random requests of 4 KiB over the first `span` bytes.
    pub(crate) fn random(&mut self, write: bool, depth: usize, span: u64, until: Until) -> Run {
        let slots = (span / 4096).min(self.sectors / SLOT) as u32;
        self.run(depth, until, |random| {
            let first = u64::from(random.below(slots)) * SLOT;
            if write { Op::Write { first, count: 8 } } else { Op::Read { first, count: 8 } }
        })
    }

    /// Sequential requests of so many KiB from a sector on, around the end.
    pub(crate) fn sequential(&mut self, write: bool, depth: usize, kib: u32, until: Until) -> Run {
        let (mut at, count, sectors) = (0, kib * 2, self.sectors);
        self.run(depth, until, |_| {
            if at + u64::from(count) > sectors {
                at = 0;
            }
            let first = at;
            at += u64::from(count);
            if write { Op::Write { first, count } } else { Op::Read { first, count } }
        })
    }

    /// Trims everything.
    pub(crate) fn trim_all(&mut self) {
        self.now = self.drive.submit(self.now, Op::Trim { first: 0, count: self.sectors });
    }
}
