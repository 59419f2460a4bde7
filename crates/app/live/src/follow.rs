//! The threads that look for daemons, and read their volumes' statistics.

use crate::shared::{Shared, Source};
use crate::volume::Presence;
use daemon::control::Daemon;
use daemon::control::statistics::Statistics;
use daemon::control::words::Row;
use stack::Failure;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of daemons that are followed.
const DAEMONS_MAX: usize = 256;
/// Scans for daemons between two lists of the volumes without one, which takes longer.
const UNSERVED_EVERY: u64 = 3;

/// Looks for daemons, and follows each in a thread, until the fleet ends.
pub(crate) fn scan(shared: &Arc<Shared>, source: &Source) {
    for round in 0_u64.. {
        let begun = shared.now();
        for socket in source.sockets().into_iter().take(DAEMONS_MAX) {
            if process_of(&socket).is_none_or(is_alive) && shared.begin_to_follow(&socket) {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    follow(&shared, &socket);
                    shared.end_to_follow(&socket);
                });
            }
        }
        if round.is_multiple_of(UNSERVED_EVERY) {
            shared.take_unserved(source.unserved());
        }
        if !shared.pause(begun) {
            return;
        }
    }
}

/// Returns the process in the name of a control socket: `PID.sock`.
fn process_of(socket: &Path) -> Option<u32> {
    socket.file_stem()?.to_str()?.parse().ok()
}

/// Whether a process exists and has not ended.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !stat.is_empty() && !state.starts_with(['Z', 'X'])
}

/// Reads the statistics of a daemon's volumes until the daemon or the fleet ends.
fn follow(shared: &Shared, socket: &Path) {
    let mut connection = None;
    let mut is_known = false;
    loop {
        let begun = shared.now();
        match read(&mut connection, socket) {
            Ok(rows) => {
                is_known = true;
                shared.take(socket, rows);
            }
            Err(failure) => {
                connection = None;
                let is_alive = process_of(socket).is_some_and(is_alive) && socket.exists();
                match is_alive {
                    true => shared.mark(socket, &Presence::Silent(sentence(&failure))),
                    false if is_known => return shared.mark(socket, &Presence::Ended),
                    false => return,
                }
            }
        }
        if !shared.pause(begun) {
            return;
        }
    }
}

/// Returns a message as a sentence.
fn sentence(failure: &Failure) -> String {
    let text = failure.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str().trim_end_matches('.'))
}

/// Reads all volumes of a daemon, over a connection that stays open. A volume that was detached
/// meanwhile has no statistics.
fn read(
    connection: &mut Option<Daemon>,
    socket: &Path,
) -> Result<Vec<(Row, Option<Statistics>)>, Failure> {
    let daemon = match connection {
        Some(daemon) => daemon,
        None => connection.insert(Daemon::connect(socket)?),
    };
    let rows = daemon.rows()?;
    let with_stats = rows.into_iter().map(|row| {
        let stats = daemon.statistics(&row.name).ok();
        (row, stats)
    });
    Ok(with_stats.collect())
}
