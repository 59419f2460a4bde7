//! The simulated loop: virtual time, one seed, any number of lanes on one thread.

use crate::core::Lane;
use crate::price::Prices;
use crate::random::Random;

/// Drives lanes in virtual time.
///
/// A *timed* world steps the lane that is furthest behind, and charges CPU cost: it measures time.
/// A *chosen* world lets its seed select among all possible next events (which lane, which task, or
/// time passing): it searches for failures. The same seed gives the same run.
pub struct World {
    lanes: Vec<Lane>,
    now_ns: u64,
    random: Option<Random>,
    prices: Option<Prices>,
    steps: u64,
}

impl World {
    /// A world in which all interleavings follow from `seed`.
    pub fn chosen(seed: u64) -> World {
        World {
            lanes: Vec::new(),
            now_ns: 0,
            random: Some(Random::new(seed)),
            prices: None,
            steps: 0,
        }
    }

    /// A world that measures: work costs `prices`, and the lane furthest behind goes first.
    pub fn timed(prices: Prices) -> World {
        World { lanes: Vec::new(), now_ns: 0, random: None, prices: Some(prices), steps: 0 }
    }

    /// Adds a lane to the world.
    pub fn lane(&mut self) -> Lane {
        let lane = Lane::new();
        lane.set_now(self.now_ns);
        lane.set_chooser(self.random.as_mut().map(Random::fork));
        lane.set_prices(self.prices);
        self.lanes.push(lane.clone());
        lane
    }

    /// Time of the world, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now_ns
    }

    /// Number of steps that the world has made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Restarts the world with another seed, on the same lanes, after dropping all tasks.
    pub fn restart(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        for lane in &self.lanes {
            lane.abandon();
            lane.set_chooser(Some(random.fork()));
        }
        self.random = Some(random);
        self.steps = 0;
    }

    /// Makes one step: polls a task, or lets time pass. Returns false if neither is possible any
    /// more.
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        if self.random.is_some() { self.step_chosen() } else { self.step_timed() }
    }

    /// Runs until `done` returns true, or until no step is possible any more. Returns whether
    /// `done` returned true.
    pub fn run_until(&mut self, mut done: impl FnMut() -> bool) -> bool {
        while !done() {
            if !self.step() {
                return done();
            }
        }
        true
    }

    /// Drops all tasks of all lanes: the power is cut, or the process is gone.
    pub fn abandon(&mut self) {
        self.lanes.iter().for_each(Lane::abandon);
    }

    fn step_chosen(&mut self) -> bool {
        let random = self.random.as_mut().expect("a chosen world has a seed");
        let ready = self.lanes.iter().filter(|lane| lane.is_ready()).count();
        let next = self.lanes.iter().filter_map(Lane::next_deadline).min();
        // Time may pass although a task is ready: a completion may overtake any task.
        let passes = ready == 0 || (next.is_some() && random.one_in(4));
        if passes {
            let Some(next) = next else { return false };
            self.now_ns = self.now_ns.max(next);
            for lane in &self.lanes {
                pass(lane, self.now_ns);
                lane.fire_timers();
            }
            return true;
        }
        let chosen = random.below(ready as u64) as usize;
        let mut lanes = self.lanes.iter().filter(|lane| lane.is_ready());
        // A wake-up of a task that has ended leaves nothing to run, but other steps may follow.
        lanes.nth(chosen).map(Lane::step).is_some()
    }

    fn step_timed(&mut self) -> bool {
        let due = |lane: &Lane| {
            if lane.is_ready() {
                return Some(lane.now());
            }
            lane.next_deadline().map(|deadline| deadline.max(lane.now()))
        };
        let next = self.lanes.iter().filter_map(|lane| Some((due(lane)?, lane)));
        let Some((when, lane)) = next.min_by_key(|(when, _)| *when) else {
            return false;
        };
        self.now_ns = self.now_ns.max(when);
        // The time of an idle lane passes too: a wake-up from this step finds it at this time.
        self.lanes.iter().filter(|lane| !lane.is_ready()).for_each(|lane| pass(lane, when));
        pass(lane, when);
        lane.fire_timers();
        lane.step();
        true
    }
}

/// Lets time pass for a lane, which sleeps if it is not ready.
fn pass(lane: &Lane, now_ns: u64) {
    if !lane.is_ready() {
        lane.note_slept(now_ns.saturating_sub(lane.now()));
    }
    lane.set_now(now_ns);
}

impl Drop for World {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Lock};
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines() {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let order = Rc::new(RefCell::new(Vec::new()));
        for delay in [30, 10, 20] {
            let (sleeper, order) = (lane.clone(), order.clone());
            lane.spawn(async move {
                sleeper.sleep_until(delay).await;
                order.borrow_mut().push((delay, sleeper.now()));
            })
            .expect("a slot is free");
        }
        while world.step() {}
        assert_eq!(*order.borrow(), [(10, 10), (20, 20), (30, 30)]);
        assert_eq!(lane.tasks(), 0);
    }

    #[test]
    fn a_lane_sleeps_while_none_of_its_tasks_is_ready() {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let slept = Rc::new(RefCell::new(Vec::new()));
        for (begins, ends) in [(0, 100), (40, 60)] {
            let (sleeper, slept) = (lane.clone(), slept.clone());
            lane.spawn(async move {
                sleeper.sleep_until(begins).await;
                let watch = sleeper.watch_sleep();
                sleeper.sleep_until(ends).await;
                slept.borrow_mut().push(watch.slept_ns());
            })
            .expect("a slot is free");
        }
        while world.step() {}
        assert_eq!(*slept.borrow(), [20, 100]);
        assert!(!lane.is_sleep_watched());
    }

    fn trace_of(seed: u64) -> Vec<u32> {
        let mut world = World::chosen(seed);
        let trace = Rc::new(RefCell::new(Vec::new()));
        for id in 0..4u32 {
            let lane = world.lane();
            let (inner, trace) = (lane.clone(), trace.clone());
            lane.spawn(async move {
                for _ in 0..8 {
                    inner.turn().await;
                    trace.borrow_mut().push(id);
                }
            })
            .expect("a slot is free");
        }
        while world.step() {}
        trace.take()
    }

    #[test]
    fn same_seed_same_trace_and_other_seed_other_trace() {
        assert_eq!(trace_of(7), trace_of(7));
        assert_ne!(trace_of(7), trace_of(8));
    }

    #[test]
    #[should_panic(expected = "two lock sections without a turn")]
    fn the_laboratory_forbids_two_sections_in_one_step() {
        let mut world = World::chosen(1);
        let lane = world.lane();
        lane.spawn(async {
            let lock = Lock::new(0);
            lock.with(|value| *value += 1);
            lock.with(|value| *value += 1);
        })
        .expect("a slot is free");
        while world.step() {}
    }

    #[test]
    fn an_event_between_look_and_wait_is_not_lost() {
        for seed in 0..200 {
            let mut world = World::chosen(seed);
            let (one, two) = (world.lane(), world.lane());
            let shared = Arc::new((Lock::new(false), Event::new()));
            let (theirs, notifier) = (shared.clone(), two.clone());
            two.spawn(async move {
                notifier.turn().await;
                theirs.0.with(|happened| *happened = true);
                theirs.1.notify();
            })
            .expect("a slot is free");
            let waiter = one.clone();
            one.spawn(async move {
                loop {
                    let seen = shared.1.seen();
                    if shared.0.with(|happened| *happened) {
                        return;
                    }
                    waiter.turn().await;
                    shared.1.after(seen).await;
                }
            })
            .expect("a slot is free");
            while world.step() {}
            assert_eq!(one.tasks(), 0, "seed {seed}: the waiter hangs");
        }
    }

    #[test]
    fn of_those_who_wait_one_is_woken_for_each_piece_of_work() {
        for seed in 0..200 {
            let mut world = World::chosen(seed);
            let lanes = [world.lane(), world.lane()];
            // Pieces of work, and the number of searches for one.
            let work = Arc::new((Lock::new((0, 0)), Event::new()));
            for number in 0..6 {
                let (lane, work) = (lanes[number % 2].clone(), work.clone());
                let worker = async move {
                    loop {
                        let seen = work.1.seen();
                        let found = work.0.with(|(pieces, looks)| {
                            *looks += 1;
                            let found = *pieces > 0;
                            *pieces -= i32::from(found);
                            found
                        });
                        lane.turn().await;
                        if !found {
                            work.1.after(seen).await;
                        }
                    }
                };
                lanes[number % 2].spawn(worker).expect("a slot is free");
            }
            while world.step() {}
            assert_eq!(work.0.peek(|now| *now), (0, 6));
            let (giver, given) = (lanes[0].clone(), work.clone());
            let gives = async move {
                for _ in 0..100 {
                    given.0.with(|(pieces, _)| *pieces += 1);
                    given.1.notify_one();
                    giver.turn().await;
                }
            };
            lanes[0].spawn(gives).expect("a slot is free");
            while world.step() {}
            let (left, looks) = work.0.peek(|now| *now);
            assert_eq!(left, 0, "seed {seed}: work is left lying");
            // Each wake-up wakes one task, which finds a piece and searches again. If all were
            // woken, it would be 600.
            assert!(looks < 300, "seed {seed}: {looks} looks");
        }
    }

    #[test]
    fn a_dropped_ticket_keeps_its_memory_until_the_completion() {
        let lane = Lane::new();
        let memory = Arc::new([0u8; 16]);
        let ticket = lane.ticket(Some(memory.clone()));
        let number = ticket.number();
        drop(ticket);
        assert_eq!(Arc::strong_count(&memory), 2);
        lane.complete(number, 0);
        assert_eq!(Arc::strong_count(&memory), 1);
        assert_eq!(lane.tickets_open(), 0);
    }

    #[test]
    fn charged_work_moves_the_clock_of_its_own_lane_only() {
        let mut prices = Prices::default();
        prices.ns[crate::Cost::Hit as usize] = 100;
        let mut world = World::timed(prices);
        let (busy, idle) = (world.lane(), world.lane());
        let worker = busy.clone();
        busy.spawn(async move { worker.charge(crate::Cost::Hit, 3) }).expect("a slot is free");
        while world.step() {}
        assert_eq!((busy.now(), idle.now()), (300, 0));
        assert_eq!((busy.charged(), idle.charged()), (300, 0));
    }
}
