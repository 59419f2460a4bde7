//! Volumes that no daemon serves: their users wait, or a holder retains their unwritten data.

use crate::control::words::State;
use crate::device::waiting_volumes;
use holder::Keeper;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Time for which a search is valid, in nanoseconds: it connects to every holder.
const VALID_NS: u64 = 10_000_000_000;
/// Maximum number of volumes of a search, so that the labels of a scrape are bounded.
const VOLUMES_MAX: usize = 256;

/// A volume that no daemon serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnservedVolume {
    pub(crate) name: String,
    /// [`State::Orphaned`] or [`State::Waiting`].
    pub(crate) state: State,
}

/// The last search, and its time.
pub(crate) struct Unserved {
    runtime: PathBuf,
    last: Mutex<Option<(u64, Vec<UnservedVolume>)>>,
}

impl Unserved {
    pub(crate) fn of(runtime: PathBuf) -> Unserved {
        Unserved { runtime, last: Mutex::new(None) }
    }

    /// Returns the runtime directory of this user.
    pub(crate) fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Returns such volumes of this user, except those of these names, which are served. May wait
    /// for holders that do not answer: not for a lane.
    pub(crate) fn at(&self, now_ns: u64, served: &[String]) -> Vec<UnservedVolume> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid = |at: u64| now_ns.saturating_sub(at) < VALID_NS;
        let found = match last.take().filter(|(at, _)| is_valid(*at)) {
            Some(known) => last.insert(known),
            None => last.insert((now_ns, self.search())),
        };
        found.1.iter().filter(|one| !served.contains(&one.name)).cloned().collect()
    }

    fn search(&self) -> Vec<UnservedVolume> {
        let waiting = waiting_volumes(&self.runtime).into_iter();
        let waiting = waiting.map(|one| (one.volume, State::Waiting));
        let holders = Keeper::roll(&self.runtime).unwrap_or_default();
        let has_data = |held: &holder::Status| held.is_orphaned() && !held.has_only_clean;
        let orphans = holders.answered.into_iter().filter(has_data);
        let orphans = orphans.map(|held| (held.volume, State::Orphaned));
        let mut all: Vec<UnservedVolume> = Vec::new();
        for (name, state) in waiting.chain(orphans).take(VOLUMES_MAX) {
            // A waiting volume's data is usually in a holder, too.
            if !all.iter().any(|known| known.name == name) {
                all.push(UnservedVolume { name, state });
            }
        }
        all
    }
}
