//! A hard disk: seeks, rotation, zones, a cache.

use crate::timed::Op;
use alloc::collections::VecDeque;
use libm::{pow, sqrt};

const SECTOR_BYTES: u64 = 512;

/// The contents of a hard disk's file.
#[derive(Clone, PartialEq, Debug)]
pub struct DiskModel {
    /// Visible size in bytes.
    pub user_bytes: u64,
    /// Revolutions per minute.
    pub turns_per_minute: f64,
    /// Seek to the next track, over a third of the stroke, and over all of it, in milliseconds.
    pub seek_ms: [f64; 3],
    /// Additional seek time of a write, which must settle more accurately, in milliseconds.
    pub write_settle_ms: f64,
    /// The media's rate on the first and the last track, in bytes per second.
    pub media_rate: [f64; 2],
    /// Size of the write cache.
    pub cache_bytes: u64,
    /// The link's rate in bytes per second.
    pub link_rate: f64,
    /// A command's own time in microseconds.
    pub command_us: f64,
    /// With n waiting requests, positioning takes `(1 + n)^-gain` of its time.
    pub queue_gain: f64,
}

impl DiskModel {
    /// Returns the time to move over a share of the stroke: `a + b sqrt(d) + c d` through the three
    /// points.
    fn seek_ns(&self, share: f64) -> f64 {
        if share <= 0.0 {
            return 0.0;
        }
        let [track, average, full] = self.seek_ms;
        let third = 1.0 / 3.0;
        // b sqrt(1/3) + c / 3 = average - track and b + c = full - track.
        let root = ((average - track) - (full - track) * third) / (sqrt(third) - third);
        let linear = full - track - root;
        (track + root * sqrt(share) + linear * share) * 1e6
    }
}

/// A write that is in the cache.
#[derive(Clone, Copy)]
struct Cached {
    first: u64,
    count: u64,
    /// The time when it entered the cache.
    taken: f64,
    /// The time when it will be on the platter, once that is known.
    written: Option<f64>,
}

/// A hard disk in time. Writes are acknowledged when the cache has room. They leave it when no read
/// needs the arm, or when a write needs their room; the more of them wait, the less each costs,
/// because a disk serves the nearest first.
pub struct Disk {
    model: DiskModel,
    sectors: u64,
    /// The time when the arm is free, and its position then.
    free: f64,
    arm: u64,
    link_free: f64,
    /// Waiting reads, by the time when each ends.
    reads: VecDeque<u64>,
    /// Writes in the cache, oldest first: those on their way to the platter come before the others.
    cache: VecDeque<Cached>,
    /// Number of writes on their way.
    leaving: usize,
    cached_bytes: u64,
}

impl Disk {
    /// Returns a disk of this model with this visible size.
    pub fn new(model: &DiskModel, user_bytes: u64) -> Disk {
        Disk {
            model: model.clone(),
            sectors: user_bytes / SECTOR_BYTES,
            free: 0.0,
            arm: 0,
            link_free: 0.0,
            reads: VecDeque::new(),
            cache: VecDeque::new(),
            leaving: 0,
            cached_bytes: 0,
        }
    }

    fn rate(&self, sector: u64) -> f64 {
        let share = sector as f64 / self.sectors as f64;
        let [outer, inner] = self.model.media_rate;
        outer + (inner - outer) * share
    }

    /// Returns the time to position the arm and the platter at a sector, with this number of other
    /// requests waiting.
    fn position(&self, sector: u64, at: f64, waiting: usize) -> f64 {
        if sector == self.arm {
            return 0.0;
        }
        let share = self.arm.abs_diff(sector) as f64 / self.sectors as f64;
        let seek = self.model.seek_ns(share);
        let turn = 60e9 / self.model.turns_per_minute;
        let track = self.rate(sector) * turn / 1e9 / SECTOR_BYTES as f64;
        let angle = |turns: f64| turns - libm::floor(turns);
        let there = angle(sector as f64 / track);
        let now = angle((at + seek) / turn);
        let wait = angle(there - now + 1.0) * turn;
        (seek + wait) * pow(1.0 + waiting as f64, -self.model.queue_gain)
    }

    fn transfer(&self, sector: u64, count: u64) -> f64 {
        (count * SECTOR_BYTES) as f64 / self.rate(sector) * 1e9
    }

    fn link(&mut self, at: f64, count: u64) -> f64 {
        let bytes = (count * SECTOR_BYTES) as f64;
        let time = bytes / self.model.link_rate * 1e9 + self.model.command_us * 1e3;
        self.link_free = self.link_free.max(at) + time;
        self.link_free
    }

    /// Submits a request at `now_ns`, which never decreases from call to call; returns the time of
    /// its completion.
    ///
    /// # Panics
    /// If it reaches beyond the disk's end.
    pub fn submit(&mut self, now_ns: u64, op: Op) -> u64 {
        let end = match op {
            Op::Read { first, count } | Op::Write { first, count } => first + u64::from(count),
            Op::Trim { first, count } => first + count,
            Op::Flush => 0,
        };
        assert!(end <= self.sectors, "a request reaches beyond the disk's end");
        let now = now_ns as f64;
        match op {
            Op::Read { first, count } => self.read(now, first, u64::from(count)),
            Op::Write { first, count } => self.write(now, first, u64::from(count)),
            Op::Trim { .. } => (now + self.model.command_us * 1e3) as u64,
            Op::Flush => {
                self.work_off(now);
                while self.write_one() {}
                self.free.max(now) as u64
            }
        }
    }

    fn read(&mut self, now: f64, first: u64, count: u64) -> u64 {
        self.work_off(now);
        while self.reads.front().is_some_and(|end| *end as f64 <= now) {
            self.reads.pop_front();
        }
        let start = self.free.max(now);
        // The sectors after the last transfer are in the track buffer, which the disk fills on its
        // own.
        let position = self.position(first, start, self.reads.len());
        self.free = start + position + self.transfer(first, count);
        self.arm = first + count;
        let sent = self.link(now, count);
        let end = sent.max(self.free + self.model.command_us * 1e3) as u64;
        self.reads.push_back(end);
        end
    }

    fn write(&mut self, now: f64, first: u64, count: u64) -> u64 {
        self.work_off(now);
        let mut time = self.link(now, count);
        let bytes = count * SECTOR_BYTES;
        // A write larger than the cache passes through it.
        while self.cached_bytes > 0 && self.cached_bytes + bytes > self.model.cache_bytes {
            if self.leaving == 0 {
                self.write_one();
            }
            time = time.max(self.settle_one());
        }
        self.cache.push_back(Cached { first, count, taken: time, written: None });
        self.cached_bytes += bytes;
        if bytes > self.model.cache_bytes {
            self.write_one();
            time = time.max(self.settle_one());
        }
        time as u64
    }

    /// Starts the oldest write that waits in the cache. False: there is none.
    fn write_one(&mut self) -> bool {
        let waiting = self.cache.len() - self.leaving;
        let Some(write) = self.cache.get(self.leaving).copied() else {
            return false;
        };
        let start = self.free.max(write.taken);
        let position = if write.first == self.arm {
            0.0
        } else {
            self.position(write.first, start, waiting - 1) + self.model.write_settle_ms * 1e6
        };
        self.free = start + position + self.transfer(write.first, write.count);
        self.arm = write.first + write.count;
        self.cache[self.leaving].written = Some(self.free);
        self.leaving += 1;
        true
    }

    /// Removes the oldest write on its way from the cache, once it is on the platter; returns when
    /// that is.
    fn settle_one(&mut self) -> f64 {
        let write = self.cache.pop_front().expect("a write is on its way");
        self.leaving -= 1;
        self.cached_bytes -= write.count * SECTOR_BYTES;
        write.written.expect("what is on its way has a time")
    }

    /// Uses the arm's time until `now` for writes, as no read needs it.
    fn work_off(&mut self, now: f64) {
        while self.cache.len() > self.leaving && self.free.max(self.cache[self.leaving].taken) < now
        {
            self.write_one();
        }
        while self.leaving > 0
            && self.cache.front().and_then(|write| write.written).is_some_and(|end| end <= now)
        {
            self.settle_one();
        }
    }

    /// Lets time pass: the disk writes its cache.
    pub fn idle(&mut self, until_ns: u64) {
        self.work_off(until_ns as f64);
    }

    /// Returns the time when the arm will have finished its current work: everything that has left
    /// the cache is then on the platter.
    pub fn settled_ns(&self) -> u64 {
        self.free as u64
    }

    /// Whether any of these sectors waits in the cache and the arm has not started to write it.
    pub fn is_waiting(&self, first: u64, count: u64) -> bool {
        let waiting = self.cache.range(self.leaving..);
        let mut waiting = waiting.map(|write| (write.first, write.first + write.count));
        waiting.any(|(start, end)| start < first + count && first < end)
    }

    /// Cuts the power at a time not before the last request's: writes that wait in the cache are
    /// lost, and the arm returns to the first track.
    pub fn power_cut(&mut self, now_ns: u64) {
        self.free = now_ns as f64;
        self.link_free = now_ns as f64;
        self.arm = 0;
        self.cached_bytes = 0;
        self.leaving = 0;
        self.reads.clear();
        self.cache.clear();
    }

    /// Returns the bytes of writes that a power cut at this time would lose.
    pub fn at_risk_bytes(&self, now_ns: u64) -> u64 {
        let at_risk = |write: &&Cached| write.written.is_none_or(|end| end > now_ns as f64);
        self.cache.iter().filter(at_risk).map(|write| write.count * SECTOR_BYTES).sum()
    }
}
