//! The order of epochs (C2) and what happens to it when the backing fails (C8).
//!
//! One epoch is open; those before it are closed, and become durable one after the other.
//!
//! ```text
//!   durable ... durable | written out | closed, closed, closed | open
//!                         durable + 1                            open
//! ```
//!
//! The first task that needs a write-out and finds none under way leads it; all others wait. In
//! `flush` mode an epoch is closed by the commit that leads its write-out, so at most one is
//! closed, and flushes that arrive in the meantime join the next one. In `ordered` mode a flush
//! closes the open epoch, and the commit that leads takes the oldest. Closing is a walk over the
//! shards, one at a time: a flush during a walk waits for the next one, because this one may have
//! passed its shard already.
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
//! A volume also fails while its commit hangs in the backing (`tasks/watchdog.rs`). The phase stays
//! with the commit then, whatever the operator does: there is no second one before it has come
//! back.

pub(crate) mod locked;
#[cfg(test)]
mod tests;

use crate::planted::{Bug, planted};
use alloc::collections::VecDeque;
use block::{Error, Kind};

/// Epochs that may be closed and not durable. Their numbers are told apart by sixteen bits, and
/// every shard keeps a list for each; more than a few only gather while the backing is slow to
/// flush.
pub(crate) const CHAIN_MAX: usize = 4096;

/// Numbers of epochs begin here. Versions that do not note what is durable number theirs from zero:
/// where one of them was served in between, the note is far from its epochs, however many there
/// were.
pub(crate) const NUMBERS: u64 = 1 << 32;

/// The number of a fresh volume's open epoch: what is before it has numbers, too.
pub(crate) const FIRST: u64 = NUMBERS + 2;

/// Whether `one` is before `two`, of numbers that wrap at `bits` bits and are near one another.
pub(crate) fn is_before(one: u64, two: u64, bits: u32) -> bool {
    let half = 1 << (bits - 1);
    one != two && (two.wrapping_sub(one) & ((1 << bits) - 1)) < half
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Running,
    Releasing,
    /// What was written out of the open epoch is being made durable; no epoch is closed by that.
    Settling,
    /// A write-out was given up, or recovery found one half done: the next commit resumes it.
    Stuck,
    /// What is dirty is being given up.
    Discarding {
        /// A write-out had been given up before.
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
    /// Of each closed epoch that is not durable: when its first change was admitted, plus one; 0:
    /// it holds only what has passed.
    since: VecDeque<u64>,
    /// A task that needs an epoch durable waits until what was written early is: it goes first
    /// then.
    awaited: bool,
    /// When the errors of the current write-out began.
    failing_since_ns: Option<u64>,
    failed: Option<Error>,
    /// Epochs after the first and up to the second number were given up, in part or whole: flushes
    /// that wait for them from before have failed.
    given_up: (u64, u64),
}

const NOT_FAILED: Error =
    Error::new(Kind::Invalid, "discard what is dirty: the volume has not failed, drain it instead");

pub(crate) const IN_FLIGHT: Error = Error::new(
    Kind::Invalid,
    "discard what is dirty: the backing has not answered all requests yet, try again",
);

const GIVEN_UP: Error = Error::new(Kind::Io, "flush: what was dirty has been discarded");

/// What a task that needs an epoch durable does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing: it is, or it will never be.
    Done(Result<(), Error>),
    /// Wait for a change.
    Wait,
    /// Lead the write-out of this epoch.
    Lead { epoch: u64, start: Start },
}

/// How a write-out starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// By closing the open epoch.
    Close,
    /// It is closed already.
    Begin,
    /// It was begun before.
    Resume,
}

/// What a task that needs an epoch closed does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Close {
    /// Nothing: it is, or it will never be.
    Done(Result<(), Error>),
    /// Wait for a change.
    Wait,
    /// Walk the shards and close this epoch.
    Lead { epoch: u64 },
}

impl Epochs {
    /// `open`: the open epoch's number. `closed`: so many before it are not durable, the oldest of
    /// them is half done. `since`: see [`Epochs::closes`], of all of them.
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

    /// The epoch that must become durable to cover everything completed so far.
    pub(crate) fn target(&self) -> u64 {
        self.open
    }

    /// What the planted bug does: takes the epoch that is being written out for the target.
    pub(crate) fn running_target(&self) -> u64 {
        if self.phase == Phase::Running { self.durable + 1 } else { self.open }
    }

    /// The newest epoch that is closed, or is being closed.
    pub(crate) fn newest_closed(&self) -> u64 {
        self.open - 1
    }

    /// Epochs that are closed, or are being closed, and not durable.
    pub(crate) fn closed(&self) -> u32 {
        (self.open - 1 - self.durable) as u32
    }

    /// When the oldest change of a closed epoch was admitted, plus one; 0: there is none.
    pub(crate) fn closed_since(&self) -> u64 {
        self.since.iter().copied().find(|&since| since != 0).unwrap_or(0)
    }

    /// An epoch is about to be closed: when its first change was admitted, plus one; 0: it holds
    /// none.
    pub(crate) fn closes(&mut self, since: u64) {
        self.since.push_back(since);
    }

    /// What was recovered counts as this old.
    pub(crate) fn date_recovered(&mut self, since: u64) {
        self.since.iter_mut().filter(|known| **known == 1).for_each(|known| *known = since);
    }

    /// The walk is over: the epoch is closed in every shard.
    pub(crate) fn walked(&mut self) {
        self.walking = false;
    }

    fn gave_up(&self, target: u64) -> bool {
        target > self.given_up.0 && target <= self.given_up.1
    }

    /// What to do on the way to `target`.
    pub(crate) fn step(&mut self, target: u64) -> Step {
        if self.gave_up(target) {
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

    /// What to do on the way to have `target` closed. `is_empty`: the open epoch has nothing in it.
    /// `most`: so many may be closed, at most [`CHAIN_MAX`].
    pub(crate) fn close_step(&mut self, target: u64, is_empty: bool, most: usize) -> Close {
        if self.gave_up(target) {
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

    /// The led epoch is durable; its slots are still to be released.
    pub(crate) fn durable(&mut self, epoch: u64) {
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

    /// The durable epoch's slots are released: the next one may be led.
    pub(crate) fn released(&mut self) {
        self.phase = Phase::Idle;
    }

    /// What was written out early is about to be made durable. False: not now, an epoch is closed,
    /// or slots are still being released, or the volume has failed.
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

    /// It is, or it was given up: then nothing of it counts as written any more.
    pub(crate) fn settled(&mut self) {
        debug_assert_eq!(self.phase, Phase::Settling);
        self.failing_since_ns = None;
        self.phase = Phase::Idle;
    }

    /// The backing has failed at `now_ns`. True: try again. False: for too long, the volume fails.
    pub(crate) fn backing_failed(&mut self, now_ns: u64, retry_time_ns: u64) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let since = *self.failing_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since) < retry_time_ns
    }

    /// The volume has failed. False: it had before.
    pub(crate) fn fail(&mut self, error: Error) -> bool {
        let new = self.failed.is_none();
        self.failed.get_or_insert(error);
        // What waited hears of it, and does not come back.
        self.awaited = false;
        new
    }

    /// The error of a volume that has failed.
    pub(crate) fn failure(&self) -> Result<(), Error> {
        self.failed.map_or(Ok(()), Err)
    }

    /// The commit gives up.
    pub(crate) fn abandon(&mut self) {
        self.phase = Phase::Stuck;
    }

    /// Whether a write-out is led.
    pub(crate) fn is_led(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Releasing | Phase::Settling)
    }

    /// The operator says that the backing is well again. False: not while a discard is under way.
    pub(crate) fn clear_error(&mut self) -> bool {
        if matches!(self.phase, Phase::Discarding { .. }) {
            return false;
        }
        self.failed = None;
        self.failing_since_ns = None;
        true
    }

    /// The operator gives up what is dirty.
    ///
    /// # Errors
    /// The volume has not failed, or a write-out is still led.
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

    /// It was not possible: all is as before.
    pub(crate) fn cancel_discard(&mut self) {
        if let Phase::Discarding { stuck } = self.phase {
            self.phase = if stuck { Phase::Stuck } else { Phase::Idle };
        }
    }

    /// The number of the epoch that is open after a discard.
    pub(crate) fn after_discard(&self) -> u64 {
        self.open + 1
    }

    /// Nothing is dirty any more, and every shard has opened the next epoch.
    pub(crate) fn end_discard(&mut self) {
        // A task that waits from before, and has not looked since, must not take this for success.
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
