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
//! Threads share only the shared state of volumes: every stack, connection and buffer stays on the
//! lane where it was made.

mod local;
mod thread;

use lane::{Event, Lane, Refused, first};
use local::{EndedThreads, Remote};
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

/// Returns the failure for an error of a ring.
pub(crate) fn ring_failure(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("io_uring: {error}; see 'overdrive doctor'"))
}

/// A lane, and the number of its connections.
struct LaneEntry {
    connections: AtomicUsize,
    /// None: the home lane.
    remote: Option<Arc<Remote>>,
}

/// A connection's seat on a lane, until it is dropped.
pub(crate) struct Seat(Arc<LaneEntry>);

impl Seat {
    /// Returns the job queue of its lane, unless that is the home lane.
    pub(crate) fn further_lane(&self) -> Option<FurtherLane> {
        self.0.remote.clone().map(FurtherLane)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A further lane, which accepts jobs.
pub(crate) struct FurtherLane(Arc<Remote>);

impl FurtherLane {
    /// Posts a job for the lane. A lane that ends, or whose inbox is full, drops it.
    pub(crate) fn post(&self, job: Job) {
        let _ = self.0.jobs.post(job);
    }
}

/// Parts of an operation on several lanes that have not ended.
#[derive(Clone, Default)]
struct PendingParts(Arc<(AtomicUsize, Event)>);

/// One part, until it is dropped.
struct PendingPart(PendingParts);

impl PendingParts {
    fn part(&self) -> PendingPart {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        PendingPart(self.clone())
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

impl Drop for PendingPart {
    fn drop(&mut self) {
        let (count, event) = &*self.0.0;
        count.fetch_sub(1, Ordering::SeqCst);
        event.notify();
    }
}

/// The lanes on which a daemon serves clients.
pub(crate) struct Lanes {
    /// The home lane is the first.
    entries: Vec<Arc<LaneEntry>>,
    ended: Arc<EndedThreads>,
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
        let entry = |remote| Arc::new(LaneEntry { connections: AtomicUsize::new(0), remote });
        let mut lanes = Lanes { entries: vec![entry(None)], ended: Arc::default() };
        for number in 1..count {
            let remote = Arc::new(Remote::default());
            let (setup, ended) = (setup.clone(), lanes.ended.clone());
            Thread { setup, polling, remote: remote.clone(), ended }.start(number)?;
            lanes.entries.push(entry(Some(remote)));
        }
        Ok(Rc::new(lanes))
    }

    fn remotes(&self) -> impl Iterator<Item = &Arc<Remote>> {
        self.entries.iter().filter_map(|entry| entry.remote.as_ref())
    }

    /// Returns the number of threads that serve clients.
    pub(crate) fn threads(&self) -> usize {
        self.entries.len()
    }

    /// Returns a seat for one more connection, on the lane with the fewest.
    pub(crate) fn seat(&self) -> Seat {
        let connections = |entry: &&Arc<LaneEntry>| entry.connections.load(Ordering::SeqCst);
        let entry = self.entries.iter().min_by_key(connections).expect("home is always there");
        entry.connections.fetch_add(1, Ordering::SeqCst);
        Seat(entry.clone())
    }

    /// Returns the job queues of the further lanes.
    pub(crate) fn further_lanes(&self) -> impl Iterator<Item = FurtherLane> {
        self.remotes().cloned().map(FurtherLane)
    }

    /// Runs this on each lane's thread, and waits until all have. A lane that ends does not run it.
    pub(crate) async fn on_each(&self, lane: &Lane, work: Arc<dyn Fn() + Send + Sync>) {
        work();
        let pending = PendingParts::default();
        for remote in self.remotes() {
            let (work, part) = (work.clone(), pending.part());
            let mut job: Job = Box::new(move |_| {
                work();
                drop(part);
            });
            while let Err(Refused::Full(again)) = remote.jobs.post(job) {
                job = again;
                lane.sleep_until(lane.now() + FULL_PAUSE_NS).await;
            }
        }
        pending.none().await;
    }

    /// Removes a volume from the further lanes. When this returns, only requests in progress of its
    /// clients still use it there.
    pub(crate) async fn forget(&self, lane: &Lane, name: &str) {
        let pending = PendingParts::default();
        for remote in self.remotes() {
            let (name, part) = (name.to_owned(), pending.part());
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
        pending.none().await;
    }

    /// Ends the further threads, after clients and volumes have ended. Waits for the threads until
    /// the deadline on the clock of this lane, because a backing that does not answer may block
    /// one of them.
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
