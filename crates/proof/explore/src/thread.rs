//! Threads of lanes, as the live loop drives them: each sleeps whenever it has nothing to do. And
//! their clock.

use lane::{Bell, Lane};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock advances only to deadlines within this time. It never wakes a task with a later
/// deadline, because that would hide a lost wake-up.
const SOON_NS: u64 = 1_000_000_000;

/// A lane, as the clock sees it.
#[derive(Clone, Copy, Default, Debug)]
struct Sleeper {
    /// Time at which it is to be woken, if it sleeps with a deadline.
    deadline_ns: Option<u64>,
    is_asleep: bool,
    /// Whether it was rung, perhaps before it fell asleep.
    is_rung: bool,
}

/// The clock of some lanes, which also rings them. Time stands still while any lane has something
/// to do.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// Not visible to the explorer: the time orders nothing.
    now_ns: AtomicU64,
    lanes: Mutex<Vec<Sleeper>>,
    rung: Condvar,
}

/// Advances the time if all lanes are asleep: to the earliest deadline, whose lane is rung. Returns
/// the new time.
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
    /// A clock of `lanes` lanes.
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

    /// Sleeps until the lane is rung or its deadline has passed.
    fn sleep(&self, lane: usize, deadline_ns: Option<u64>) {
        let mut lanes = self.lanes();
        let is_rung = lanes[lane].is_rung;
        lanes[lane] = Sleeper { deadline_ns, is_asleep: !is_rung, is_rung };
        self.pass(&mut lanes);
        let woken = self.0.rung.wait_while(lanes, |lanes| !lanes[lane].is_rung);
        woken.expect("nothing panics under it")[lane] = Sleeper::default();
    }

    /// Removes the lane, which has ended, from those that the clock waits for.
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

/// Drives the lane with this number on this thread until it has no task left.
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
