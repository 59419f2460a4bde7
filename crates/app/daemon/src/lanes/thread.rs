//! The thread of a further lane.

use super::broken;
use super::local::{Ended, Local, Remote};
use export::Export;
use lane::Lane;
use ring::{Polling, Ring};
use stack::{Exit, Failure};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Longest time that the tasks of a lane may take to end after its clients and volumes, in
/// nanoseconds.
const FAREWELL_NS: u64 = 1_000_000_000;
/// Time between two checks for their end.
const PAUSE_NS: u64 = 5_000_000;

/// Makes the exports that a lane serves, before any other task runs there.
pub(crate) type Setup = dyn Fn(&Ring) -> Result<Vec<Export>, Failure> + Send + Sync;

/// A thread to be started: its setup, and its interface to others.
pub(super) struct Thread {
    pub(super) setup: Arc<Setup>,
    pub(super) polling: Polling,
    pub(super) remote: Arc<Remote>,
    pub(super) ended: Arc<Ended>,
}

impl Thread {
    /// Starts the thread, and waits until it serves.
    ///
    /// # Errors
    /// It cannot be started; its ring cannot be created, or the setup fails.
    pub(super) fn start(self, number: usize) -> Result<(), Failure> {
        let (ready, receiver) = channel();
        let thread = std::thread::Builder::new().name(format!("lane-{number}"));
        let started = thread.spawn(move || {
            let ended = self.ended.clone();
            if let Err(failure) = self.run(&ready) {
                let _ = ready.send(Err(failure));
            }
            ended.note();
        });
        started.map_err(|error| {
            Failure::new(Exit::Io, format!("--threads: a thread cannot be started: {error}"))
        })?;
        let gone = Failure::new(Exit::Io, "--threads: a thread has ended");
        receiver.recv().unwrap_or(Err(gone))
    }

    /// Serves until the inbox is closed and all tasks have ended. Once it serves, a failure ends
    /// the process.
    fn run(self, ready: &Sender<Result<(), Failure>>) -> Result<(), Failure> {
        let lane = Lane::new();
        let ring = Ring::new(&lane).map_err(broken)?;
        ring.set_polling(self.polling);
        let local = Local::new(&ring, (self.setup)(&ring)?);
        drop(self.setup);
        let _ = ready.send(Ok(()));
        let remote = self.remote.clone();
        let serving = async move {
            while let Some(job) = remote.jobs.next().await {
                job(&local);
            }
            let lane = local.ring.lane().clone();
            drop(local);
            farewell(&lane).await;
        };
        if let Err(error) = ring.block_on(serving) {
            fail(&broken(error));
        }
        lane.abandon();
        Ok(())
    }
}

/// Waits until no other task is left, or until the time limit.
async fn farewell(lane: &Lane) {
    let deadline_ns = lane.now() + FAREWELL_NS;
    while lane.tasks() > 1 && lane.now() < deadline_ns {
        lane.sleep_until(lane.now() + PAUSE_NS).await;
    }
}

/// Ends the process: a lane whose ring has failed serves no client any more, and the state of its
/// requests in flight is unknown. As after a kill, dirty data stays retained.
fn fail(failure: &Failure) -> ! {
    crate::complain!("overdrive: {failure}");
    std::process::exit(Exit::Io as i32)
}
