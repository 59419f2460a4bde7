//! The most recent events, to find the cause of a violation.

use crate::change::Change;
use std::collections::VecDeque;

/// Maximum number of entries.
const ENTRIES_MAX: usize = 200_000;
/// Maximum number of entries shown for a sector.
const SHOWN_MAX: usize = 40;

/// An event.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Sent {
        change: Change,
        zeros: bool,
    },
    Answered {
        change: Change,
        well: bool,
    },
    /// A flush was answered; changes up to this number had been sent by then.
    Flushed {
        number: u64,
    },
    Event(String),
}

impl Act {
    fn concerns(&self, sector: u64) -> bool {
        match self {
            Act::Sent { change, .. } | Act::Answered { change, .. } => {
                change.first <= sector && sector < change.first + u64::from(change.count)
            }
            Act::Event(_) => true,
            Act::Flushed { .. } => false,
        }
    }

    fn words(&self) -> String {
        match self {
            Act::Sent { change, zeros } => {
                let what = if *zeros { "zeros" } else { "write" };
                let fua = if change.fua { ", FUA" } else { "" };
                let Change { number, first, count, .. } = change;
                format!("{what} {number} of {count} sectors from {first} sent{fua}")
            }
            Act::Answered { change, well: true } => format!("{} answered", change.number),
            Act::Answered { change, well: false } => format!("{} answered: error", change.number),
            Act::Flushed { number } => format!("flush answered; {number} was the newest change"),
            Act::Event(words) => words.clone(),
        }
    }
}

/// The journal of a volume.
#[derive(Default)]
pub(crate) struct Journal(VecDeque<(u32, Act)>);

impl Journal {
    pub(crate) fn push(&mut self, life: u32, act: Act) {
        if self.0.len() == ENTRIES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((life, act));
    }

    fn shown<'a>(acts: impl DoubleEndedIterator<Item = &'a (u32, Act)>) -> Vec<String> {
        let last = acts.rev().take(SHOWN_MAX);
        let mut lines: Vec<String> =
            last.map(|(life, act)| format!("life {life}: {}", act.words())).collect();
        lines.reverse();
        lines
    }

    /// Returns the events of a sector, oldest first, with the first flush after each change.
    pub(crate) fn of(&self, sector: u64) -> Vec<String> {
        let mut flush_is_news = false;
        let chosen = self.0.iter().filter(|(_, act)| {
            let concerns = act.concerns(sector);
            let is_flush = matches!(act, Act::Flushed { .. });
            let chosen = concerns || (is_flush && flush_is_news);
            flush_is_news =
                (flush_is_news && !is_flush) || matches!(act, Act::Answered { .. } if concerns);
            chosen
        });
        Journal::shown(chosen.collect::<Vec<_>>().into_iter())
    }

    /// Returns the last events, oldest first.
    pub(crate) fn last_events(&self) -> Vec<String> {
        Journal::shown(self.0.iter().filter(|(_, act)| matches!(act, Act::Event(_))))
    }
}
