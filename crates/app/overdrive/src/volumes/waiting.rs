//! Requests that take as long as the backing does: progress, and the remaining time.

use super::Target;
use super::stats::time;
use crate::progress::Stages;
use block::Size;
use daemon::control::Daemon;
use daemon::control::words::{Ask, State};
use serde_json::Value;
use stack::Failure;
use std::io::IsTerminal;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Most requests end within this time, and need no progress report.
const FIRST: Duration = Duration::from_secs(2);
/// Time between two lines, without a terminal for a bar.
const LINES: Duration = Duration::from_secs(10);
/// Time between two readings, with a terminal.
const LOOKS: Duration = Duration::from_millis(500);

/// Sends a request, and reports on stderr the amount that is left to be written back until the
/// answer arrives.
///
/// # Errors
/// As [`Daemon::ask`].
pub(crate) fn ask(target: &mut Target, ask: &Ask) -> Result<Value, Failure> {
    let mut answers = ask_all(std::slice::from_mut(target), |_| ask.clone());
    let answer = answers.pop().expect("one target, one answer");
    let was_attached = !target.row.device.is_empty();
    if answer.is_ok() && was_attached && matches!(ask, Ask::Detach { .. }) {
        crate::supervisors::forget_log(&target.row.name);
    }
    answer
}

/// Sends a request to each target in parallel, as [`ask`] does.
pub(super) fn ask_all(
    targets: &mut [Target],
    question: impl Fn(&str) -> Ask,
) -> Vec<Result<Value, Failure>> {
    let looks: Vec<Look> = targets.iter().filter_map(|target| Look::at(target).ok()).collect();
    let (answered, wait) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || Watch { looks }.report_progress(&wait));
        let threads: Vec<_> = targets
            .iter_mut()
            .map(|target| {
                let ask = question(&target.row.name);
                scope.spawn(move || target.daemon.ask(&ask))
            })
            .collect();
        let join = |thread: ScopedJoinHandle<_>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        let answers = threads.into_iter().map(join).collect();
        drop(answered);
        answers
    })
}

/// Progress of a request, read over another connection.
struct Look {
    daemon: Daemon,
    name: String,
    /// The largest amount of dirty data seen, in bytes.
    most: u64,
}

impl Look {
    fn at(target: &Target) -> Result<Look, Failure> {
        let (name, most) = (target.row.name.clone(), target.row.dirty_bytes);
        Ok(Look { daemon: target.daemon.open_another()?, name, most })
    }

    /// Returns the remaining amount, in words, and in bytes. None: its daemon has ended.
    fn words(&mut self) -> Option<(String, u64)> {
        let stats = self.daemon.statistics(&self.name).ok()?;
        let (name, clients) = (&self.name, stats.clients);
        let left = stats.counters.blocks_dirty * 4096;
        self.most = self.most.max(left);
        let words = match left {
            0 if stats.state == State::Ending && clients > 0 => {
                format!("{name}: waits for requests of {clients} clients")
            }
            0 => format!("{name}: waits for the backing's flush"),
            left => format!(
                "{name}: {} are left to be written back, about {}",
                Size(left),
                time(stats.counters.flush_predicted_ns)
            ),
        };
        Some((words, left))
    }
}

/// Watches the progress of all requests.
struct Watch {
    looks: Vec<Look>,
}

impl Watch {
    /// Reports progress, until all requests are answered, or no daemon is left.
    fn report_progress(&mut self, wait: &Receiver<()>) {
        let is_answered = |time| wait.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        if is_answered(FIRST) {
            return;
        }
        let terminal = std::io::stderr().is_terminal();
        let mut bar = Stages::new_at_once();
        while let Some((words, share)) = self.words() {
            match terminal {
                true => bar.set(&words, share),
                false => daemon::tell!("overdrive: {words}"),
            }
            if is_answered(if terminal { LOOKS } else { LINES }) {
                break;
            }
        }
        bar.finish();
    }

    /// Returns the progress of all requests: the words of the one with the most left, and the
    /// completed share.
    fn words(&mut self) -> Option<(String, f64)> {
        let seen: Vec<(String, u64)> = self.looks.iter_mut().filter_map(Look::words).collect();
        let left: u64 = seen.iter().map(|(_, left)| left).sum();
        let most: u64 = self.looks.iter().map(|look| look.most).sum();
        let (words, _) = seen.into_iter().max_by_key(|(_, left)| *left)?;
        Some((words, 1.0 - left as f64 / most.max(1) as f64))
    }
}
