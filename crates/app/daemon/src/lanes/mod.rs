//! The lanes of a daemon. Its *home* lane, on the thread that started it, manages volumes, fronts
//! and operators, and serves clients; further lanes, each on a thread with its own ring, only serve
//! clients.
//!
//! ```text
//!   home thread                                       further threads
//!   control, signals, listeners, watches
//!          |  Lanes::seat() chooses a lane                 Local: its ring, its exports
//!          +------------- a job in its inbox ------------------>  serves the connection
//! ```
//!
//! Threads share the state that volumes share, and nothing else: every stack, connection and buffer
//! stays on the lane where it was made.

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

/// Pause before another job for a lane whose inbox is full, in nanoseconds.
const FULL_PAUSE_NS: u64 = 1_000_000;

/// Returns the failure of a ring.
pub(crate) fn broken(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("io_uring: {error}; see 'overdrive doctor'"))
}

/// A lane, and the number of its connections.
struct Berth {
    connections: AtomicUsize,
    /// None: the home lane.
    remote: Option<Arc<Remote>>,
}

/// A connection's seat on a lane, until it is dropped.
pub(crate) struct Seat(Arc<Berth>);

impl Seat {
    /// Returns the job queue of its lane, unless that is the home lane.
    pub(crate) fn elsewhere(&self) -> Option<Elsewhere> {
        self.0.remote.clone().map(Elsewhere)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A further lane, which accepts jobs.
pub(crate) struct Elsewhere(Arc<Remote>);

impl Elsewhere {
    /// Posts a job for the lane. A lane that ends, or whose inbox is full, drops it.
    pub(crate) fn post(&self, job: Job) {
        let _ = self.0.jobs.post(job);
    }
}

/// Parts of an operation on several lanes that have not ended.
#[derive(Clone, Default)]
struct Left(Arc<(AtomicUsize, Event)>);

/// One part, until it is dropped.
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
    /// The home lane is the first.
    berths: Vec<Arc<Berth>>,
    ended: Arc<Ended>,
}

impl Lanes {
    /// Serves on this number of threads, including the calling one; `setup` first prepares each of
    /// the others.
    ///
    /// # Errors
    /// A thread or its ring cannot be started, or the setup fails.
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

    /// Returns the number of threads that serve clients.
    pub(crate) fn threads(&self) -> usize {
        self.berths.len()
    }

    /// Returns a seat for one more connection, on the lane with the fewest.
    pub(crate) fn seat(&self) -> Seat {
        let connections = |berth: &&Arc<Berth>| berth.connections.load(Ordering::SeqCst);
        let berth = self.berths.iter().min_by_key(connections).expect("home is always there");
        berth.connections.fetch_add(1, Ordering::SeqCst);
        Seat(berth.clone())
    }

    /// Returns the job queues of the further lanes.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = Elsewhere> {
        self.remotes().cloned().map(Elsewhere)
    }

    /// Removes a volume from the further lanes. When this returns, they have no part of it except
    /// the requests of its clients in progress.
    pub(crate) async fn forget(&self, lane: &Lane, name: &str) {
        let left = Left::default();
        for remote in self.remotes() {
            let (name, part) = (name.to_owned(), left.part());
            let mut job: Job = Box::new(move |local| {
                local.forget(&name);
                let lane = local.ring.lane().clone();
                let ends = async move {
                    // The volume's tasks on this lane have been notified of its end, and end first.
                    lane.rest().await;
                    drop(part);
                };
                // If the lane is full, the part ends immediately.
                let _ = local.ring.lane().spawn(ends);
            });
            while let Err(Refused::Full(again)) = remote.jobs.post(job) {
                job = again;
                lane.sleep_until(lane.now() + FULL_PAUSE_NS).await;
            }
        }
        left.none().await;
    }

    /// Ends the further threads, once no client is left and the volumes' tasks are to end; waits
    /// for them until the deadline on the clock of this lane. A backing that does not answer may
    /// block one of them.
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
