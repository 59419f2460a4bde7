//! Lanes' threads, as the live loop drives them: each sleeps whenever it has nothing to do. And their clock.

use lane::{Bell, Lane};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock goes on to a deadline that is no further away than this. What waits for longer is never woken by it: that
/// would hide that a wake-up was lost.
const SOON_NS: u64 = 1_000_000_000;

/// A lane, as the clock sees it.
#[derive(Clone, Copy, Default, Debug)]
struct Sleeper {
    /// When it wants to be woken, if it sleeps and wants to be.
    deadline_ns: Option<u64>,
    is_asleep: bool,
    /// It has been rung, perhaps before it fell asleep.
    is_rung: bool,
}

/// The clock of some lanes, and what rings them. It stands still while any of them has something to do.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// The explorer does not see this: what time it is orders nothing.
    now_ns: AtomicU64,
    lanes: Mutex<Vec<Sleeper>>,
    rung: Condvar,
}

/// Lets the time pass, if all are asleep: up to the earliest deadline, whose lane is rung. Returns what time it is then.
fn pass(lanes: &mut [Sleeper], now_ns: u64) -> Option<u64> {
    if lanes.iter().any(|sleeper| !sleeper.is_asleep) {
        return None;
    }
    let deadlines = lanes.iter_mut().filter(|sleeper| sleeper.deadline_ns.is_some());
    let earliest = deadlines.min_by_key(|sleeper| sleeper.deadline_ns)?;
    let deadline_ns = earliest.deadline_ns.filter(|deadline| *deadline <= now_ns + SOON_NS)?;
    (earliest.is_rung, earliest.is_asleep) = (true, false);
    Some(deadline_ns.max(now_ns))
}

impl Clock {
    /// A clock of so many lanes.
    pub fn new(lanes: usize) -> Clock {
        let lanes = Mutex::new(vec![Sleeper::default(); lanes]);
        Clock(Arc::new(Parts { now_ns: AtomicU64::new(0), lanes, rung: Condvar::new() }))
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Sleeper>> {
        self.0.lanes.lock().expect("nothing panics under it")
    }

    fn now(&self) -> u64 {
        self.0.now_ns.load(Ordering::Relaxed)
    }

    fn pass(&self, lanes: &mut [Sleeper]) {
        if let Some(now_ns) = pass(lanes, self.now()) {
            self.0.now_ns.store(now_ns, Ordering::Relaxed);
            self.0.rung.notify_all();
        }
    }

    /// Sleeps until the lane is rung, or its deadline has come.
    fn sleep(&self, lane: usize, deadline_ns: Option<u64>) {
        let mut lanes = self.lanes();
        let is_rung = lanes[lane].is_rung;
        lanes[lane] = Sleeper { deadline_ns, is_asleep: !is_rung, is_rung };
        self.pass(&mut lanes);
        let woken = self.0.rung.wait_while(lanes, |lanes| !lanes[lane].is_rung);
        woken.expect("nothing panics under it")[lane] = Sleeper::default();
    }

    /// The lane has ended: the others wait for it no more.
    fn leave(&self, lane: usize) {
        let mut lanes = self.lanes();
        lanes[lane] = Sleeper { is_asleep: true, ..Sleeper::default() };
        self.pass(&mut lanes);
    }
}

/// Rings one lane of a clock.
struct Alarm {
    clock: Clock,
    lane: usize,
}

impl Bell for Alarm {
    fn ring(&self) {
        let mut lanes = self.clock.lanes();
        (lanes[self.lane].is_rung, lanes[self.lane].is_asleep) = (true, false);
        drop(lanes);
        self.clock.0.rung.notify_all();
    }
}

/// Drives a lane, the one with this number of the clock's, on this thread until it has no task left.
pub fn drive(lane: &Lane, clock: &Clock, number: usize) {
    lane.set_bell(Arc::new(Alarm { clock: clock.clone(), lane: number }));
    while lane.tasks() > 0 {
        lane.set_now(clock.now());
        lane.fire_timers();
        while lane.step() {}
        if lane.tasks() > 0 && lane.park() {
            clock.sleep(number, lane.next_deadline());
        }
        lane.unpark();
    }
    clock.leave(number);
}
