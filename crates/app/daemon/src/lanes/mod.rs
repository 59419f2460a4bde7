//! The lanes of a daemon. Its *home* lane, on the thread that started it, looks after volumes, fronts and operators,
//! and serves clients; further lanes, each on a thread with a ring of its own, only serve clients.
//!
//! ```text
//!   home thread                                       further threads
//!   control, signals, listeners, watches
//!          |  Lanes::seat() chooses a lane                 Local: its ring, its exports
//!          +------------- a job in its inbox ------------------>  serves the connection
//! ```
//!
//! Threads share what volumes share, and nothing else: every stack, connection and buffer stays on the lane where
//! it was made.

mod local;
mod thread;

use lane::{Event, Lane, Refused, first};
use local::{Ended, Remote};
use ring::Polling;
use stack::{Exit, Failure};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thread::Thread;

pub(crate) use local::Job;
pub(crate) use thread::Setup;

/// Before a lane with many jobs is asked again, in nanoseconds.
const FULL_PAUSE_NS: u64 = 1_000_000;

/// The failure of a ring.
pub(crate) fn broken(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("io_uring: {error}; see overdrive doctor"))
}

/// A lane, and how many connections it serves.
struct Berth {
    connections: AtomicUsize,
    /// None: home.
    remote: Option<Arc<Remote>>,
}

/// A connection's place on a lane, until it is dropped.
pub(crate) struct Seat(Arc<Berth>);

impl Seat {
    /// What takes jobs for its lane, if that is not home.
    pub(crate) fn elsewhere(&self) -> Option<Elsewhere> {
        self.0.remote.clone().map(Elsewhere)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A further lane, which takes jobs.
pub(crate) struct Elsewhere(Arc<Remote>);

impl Elsewhere {
    /// Has the job done on the lane. One that ends, or has more jobs waiting than it may, drops it.
    pub(crate) fn post(&self, job: Job) {
        let _ = self.0.jobs.post(job);
    }
}

/// Parts of something on several lanes that are not over.
#[derive(Clone, Default)]
struct Left(Arc<(AtomicUsize, Event)>);

/// One of them, until it is dropped.
struct PartLeft(Left);

impl Left {
    fn part(&self) -> PartLeft {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        PartLeft(self.clone())
    }

    /// Waits until none is left.
    async fn none(&self) {
        loop {
            let seen = self.0.1.seen();
            if self.0.0.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.0.1.after(seen).await;
        }
    }
}

impl Drop for PartLeft {
    fn drop(&mut self) {
        let (count, event) = &*self.0.0;
        count.fetch_sub(1, Ordering::SeqCst);
        event.notify();
    }
}

/// The lanes on which a daemon serves clients.
pub(crate) struct Lanes {
    /// Home is the first.
    berths: Vec<Arc<Berth>>,
    ended: Arc<Ended>,
}

impl Lanes {
    /// Serves on so many threads, this one included; each of the others is set up by this first.
    ///
    /// # Errors
    /// A thread or its ring cannot be had, or it cannot be set up.
    pub(crate) fn start(
        count: usize,
        setup: &Arc<Setup>,
        polling: Polling,
    ) -> Result<Rc<Lanes>, Failure> {
        let berth = |remote| Arc::new(Berth { connections: AtomicUsize::new(0), remote });
        let mut lanes = Lanes { berths: vec![berth(None)], ended: Arc::default() };
        for number in 1..count {
            let remote = Arc::new(Remote::default());
            let (setup, ended) = (setup.clone(), lanes.ended.clone());
            Thread { setup, polling, remote: remote.clone(), ended }.start(number)?;
            lanes.berths.push(berth(Some(remote)));
        }
        Ok(Rc::new(lanes))
    }

    fn remotes(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.berths.iter().filter_map(|berth| berth.remote.as_ref())
    }

    /// How many threads serve clients.
    pub(crate) fn threads(&self) -> usize {
        self.berths.len()
    }

    /// A place for one more connection, on the lane that serves the fewest.
    pub(crate) fn seat(&self) -> Seat {
        let connections = |berth: &&Arc<Berth>| berth.connections.load(Ordering::SeqCst);
        let berth = self.berths.iter().min_by_key(connections).expect("home is always there");
        berth.connections.fetch_add(1, Ordering::SeqCst);
        Seat(berth.clone())
    }

    /// What takes jobs for each of the further lanes.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = Elsewhere> {
        self.remotes().cloned().map(Elsewhere)
    }

    /// Takes a volume off the further lanes. When this ends, they have nothing of it but what its clients have
    /// under way.
    pub(crate) async fn forget(&self, lane: &Lane, name: &str) {
        let left = Left::default();
        for remote in self.remotes() {
            let (name, part) = (name.to_owned(), left.part());
            let mut job: Job = Box::new(move |local| {
                local.forget(&name);
                let lane = local.ring.lane().clone();
                let ends = async move {
                    // The volume's tasks on this lane have heard of its end, and go first.
                    lane.rest().await;
                    drop(part);
                };
                // On a full lane it is over at once.
                let _ = local.ring.lane().spawn(ends);
            });
            while let Err(Refused::Full(again)) = remote.jobs.post(job) {
                job = again;
                lane.sleep_until(lane.now() + FULL_PAUSE_NS).await;
            }
        }
        left.none().await;
    }

    /// Ends the further threads, once no client is left and the volumes' tasks are to end; waits for them until
    /// the deadline on the clock of this lane. A backing that does not answer may keep one.
    pub(crate) async fn end(&self, lane: &Lane, deadline_ns: u64) {
        self.remotes().for_each(|remote| remote.jobs.close());
        loop {
            let seen = self.ended.event.seen();
            let ended = self.ended.count.load(Ordering::SeqCst);
            if ended + 1 == self.threads() || lane.now() >= deadline_ns {
                return;
            }
            first(self.ended.event.after(seen), lane.sleep_until(deadline_ns)).await;
        }
    }
}
