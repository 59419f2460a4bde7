//! Descriptors of a backing that change while it is served, and their way to its holder.
//!
//! ```text
//!   lane         makes a connection --change--> waits until a holder retains it --> uses it
//!   exchanger            gives the present descriptors to the holder --note_retained--^
//! ```
//!
//! A connection that the holder does not have is used for nothing: after a kill, the next process
//! could not read the answers to its changes, nor flush them.

use lane::atomic::{AtomicBool, AtomicU64, Ordering};
use lane::{Event, Lane, first};

/// Longest time for which a connection waits for the holder. A holder that does not answer must not
/// stop the volume.
const WAIT_NS: u64 = 1_000_000_000;

/// The versions of a backing's descriptors: the present one, and the newest that a holder has.
#[derive(Debug, Default)]
pub struct Retention {
    present: AtomicU64,
    changed: Event,
    retained: AtomicU64,
    exchanged: Event,
    /// Whether an exchanger works. Without one, no connection waits.
    is_served: AtomicBool,
}

impl Retention {
    /// Notes that the descriptors have changed.
    pub(crate) fn change(&self) {
        self.present.fetch_add(1, Ordering::SeqCst);
        self.changed.notify();
    }

    /// Waits until the holder has the present descriptors.
    pub(crate) async fn wait(&self, lane: &Lane) {
        let (version, end_ns) = (self.present(), lane.now() + WAIT_NS);
        loop {
            let seen = self.exchanged.seen();
            let is_served = self.is_served.load(Ordering::SeqCst);
            if !is_served || self.retained() >= version || lane.now() >= end_ns {
                return;
            }
            first(self.exchanged.after(seen), lane.sleep_until(end_ns)).await;
        }
    }

    /// Begins the work of an exchanger, until the result is dropped.
    pub fn serve(&self) -> Exchanger<'_> {
        self.is_served.store(true, Ordering::SeqCst);
        Exchanger(self)
    }

    /// Returns the event of a change of the descriptors.
    pub fn changed(&self) -> &Event {
        &self.changed
    }

    /// Returns the version of the present descriptors. To be called before they are read.
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::SeqCst)
    }

    /// Returns the newest version that a holder has, or has refused.
    pub(crate) fn retained(&self) -> u64 {
        self.retained.load(Ordering::SeqCst)
    }

    /// Notes that the holder has this version, or has refused it.
    pub(crate) fn note_retained(&self, version: u64) {
        self.retained.fetch_max(version, Ordering::SeqCst);
        self.exchanged.notify();
    }
}

/// The work of the task that gives descriptors to the holder.
#[derive(Debug)]
pub struct Exchanger<'a>(&'a Retention);

impl Drop for Exchanger<'_> {
    fn drop(&mut self) {
        self.0.is_served.store(false, Ordering::SeqCst);
        self.0.exchanged.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::World;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Starts a connection that waits for its holder. Returns the time at which it went on.
    fn waits(world: &mut World, retention: &Rc<Retention>) -> (Lane, Rc<Cell<Option<u64>>>) {
        let (lane, done) = (world.lane(), Rc::new(Cell::new(None)));
        let (acting, waiting, mark) = (lane.clone(), retention.clone(), done.clone());
        let task = async move {
            waiting.change();
            waiting.wait(&acting).await;
            mark.set(Some(acting.now()));
        };
        lane.spawn(task).expect("room");
        (lane, done)
    }

    #[test]
    fn a_connection_waits_until_the_holder_has_it() {
        let (mut world, retention) = (World::chosen(1), Rc::new(Retention::default()));
        let (lane, done) = waits(&mut world, &retention);
        let (acting, giving, mark) = (lane.clone(), retention.clone(), done.clone());
        let exchanger = async move {
            let _exchanger = giving.serve();
            giving.changed().after(0).await;
            let version = giving.present();
            acting.sleep_until(1000).await;
            assert_eq!(mark.get(), None, "the holder does not have it");
            giving.note_retained(version);
            acting.sleep_until(2000).await;
        };
        lane.spawn(exchanger).expect("room");
        assert!(world.run_until(|| done.get().is_some()));
        assert!(done.get().is_some_and(|ns| (1000..2000).contains(&ns)));
        world.abandon();
    }

    #[test]
    fn a_holder_that_does_not_answer_stops_no_connection_for_longer_than_its_limit() {
        let (mut world, retention) = (World::chosen(2), Rc::new(Retention::default()));
        let exchanger = retention.serve();
        let (_lane, done) = waits(&mut world, &retention);
        assert!(world.run_until(|| done.get().is_some()));
        assert!(done.get() >= Some(WAIT_NS));
        drop(exchanger);
        let (_lane, done) = waits(&mut world, &retention);
        assert!(world.run_until(|| done.get().is_some()), "no exchanger: no wait");
        assert!(done.get() < Some(2 * WAIT_NS));
        world.abandon();
    }
}
