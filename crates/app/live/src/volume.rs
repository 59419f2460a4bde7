//! A followed volume.

use crate::interval::{Interval, Rates};
use daemon::control::statistics::Statistics;
use daemon::control::words::{Row, State};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Number of the latest rates that are stored for each volume.
pub const POINTS_MAX: usize = 300;

/// Whether a volume's daemon answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It answers.
    Answering,
    /// Its process exists and does not answer; the sentence has the reason.
    Silent(String),
    /// It has ended.
    Ended,
    /// No daemon serves the volume; a holder or the kernel waits for one. The sentence has the
    /// reason and the way out.
    Unserved(String),
}

/// A volume with its latest figures.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its row in the list of volumes, with the state that follows from `presence`.
    pub row: Row,
    /// The control socket of its daemon; empty if it has none.
    pub socket: PathBuf,
    /// Whether its daemon answers.
    pub presence: Presence,
    /// Its latest statistics, if its daemon has reported any.
    pub stats: Option<Arc<Statistics>>,
    /// Its rates in the latest intervals, the newest last, and when each was read.
    pub points: VecDeque<(Duration, Rates)>,
    /// When its daemon last answered, on the clock of [`crate::Snapshot::now`].
    pub seen: Duration,
}

impl Volume {
    /// Returns a volume of a daemon that has answered for the first time.
    pub(crate) fn new(row: Row, socket: PathBuf, seen: Duration) -> Volume {
        let (points, presence) = (VecDeque::new(), Presence::Answering);
        Volume { row, socket, presence, stats: None, points, seen }
    }

    /// Returns the rates of the latest interval, if its daemon answers.
    pub fn rates(&self) -> Option<&Rates> {
        let latest = self.points.back().map(|(_, rates)| rates);
        latest.filter(|_| self.presence == Presence::Answering)
    }

    /// Takes an answer of its daemon.
    pub(crate) fn update(&mut self, row: Row, stats: Option<Statistics>, seen: Duration) {
        (self.row, self.presence, self.seen) = (row, Presence::Answering, seen);
        let Some(stats) = stats.map(Arc::new) else { return };
        if let Some(before) = self.stats.replace(stats.clone()) {
            let interval = Interval { before: &before, after: &stats };
            if !interval.is_restarted() {
                self.points.push_back((seen, interval.rates()));
            }
        }
        while self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
    }

    /// Marks it as a volume whose daemon does not answer.
    pub(crate) fn mark(&mut self, presence: Presence) {
        self.row.state = match presence {
            Presence::Answering => self.row.state,
            Presence::Silent(_) | Presence::Ended => State::NoAnswer,
            Presence::Unserved(_) => self.row.state,
        };
        self.presence = presence;
    }

    /// Returns the state in one word.
    pub fn state_word(&self) -> &'static str {
        match self.presence {
            Presence::Ended => "ended",
            _ => self.row.state.word(),
        }
    }

    /// Returns a sentence about a daemon that does not answer. None: it answers.
    pub fn trouble(&self, now: Duration) -> Option<String> {
        let age_s = now.saturating_sub(self.seen).as_secs();
        let pid = self.row.pid;
        match &self.presence {
            Presence::Answering => None,
            Presence::Silent(why) => Some(format!(
                "Its daemon (process {pid}) has not answered for {age_s} s; the figures are from \
                 then. {why}"
            )),
            Presence::Ended => Some(format!(
                "Its daemon (process {pid}) ended {age_s} s ago; the figures are from then. This \
                 page continues when a daemon serves the volume again."
            )),
            Presence::Unserved(why) => Some(why.clone()),
        }
    }
}
