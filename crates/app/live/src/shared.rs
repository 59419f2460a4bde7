//! State shared by the threads that follow daemons.

use crate::volume::{Presence, Volume};
use daemon::control::statistics::Statistics;
use daemon::control::words::Row;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a volume stays in the list after its daemon has ended.
const ENDED_TIME: Duration = Duration::from_secs(600);
/// Maximum number of volumes whose daemons have ended.
const ENDED_MAX: usize = 64;

/// A volume without a daemon: its row, and a sentence with the reason and the way out.
pub type Unserved = (Row, String);

/// The daemons to follow.
pub enum Source {
    /// All daemons of this user, whose control sockets are in `daemons` of this runtime directory,
    /// and the volumes that this function lists as unserved.
    All(PathBuf, Box<dyn Fn() -> Vec<Unserved> + Send + Sync>),
    /// The daemon at this control socket.
    One(PathBuf),
}

impl Source {
    /// Returns the control sockets.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        match self {
            Source::One(path) => vec![path.clone()],
            Source::All(runtime, _) => {
                let found = std::fs::read_dir(runtime.join("daemons")).into_iter().flatten();
                let paths = found.flatten().map(|entry| entry.path());
                paths.filter(|path| path.extension().is_some_and(|it| it == "sock")).collect()
            }
        }
    }

    pub(crate) fn unserved(&self) -> Vec<Unserved> {
        match self {
            Source::One(_) => Vec::new(),
            Source::All(_, list) => list(),
        }
    }
}

/// State of all volumes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) volumes: Vec<Volume>,
    pub(crate) followed: BTreeSet<PathBuf>,
    /// Number of complete scans for daemons.
    pub(crate) scans: u64,
    pub(crate) number: u64,
    pub(crate) has_ended: bool,
    pub(crate) pace: Duration,
}

/// State shared by the threads.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Signals a change.
    pub(crate) changed: Condvar,
    /// Signals a new pace, or the end.
    pub(crate) paced: Condvar,
    begun: Instant,
}

impl Shared {
    pub(crate) fn new(pace: Duration) -> Shared {
        #[allow(clippy::disallowed_methods, reason = "a command, without a lane")]
        let begun = Instant::now();
        let state = Mutex::new(State { pace, ..State::default() });
        Shared { state, changed: Condvar::new(), paced: Condvar::new(), begun }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.number += 1;
        self.changed.notify_all();
    }

    /// Waits until the next reading is due. False: the fleet has ended.
    pub(crate) fn pause(&self, begun: Duration) -> bool {
        let mut state = self.lock();
        loop {
            let left = (begun + state.pace).saturating_sub(self.now());
            if state.has_ended || left.is_zero() {
                return !state.has_ended;
            }
            state = match self.paced.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Notes that a thread follows this daemon. False: one does already.
    pub(crate) fn begin_to_follow(&self, socket: &Path) -> bool {
        self.lock().followed.insert(socket.to_owned())
    }

    /// Notes that no thread follows this daemon any more.
    pub(crate) fn end_to_follow(&self, socket: &Path) {
        self.change(|state| {
            state.followed.remove(socket);
        });
    }

    /// Takes the answers of a daemon: all its volumes.
    pub(crate) fn take(&self, socket: &Path, rows: Vec<(Row, Option<Statistics>)>) {
        let now = self.now();
        self.change(|state| {
            // A volume that was detached is not listed any more.
            let is_left = |volume: &Volume| {
                volume.socket != socket || rows.iter().any(|(row, _)| row.name == volume.row.name)
            };
            state.volumes.retain(is_left);
            for (row, stats) in rows {
                let continued = state.volumes.iter().position(|volume| {
                    let is_absent =
                        matches!(volume.presence, Presence::Ended | Presence::Unserved(_));
                    volume.row.name == row.name && (volume.socket == socket || is_absent)
                });
                let index = continued.unwrap_or_else(|| {
                    state.volumes.push(Volume::new(row.clone(), socket.to_owned(), now));
                    state.volumes.len() - 1
                });
                state.volumes[index].socket = socket.to_owned();
                state.volumes[index].update(row, stats, now);
            }
        });
    }

    /// Marks all volumes of a daemon.
    pub(crate) fn mark(&self, socket: &Path, presence: &Presence) {
        let now = self.now();
        self.change(|state| {
            let own = state.volumes.iter_mut().filter(|volume| volume.socket == socket);
            own.for_each(|volume| volume.mark(presence.clone()));
            state.forget_ended(now);
        });
    }

    /// Takes the complete list of volumes without a daemon.
    pub(crate) fn take_unserved(&self, unserved: Vec<Unserved>) {
        let now = self.now();
        self.change(|state| {
            state.scans += 1;
            state.forget_ended(now);
            let is_listed = |name: &str| unserved.iter().any(|(row, _)| row.name == name);
            state.volumes.retain(|volume| {
                !matches!(volume.presence, Presence::Unserved(_)) || is_listed(&volume.row.name)
            });
            for (row, why) in unserved {
                let known = state.volumes.iter_mut().find(|volume| volume.row.name == row.name);
                match known {
                    // It was started again since it was listed.
                    Some(volume) if volume.presence == Presence::Answering => {}
                    Some(volume) => {
                        volume.row = row;
                        volume.mark(Presence::Unserved(why));
                    }
                    None => {
                        let mut volume = Volume::new(row, PathBuf::new(), now);
                        volume.mark(Presence::Unserved(why));
                        state.volumes.push(volume);
                    }
                }
            }
        });
    }
}

impl State {
    /// Removes the volumes whose daemons ended long ago, and the oldest of too many.
    fn forget_ended(&mut self, now: Duration) {
        let has_ended = |volume: &Volume| volume.presence == Presence::Ended;
        self.volumes.retain(|it| !has_ended(it) || now.saturating_sub(it.seen) < ENDED_TIME);
        while self.volumes.iter().filter(|it| has_ended(it)).count() > ENDED_MAX {
            let ended = self.volumes.iter().enumerate().filter(|(_, it)| has_ended(it));
            let oldest = ended.min_by_key(|(_, it)| it.seen).map(|(index, _)| index);
            oldest.map(|index| self.volumes.remove(index));
        }
    }
}
