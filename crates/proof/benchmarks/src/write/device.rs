//! The drive under all rows: an 840 EVO made of two delays, without data.
//!
//! One delay cannot have its figures: 44 us a write and 66 K writes per second at depth are 2.9
//! servers. So there are two, and since a delay lets the device below work in parallel, a request
//! takes the longer of the two times:
//!
//! ```text
//!   controller  1 server     15 us a write, 10 us a read
//!   link        520 MB/s      7.9 us a block of 4 KiB
//!   flash       16 servers   36 us a write, 92 us a read, 1.5 ms a flush
//!
//!   alone       7.9 + 36 = 43.9 us a write, 100 us a read; 1 MiB at 511 MB/s
//!   at depth    1 / 15 us = 66.7 K writes, 1 / 10 us = 100 K reads a second
//! ```
//!
//! Every ideal is computed from measurements of this drive in the same run.

use block::{Block, DelaySpec, Limits, Null, Request, Result, Size, Stack};
use lane::Lane;
use layers::{Delay, DelayShared};
use std::cell::Cell;

/// Slow-down of the drive while it is slow.
pub(crate) const SLOWER: u64 = 4;
/// Time of a flush of the drive, in microseconds.
const FLUSH_US: u64 = 1500;
/// The same in nanoseconds.
pub(crate) const FLUSH_NS: u64 = FLUSH_US * 1000;

/// The drive's behaviour over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speed {
    /// Constant.
    Steady,
    /// Always [`SLOWER`] times slower.
    Slow,
    /// Slower between these two times, in nanoseconds of virtual time.
    Dips(u64, u64),
}

impl Speed {
    /// Returns the slow-down of the drive at this time.
    pub(crate) fn factor(self, now_ns: u64) -> u64 {
        match self {
            Speed::Steady => 1,
            Speed::Slow => SLOWER,
            Speed::Dips(from, until) if (from..until).contains(&now_ns) => SLOWER,
            Speed::Dips(..) => 1,
        }
    }

    /// Returns the time of its next change.
    pub(crate) fn changes_after(self, now_ns: u64) -> Option<u64> {
        match self {
            Speed::Dips(from, until) => [from, until].into_iter().find(|&moment| moment > now_ns),
            _ => None,
        }
    }
}

/// Returns the drive's limits: answered writes may be lost until a flush, and there is no FUA.
pub(crate) fn limits(sectors: u64) -> Limits {
    Limits { flush_needed: true, fua: block::Fua::None, ..Limits::plain(sectors, 0) }
}

/// A null device with a volatile cache.
struct Volatile {
    null: Null,
    limits: Limits,
}

impl Block for Volatile {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        self.null.run(request).await
    }
}

/// Returns a drive of this size for `lane`.
pub(crate) fn drive(lane: &Lane, sectors: u64, speed: Speed) -> Stack {
    match speed {
        Speed::Steady => both(lane, sectors, 1),
        Speed::Slow => both(lane, sectors, SLOWER),
        Speed::Dips(..) => {
            let sides = [both(lane, sectors, 1), both(lane, sectors, SLOWER)];
            let open = Default::default();
            let limits = limits(sectors);
            Stack::new(lane, Changing { lane: lane.clone(), speed, sides, open, limits })
        }
    }
}

fn both(lane: &Lane, sectors: u64, slower: u64) -> Stack {
    let controller =
        DelaySpec { read_us: 10, write_us: 15, flush_us: 0, servers: 1, bandwidth: Size(0) };
    let flash = DelaySpec {
        read_us: 92,
        write_us: 36,
        flush_us: FLUSH_US,
        servers: 16,
        bandwidth: Size(520_000_000),
    };
    let nothing = Volatile { null: Null::new(sectors, 0), limits: limits(sectors) };
    let flash = delay(lane, flash, slower, Stack::new(lane, nothing));
    delay(lane, controller, slower, flash)
}

fn delay(lane: &Lane, spec: DelaySpec, slower: u64, below: Stack) -> Stack {
    let spec = DelaySpec {
        read_us: spec.read_us * slower,
        write_us: spec.write_us * slower,
        flush_us: spec.flush_us * slower,
        bandwidth: Size(spec.bandwidth.0 / slower),
        ..spec
    };
    Stack::new(lane, Delay::attach(DelayShared::new(&spec), lane, below))
}

/// A drive whose speed changes: a normal and a slow one over the same null device. Requests sent to
/// one continue there when the other one's turn comes.
struct Changing {
    lane: Lane,
    speed: Speed,
    sides: [Stack; 2],
    /// Number of unanswered changes of each side.
    open: [Cell<u32>; 2],
    limits: Limits,
}

impl Block for Changing {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let side = usize::from(self.speed.factor(self.lane.now()) > 1);
        if matches!(request, Request::Flush) {
            if self.open[1 - side].get() > 0 {
                self.sides[1 - side].run(Request::Flush).await?;
            }
            return self.sides[side].run(request).await;
        }
        let open = &self.open[side];
        open.set(open.get() + 1);
        let result = self.sides[side].run(request).await;
        open.set(open.get() - 1);
        result
    }
}
