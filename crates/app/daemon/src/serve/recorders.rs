//! The recordings of a daemon. It is replaced, or ends, when their clients have its last requests.

use super::captive::either;
use lane::{Event, Lane};
use std::cell::Cell;
use std::rc::Rc;

/// Longest wait for the clients of recordings, in nanoseconds. They fetch every 50 ms.
const FETCH_NS: u64 = 1_000_000_000;

/// The recordings in progress.
#[derive(Default)]
pub(super) struct Recorders {
    /// Whether no more requests of clients come.
    is_ending: Cell<bool>,
    /// The recordings whose clients may not have all requests.
    waiting: Cell<u32>,
    changed: Event,
}

impl Recorders {
    /// Waits until each client has found nothing left to fetch, but not for long.
    pub(super) async fn are_fetched(&self, lane: &Lane) {
        self.is_ending.set(true);
        let deadline = lane.now() + FETCH_NS;
        loop {
            let seen = self.changed.seen();
            if self.waiting.get() == 0 || lane.now() >= deadline {
                break;
            }
            either(self.changed.after(seen), lane.sleep_until(deadline)).await;
        }
        self.is_ending.set(false);
    }

    /// Counts a recording that begins.
    pub(super) fn begin(self: &Rc<Recorders>) -> Ticket {
        self.waiting.set(self.waiting.get() + 1);
        Ticket { recorders: self.clone(), is_fetched: Cell::new(false) }
    }
}

/// The place of a recording among the others.
pub(super) struct Ticket {
    recorders: Rc<Recorders>,
    is_fetched: Cell<bool>,
}

impl Ticket {
    /// Notes that its client has found nothing to fetch, and so has all requests before.
    pub(super) fn note_empty(&self) {
        if self.recorders.is_ending.get() && !self.is_fetched.replace(true) {
            self.leave();
        }
    }

    fn leave(&self) {
        self.recorders.waiting.set(self.recorders.waiting.get() - 1);
        self.recorders.changed.notify();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_fetched.get() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::{Prices, World};

    #[test]
    fn the_end_waits_for_an_empty_page_of_each_recording_or_its_end_and_not_for_long() {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let recorders = Rc::new(Recorders::default());
        let wait = |world: &mut World, act: &dyn Fn()| {
            let ended = Rc::new(Cell::new(None));
            let (into, on, these) = (ended.clone(), lane.clone(), recorders.clone());
            let begun = lane.now();
            let task = async move {
                these.are_fetched(&on).await;
                into.set(Some(on.now() - begun));
            };
            lane.spawn(task).expect("room");
            while lane.step() {}
            act();
            world.run_until(|| ended.get().is_some());
            ended.get().expect("it ends")
        };
        assert!(wait(&mut world, &|| ()) < FETCH_NS, "there is none");
        let (one, two) = (recorders.begin(), Cell::new(Some(recorders.begin())));
        one.note_empty();
        assert!(wait(&mut world, &|| drop(two.take())) >= FETCH_NS, "one has not fetched since");
        assert!(wait(&mut world, &|| one.note_empty()) < FETCH_NS);
        drop(one);
        assert_eq!(recorders.waiting.get(), 0);
    }
}
