//! What takes as long as the backing needs: how far it is, and the time that is left.

use super::Target;
use super::stats::time;
use crate::progress::Stages;
use block::Size;
use daemon::control::Daemon;
use daemon::control::statistics::Statistics;
use daemon::control::words::{Ask, State};
use serde_json::Value;
use stack::Failure;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Most is done by then, and nothing need be said of it.
const FIRST: Duration = Duration::from_secs(2);
/// Between two lines, where there is no terminal that shows a bar.
const LINES: Duration = Duration::from_secs(10);
/// Between two looks, where there is one.
const LOOKS: Duration = Duration::from_millis(500);

/// Asks, and tells on stderr what is left to be written out while the answer is waited for.
///
/// # Errors
/// As [`Daemon::ask`].
pub(crate) fn ask(target: &mut Target, ask: &Ask) -> Result<Value, Failure> {
    let (name, dirty) = (target.row.name.clone(), target.row.dirty_bytes);
    let beside = target.daemon.beside();
    let (answered, wait) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Ok(daemon) = beside {
                Watch { daemon, name, most: dirty }.tell(&wait);
            }
        });
        let result = target.daemon.ask(ask);
        drop(answered);
        result
    })
}

/// Looks how far another connection's question is.
struct Watch {
    daemon: Daemon,
    name: String,
    /// What was dirty at most, in bytes.
    most: u64,
}

impl Watch {
    /// Tells, until that is answered, or the daemon has gone.
    fn tell(&mut self, wait: &Receiver<()>) {
        let is_answered = |time| wait.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        if is_answered(FIRST) {
            return;
        }
        let terminal = std::io::stderr().is_terminal();
        let mut bar = Stages::new_at_once();
        while let Ok(stats) = self.daemon.statistics(&self.name) {
            let (words, share) = self.words(&stats);
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

    /// What is left, in words, and the share that is done.
    fn words(&mut self, stats: &Statistics) -> (String, f64) {
        let (name, clients) = (&self.name, stats.clients);
        let left = stats.counters.blocks_dirty * 4096;
        self.most = self.most.max(left);
        let share = 1.0 - left as f64 / self.most.max(1) as f64;
        let words = match left {
            0 if stats.state == State::Ending && clients > 0 => {
                format!("{name}: waits for what {clients} clients have sent")
            }
            0 => format!("{name}: waits for the backing's flush"),
            left => format!(
                "{name}: {} are left to be written out, about {}",
                Size(left),
                time(stats.counters.flush_predicted_ns)
            ),
        };
        (words, share)
    }
}
