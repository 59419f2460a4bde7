//! All volumes, and the threads that follow their daemons.

use crate::follow;
use crate::shared::{Shared, Source, State};
use crate::volume::{Presence, Volume};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time without an answer after which a daemon counts as silent, in addition to two intervals.
const SILENCE: Duration = Duration::from_secs(2);

/// The volumes at one time.
#[derive(Clone)]
pub struct Snapshot {
    /// The volumes, by name.
    pub volumes: Vec<Volume>,
    /// Grows with each change.
    pub number: u64,
    /// Time since the fleet was started.
    pub now: Duration,
}

impl Snapshot {
    /// Returns the volume of this name; of several, one whose daemon answers.
    pub fn find(&self, name: &str) -> Option<&Volume> {
        let named = || self.volumes.iter().filter(|volume| volume.row.name == name);
        named().find(|volume| volume.presence == Presence::Answering).or_else(|| named().next())
    }
}

/// All volumes. The threads end soon after this is dropped.
pub struct Fleet(Arc<Shared>);

impl Fleet {
    /// Starts to follow daemons, with this time between two readings.
    pub fn start(source: Source, pace: Duration) -> Fleet {
        let shared = Arc::new(Shared::new(pace));
        let scanner = shared.clone();
        std::thread::spawn(move || follow::scan(&scanner, &source));
        Fleet(shared)
    }

    /// Changes the time between two readings.
    pub fn set_pace(&self, pace: Duration) {
        let mut state = self.0.lock();
        if state.pace != pace {
            state.pace = pace;
            self.0.paced.notify_all();
        }
    }

    /// Returns the volumes as they are now.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.0.now();
        let state = self.0.lock();
        let mut volumes = state.volumes.clone();
        let limit = 2 * state.pace + SILENCE;
        for volume in &mut volumes {
            if volume.presence == Presence::Answering && now.saturating_sub(volume.seen) > limit {
                let why = "It may be stopped, or waits for its backing.".to_owned();
                volume.mark(Presence::Silent(why));
            }
        }
        volumes.sort_by(|one, two| one.row.name.cmp(&two.row.name));
        Snapshot { volumes, number: state.number, now }
    }

    /// Waits for a change after the one with this number, at most for this time. Returns the number
    /// of the latest change.
    pub fn wait(&self, number: u64, time: Duration) -> u64 {
        let state = self.0.lock();
        let waited = self.0.changed.wait_timeout_while(state, time, |state| state.number == number);
        waited.map_or(number, |(state, _)| state.number)
    }

    /// Waits until all daemons that exist now have been found, and each has answered or has not
    /// answered for this time.
    pub fn wait_for_first(&self, time: Duration) {
        let state = self.0.lock();
        let is_incomplete = |state: &mut State| {
            let has_answered =
                |path: &PathBuf| state.volumes.iter().any(|volume| volume.socket == *path);
            state.scans == 0 || !state.followed.iter().all(has_answered)
        };
        let _ = self.0.changed.wait_timeout_while(state, time, is_incomplete);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.paced.notify_all();
    }
}
