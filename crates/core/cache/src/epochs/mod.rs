//! The order of epochs (C2), and its handling when the backing fails (C8).
//!
//! One epoch is open; those before it are closed, and become durable one after the other.
//!
//! ```text
//!   durable ... durable | written back | closed, closed, closed | open
//!                         durable + 1                             open
//! ```
//!
//! The first task that needs a commit and finds none in progress leads it; all others wait. In
//! `flush` mode an epoch is closed by the commit that writes it back, so at most one is closed, and
//! flushes that arrive during the commit join the next one. In `ordered` mode a flush closes the
//! open epoch, and a commit takes the oldest closed one. Closing is a walk over the shards, one at
//! a time: a flush during a walk waits for the next walk, because this one may have passed its
//! shard already.
//!
//! ```text
//!   Idle --lead--> Running --durable--> Releasing --released--> Idle
//!                     |
//!                     | an error outlasts retry_time
//!                     v
//!                  Stuck --clear_error--> (Stuck, led again)
//!
//!   Idle, nothing closed --begin_settling--> Settling --settled--> Idle
//!
//!   Idle or Stuck, failed --begin_discard--> Discarding --end_discard--> Idle, all is durable
//! ```
//!
//! A volume also fails while its commit hangs in the backing (`tasks/watchdog.rs`). The phase then
//! stays with that commit, whatever the operator does: no second commit begins before it has
//! returned.

pub(crate) mod locked;
#[cfg(test)]
mod tests;

use crate::planted::{Bug, planted};
use alloc::collections::VecDeque;
use block::{Error, Kind};

/// Maximum number of epochs that are closed and not durable. Their numbers are distinguished by
/// sixteen bits, and every shard has a list for each; more than a few gather only while the backing
/// is slow to flush.
pub(crate) const CHAIN_MAX: usize = 4096;

/// Epoch numbers begin here. Older programs, which do not record the durable epoch, count from
/// zero. If such a program has served the volume in between, the record is far from its epochs,
/// however many there were.
pub(crate) const NUMBERS: u64 = PAGES | 1 << 32;

/// The bit of an epoch's number that programs set which keep the marks of compressed pages true
/// (`arena/pages.rs`). Older programs renumber the epochs without it when they take an arena over.
/// Those whose compressed objects begin at multiples of 8 bytes set 1 << 33 instead, so neither
/// kind trusts marks that the other one could not remove.
pub(crate) const PAGES: u64 = 1 << 34;

/// The number of a fresh volume's open epoch: the epochs before it have numbers, too.
pub(crate) const FIRST: u64 = NUMBERS + 2;

/// Whether `one` is before `two`, for numbers that wrap at `bits` bits and are near each other.
pub(crate) fn is_before(one: u64, two: u64, bits: u32) -> bool {
    let half = 1 << (bits - 1);
    one != two && (two.wrapping_sub(one) & ((1 << bits) - 1)) < half
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Running,
    Releasing,
    /// Early written blocks of the open epoch are being made durable; no epoch is closed by that.
    Settling,
    /// A commit was abandoned, or recovery found one half done: the next commit resumes it.
    Stuck,
    /// Dirty data is being discarded.
    Discarding {
        /// A commit had been abandoned before.
        stuck: bool,
    },
}

/// The epochs of a volume.
#[derive(Debug)]
pub(crate) struct Epochs {
    phase: Phase,
    /// The number of the open epoch.
    open: u64,
    /// Every epoch up to this one is durable.
    durable: u64,
    /// A task walks the shards to close the epoch before the open one.
    walking: bool,
    /// For each closed epoch that is not durable: when its first change was admitted, plus one; 0:
    /// it has only write-throughs.
    since: VecDeque<u64>,
    /// A task that needs an epoch durable waits for the settling of early written blocks: its
    /// commit comes first afterwards.
    awaited: bool,
    /// When the errors of the current commit began.
    failing_since_ns: Option<u64>,
    failed: Option<Error>,
    /// Epochs after the first and up to the second number were discarded, in part or whole: earlier
    /// flushes that wait for them fail.
    given_up: (u64, u64),
}

const NOT_FAILED: Error =
    Error::new(Kind::Invalid, "discard what is dirty: the volume has not failed, drain it instead");

pub(crate) const IN_FLIGHT: Error = Error::new(
    Kind::Invalid,
    "discard what is dirty: the backing has not answered all requests yet, try again",
);

const GIVEN_UP: Error = Error::new(Kind::Io, "flush: what was dirty has been discarded");

/// The next step of a task that needs an epoch durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing: it is durable, or will never be.
    Done(Result<(), Error>),
    /// Wait for a change.
    Wait,
    /// Lead the commit of this epoch.
    Lead { epoch: u64, start: Start },
}

/// The start of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// Close the open epoch.
    Close,
    /// The epoch is already closed.
    Begin,
    /// The commit was begun before.
    Resume,
}

/// The next step of a task that needs an epoch closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Close {
    /// Nothing: it is closed, or will never be.
    Done(Result<(), Error>),
    /// Wait for a change.
    Wait,
    /// Walk the shards and close this epoch.
    Lead { epoch: u64 },
}

impl Epochs {
    /// Makes the epochs of a volume. `open`: the open epoch's number. `closed`: the number of
    /// epochs before it that are not durable; the commit of the oldest is half done. `since`: see
    /// [`Epochs::note_closing`], for all of them.
    pub(crate) fn new(open: u64, closed: u64, since: u64) -> Epochs {
        let mut each = VecDeque::with_capacity(CHAIN_MAX + 1);
        each.extend((0..closed).map(|_| since));
        Epochs {
            phase: if closed > 0 { Phase::Stuck } else { Phase::Idle },
            open,
            durable: open - 1 - closed,
            walking: false,
            since: each,
            awaited: false,
            failing_since_ns: None,
            failed: None,
            given_up: (0, 0),
        }
    }

    /// Returns the epoch that must become durable to cover everything completed until now.
    pub(crate) fn target(&self) -> u64 {
        self.open
    }

    /// Planted bug: uses the epoch that is being written back as the target.
    pub(crate) fn running_target(&self) -> u64 {
        if self.phase == Phase::Running { self.durable + 1 } else { self.open }
    }

    /// Returns the newest epoch that is closed, or being closed.
    pub(crate) fn newest_closed(&self) -> u64 {
        self.open - 1
    }

    /// The number of epochs that are closed, or being closed, and not durable.
    pub(crate) fn closed(&self) -> u32 {
        (self.open - 1 - self.durable) as u32
    }

    /// Returns when the oldest change of a closed epoch was admitted, plus one; 0: there is none.
    pub(crate) fn closed_since(&self) -> u64 {
        self.since.iter().copied().find(|&since| since != 0).unwrap_or(0)
    }

    /// Notes that an epoch is about to be closed. `since`: when its first change was admitted, plus
    /// one; 0: it has none.
    pub(crate) fn note_closing(&mut self, since: u64) {
        self.since.push_back(since);
    }

    /// Sets the age of recovered epochs.
    pub(crate) fn date_recovered(&mut self, since: u64) {
        self.since.iter_mut().filter(|known| **known == 1).for_each(|known| *known = since);
    }

    /// Ends the walk: the epoch is closed in every shard.
    pub(crate) fn end_walk(&mut self) {
        self.walking = false;
    }

    fn is_given_up(&self, target: u64) -> bool {
        target > self.given_up.0 && target <= self.given_up.1
    }

    /// Returns the next step towards a durable `target`.
    pub(crate) fn step(&mut self, target: u64) -> Step {
        if self.is_given_up(target) {
            return Step::Done(Err(GIVEN_UP));
        }
        if self.durable >= target {
            return Step::Done(Ok(()));
        }
        if let Some(error) = self.failed {
            return Step::Done(Err(error));
        }
        let epoch = self.durable + 1;
        let start = match self.phase {
            Phase::Running | Phase::Releasing | Phase::Settling | Phase::Discarding { .. } => {
                self.awaited |= self.phase == Phase::Settling;
                return Step::Wait;
            }
            Phase::Stuck => Start::Resume,
            Phase::Idle if epoch == self.open => Start::Close,
            Phase::Idle if self.walking && epoch + 1 == self.open => return Step::Wait,
            Phase::Idle => Start::Begin,
        };
        self.phase = Phase::Running;
        self.awaited = false;
        if start == Start::Close {
            self.open += 1;
            self.walking = true;
        }
        Step::Lead { epoch, start }
    }

    /// Returns the next step towards a closed `target`. `is_empty`: the open epoch is empty.
    /// `most`: the maximum number of closed epochs, at most [`CHAIN_MAX`].
    pub(crate) fn close_step(&mut self, target: u64, is_empty: bool, most: usize) -> Close {
        if self.is_given_up(target) {
            return Close::Done(Err(GIVEN_UP));
        }
        if let Some(error) = self.failed {
            return Close::Done(Err(error));
        }
        if self.walking && planted(Bug::AnswerBeforeClose) {
            return Close::Done(Ok(()));
        }
        if self.walking || matches!(self.phase, Phase::Discarding { .. }) {
            return Close::Wait;
        }
        if self.open > target || is_empty {
            return Close::Done(Ok(()));
        }
        if self.closed() as usize >= most.clamp(1, CHAIN_MAX) {
            return Close::Wait;
        }
        self.walking = true;
        self.open += 1;
        Close::Lead { epoch: self.open - 1 }
    }

    /// Notes that the epoch of the commit is durable; its slots are still to be released.
    pub(crate) fn note_durable(&mut self, epoch: u64) {
        debug_assert_eq!(self.phase, Phase::Running);
        self.durable = epoch;
        self.since.pop_front();
        self.failing_since_ns = None;
        self.phase = Phase::Releasing;
    }

    /// Whether slots of a durable epoch are still being released.
    pub(crate) fn is_releasing(&self) -> bool {
        self.phase == Phase::Releasing
    }

    /// Notes that the durable epoch's slots are released: the next commit may begin.
    pub(crate) fn end_release(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Begins to make early written blocks durable. Returns false if that is not possible now: an
    /// epoch is closed, slots are still being released, or the volume has failed.
    pub(crate) fn begin_settling(&mut self) -> bool {
        let may = self.phase == Phase::Idle
            && self.durable + 1 == self.open
            && !self.walking
            && !self.awaited
            && self.failed.is_none();
        if may {
            self.phase = Phase::Settling;
        }
        may
    }

    /// Ends settling: the blocks are durable, or settling was cancelled, and none of them counts as
    /// written any more.
    pub(crate) fn end_settling(&mut self) {
        debug_assert_eq!(self.phase, Phase::Settling);
        self.failing_since_ns = None;
        self.phase = Phase::Idle;
    }

    /// Handles an error of the backing at `now_ns`. Errors before `from_ns` do not count: the first
    /// one since then begins the time of the errors. Returns true to try again, false if errors
    /// have lasted too long and the volume must fail.
    pub(crate) fn backing_failed(&mut self, now_ns: u64, retry_time_ns: u64, from_ns: u64) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.failing_since_ns = self.failing_since_ns.filter(|&since_ns| since_ns >= from_ns);
        let since = *self.failing_since_ns.get_or_insert(now_ns);
        from_ns > now_ns || now_ns.saturating_sub(since) < retry_time_ns
    }

    /// Makes the volume fail. Returns false if it had failed before.
    pub(crate) fn fail(&mut self, error: Error) -> bool {
        let new = self.failed.is_none();
        self.failed.get_or_insert(error);
        // The waiting task receives the error, and does not return.
        self.awaited = false;
        new
    }

    /// Returns the error of a volume that has failed.
    pub(crate) fn failure(&self) -> Result<(), Error> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Abandons the commit.
    pub(crate) fn abandon(&mut self) {
        self.phase = Phase::Stuck;
    }

    /// Whether a commit is in progress.
    pub(crate) fn is_led(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Releasing | Phase::Settling)
    }

    /// Clears the error on the operator's request. Returns false while a discard is in progress.
    pub(crate) fn clear_error(&mut self) -> bool {
        if matches!(self.phase, Phase::Discarding { .. }) {
            return false;
        }
        self.failed = None;
        self.failing_since_ns = None;
        true
    }

    /// Begins the discard of dirty data on the operator's request.
    ///
    /// # Errors
    /// The volume has not failed, or a commit is still in progress.
    pub(crate) fn begin_discard(&mut self) -> Result<(), Error> {
        if self.failed.is_none() {
            return Err(NOT_FAILED);
        }
        let stuck = match self.phase {
            _ if self.walking => return Err(IN_FLIGHT),
            Phase::Idle => false,
            Phase::Stuck => true,
            Phase::Running | Phase::Releasing | Phase::Settling | Phase::Discarding { .. } => {
                return Err(IN_FLIGHT);
            }
        };
        self.phase = Phase::Discarding { stuck };
        Ok(())
    }

    /// Cancels a discard that was not possible: the previous phase returns.
    pub(crate) fn cancel_discard(&mut self) {
        if let Phase::Discarding { stuck } = self.phase {
            self.phase = if stuck { Phase::Stuck } else { Phase::Idle };
        }
    }

    /// Returns the number of the epoch that is open after a discard.
    pub(crate) fn after_discard(&self) -> u64 {
        self.open + 1
    }

    /// Ends a discard: nothing is dirty any more, and every shard has opened the next epoch.
    pub(crate) fn end_discard(&mut self) {
        // A task that has waited since before the discard must not take the new `durable` for
        // success.
        let from = if self.given_up.1 == 0 { self.durable } else { self.given_up.0 };
        self.given_up = (from, self.open);
        self.durable = self.open;
        self.open += 1;
        self.since.clear();
        self.phase = Phase::Idle;
        self.failed = None;
        self.failing_since_ns = None;
    }
}
