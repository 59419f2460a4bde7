//! Finds the volume that `clear-error` acts on: one that is served, or the memory that a holder
//! retains for one that is not.

use super::{Target, call_roll, find};
use daemon::control::pause;
use daemon::control::words::{Row, State};
use daemon::runtime_directory;
use holder::{Keeper, Status};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest wait for a process that is just ending.
const ENDING: Duration = Duration::from_secs(10);

pub(super) enum ClearTarget {
    Served(Box<Target>),
    Orphan(Status),
}

/// Result of one search.
enum Search {
    Is(ClearTarget),
    /// Its process is about to end, and the volume can be acted on afterwards. The failure is used
    /// if that takes too long.
    Ending(Failure),
}

/// Returns the requested volume, served or orphaned. Discarded data cannot be restored: if the name
/// is ambiguous, or a process does not answer, no volume is returned. Waits for a process that is
/// just ending, as after a `detach`.
pub(super) fn find_target(
    control: Option<&PathBuf>,
    name: Option<&str>,
) -> Result<ClearTarget, Failure> {
    if control.is_some() {
        return find(control, name).map(|target| ClearTarget::Served(Box::new(target)));
    }
    #[allow(clippy::disallowed_methods, reason = "a command, without a lane")]
    let start = Instant::now();
    loop {
        match search(name)? {
            Search::Is(target) => return Ok(target),
            Search::Ending(failure) if start.elapsed() > ENDING => return Err(failure),
            Search::Ending(_) => pause(),
        }
    }
}

fn search(name: Option<&str>) -> Result<Search, Failure> {
    let daemons = call_roll(&runtime_directory());
    if let Some(silent) = daemons.silent.first() {
        return Err(silent.failure());
    }
    let holders = Keeper::roll(&runtime_directory()).unwrap_or_default();
    let is_named = |volume: &str| name.is_none_or(|name| name == volume);
    let rows = daemons.answered.into_iter().flat_map(|(_, rows)| rows);
    let served: Vec<Row> = rows.filter(|row| is_named(&row.name)).collect();
    let known = holders.answered.into_iter().filter(|status| is_known_as(status, name));
    let (mut orphans, owned): (Vec<Status>, Vec<Status>) =
        known.partition(|status| status.is_orphaned());
    match (&served[..], orphans.len()) {
        ([], 1) => Ok(Search::Is(ClearTarget::Orphan(orphans.remove(0)))),
        ([row], 0) if row.state == State::Ending => Ok(Search::Ending(ending(&row.name, row.pid))),
        ([], 0) => match (owned.first(), holders.silent.first()) {
            (Some(status), _) => {
                let pid = status.owner_pid.unwrap_or(0).unsigned_abs();
                Ok(Search::Ending(ending(&status.volume, pid)))
            }
            (None, Some(silent)) => Err(silent_holder(silent)),
            (None, None) => served_by_name(name),
        },
        (_, 0) => served_by_name(name),
        _ => Err(ambiguous(&served, &orphans)),
    }
}

/// Whether a holder's volume has this name: its name, its backing as it was written, or its key.
fn is_known_as(status: &Status, name: Option<&str>) -> bool {
    let names = [&status.volume, &status.backing, &status.key];
    name.is_none_or(|name| names.into_iter().chain(&status.path).any(|known| known == name))
}

fn served_by_name(name: Option<&str>) -> Result<Search, Failure> {
    find(None, name).map(|target| Search::Is(ClearTarget::Served(Box::new(target))))
}

fn ending(name: &str, pid: u32) -> Failure {
    let message = format!(
        "{name}: process {pid} no longer serves it but still has it open; wait until the process \
         ends, or end it"
    );
    Failure::new(Exit::Busy, message)
}

/// Returns the failure of a command that requires a holder which does not answer.
pub(super) fn silent_holder(silent: &holder::Silent) -> Failure {
    let pid = silent.pid.map_or("with an unknown number".to_owned(), |pid| pid.to_string());
    let message = format!(
        "the process {pid} (od-holder), which retains the volume with the backing {}, does not \
         answer: it is stopped ('kill -CONT {pid}' continues it)",
        silent.key
    );
    Failure::new(Exit::NoDaemon, message)
}

fn ambiguous(served: &[Row], orphans: &[Status]) -> Failure {
    let served = served.iter().map(|row| format!("{} (served, {})", row.name, row.backing));
    let place = |one: &Status| one.path.clone().unwrap_or_else(|| one.backing.clone());
    let orphans = orphans.iter().map(|one| format!("{} (orphaned, {})", one.volume, place(one)));
    let all: Vec<String> = served.chain(orphans).collect();
    let message = format!(
        "several volumes match: {}; name one, an orphan also by its backing as it is written here",
        all.join(", ")
    );
    Failure::new(Exit::Usage, message)
}
