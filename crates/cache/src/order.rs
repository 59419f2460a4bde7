//! The order of epochs (C2) and what happens to it when the backing fails (C8).
//!
//! One epoch is open; the one before it may be closing. Whoever finds no write-out under way and
//! needs one leads it; all others wait. In the meantime flushes that arrive join the next one.
//!
//! ```text
//!   Idle --lead--> Running --durable--> Releasing --released--> Idle
//!                     |
//!                     | an error outlasts retry_time
//!                     v
//!                  Stuck --clear_error--> (Stuck, led again)
//!
//!   Idle or Stuck, failed --begin_discard--> Discarding --end_discard--> Idle, all is durable
//! ```
//!
//! A volume also fails while its leader hangs in the backing (`sentinel.rs`). The phase stays with the
//! leader then, whatever the operator does: there is no second one before it has come back.

use block::{Error, Kind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Running,
    Releasing,
    /// A write-out was given up, or recovery found one half done: whoever leads next resumes it.
    Stuck,
    /// What is dirty is being given up.
    Discarding {
        /// A write-out had been given up before.
        stuck: bool,
    },
}

/// The epochs of a volume.
#[derive(Debug)]
pub(crate) struct Order {
    phase: Phase,
    /// The number of the open epoch.
    open: u64,
    /// Every epoch up to this one is durable.
    durable: u64,
    /// When the errors of the current write-out began.
    trouble_since_ns: Option<u64>,
    failed: Option<Error>,
    /// Epochs after the first and up to the second number were given up, in part or whole: flushes that
    /// wait for them from before have failed.
    given_up: (u64, u64),
}

const NOT_FAILED: Error =
    Error::new(Kind::Invalid, "discard what is dirty: the volume has not failed, drain it instead");

pub(crate) const IN_FLIGHT: Error = Error::new(
    Kind::Invalid,
    "discard what is dirty: the backing has not answered all requests yet, try again",
);

const GIVEN_UP: Error = Error::new(Kind::Io, "flush: what was dirty has been discarded");

/// What one who needs an epoch durable does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing: it is, or it will never be.
    Done(Result<(), Error>),
    /// Wait for a change.
    Wait,
    /// Lead the write-out of this epoch. `resume`: it is closed already.
    Lead { epoch: u64, resume: bool },
}

impl Order {
    /// `open`: the open epoch's number. `closing`: recovery found the one before it half done.
    pub(crate) fn new(open: u64, closing: bool) -> Order {
        let phase = if closing { Phase::Stuck } else { Phase::Idle };
        let durable = if closing { open - 2 } else { open - 1 };
        Order { phase, open, durable, trouble_since_ns: None, failed: None, given_up: (0, 0) }
    }

    /// The epoch that must become durable to cover everything completed so far.
    pub(crate) fn target(&self) -> u64 {
        self.open
    }

    /// The epoch that is being written out, or the open one. (What a planted bug takes for the
    /// target.)
    pub(crate) fn running_target(&self) -> u64 {
        if self.phase == Phase::Running { self.open - 1 } else { self.open }
    }

    /// What to do on the way to `target`.
    pub(crate) fn step(&mut self, target: u64) -> Step {
        if target > self.given_up.0 && target <= self.given_up.1 {
            return Step::Done(Err(GIVEN_UP));
        }
        if self.durable >= target {
            return Step::Done(Ok(()));
        }
        if let Some(error) = self.failed {
            return Step::Done(Err(error));
        }
        let resume = self.phase == Phase::Stuck;
        match self.phase {
            Phase::Running | Phase::Releasing | Phase::Discarding { .. } => Step::Wait,
            Phase::Idle | Phase::Stuck => {
                self.phase = Phase::Running;
                self.open += u64::from(!resume);
                Step::Lead { epoch: self.open - 1, resume }
            }
        }
    }

    /// The led epoch is durable; its slots are still to be released.
    pub(crate) fn durable(&mut self, epoch: u64) {
        debug_assert_eq!(self.phase, Phase::Running);
        self.durable = epoch;
        self.trouble_since_ns = None;
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

    /// The backing has failed at `now_ns`. True: try again. False: for too long, the volume fails.
    pub(crate) fn trouble(&mut self, now_ns: u64, retry_time_ns: u64) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let since = *self.trouble_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since) < retry_time_ns
    }

    /// The volume has failed. False: it had before.
    pub(crate) fn fail(&mut self, error: Error) -> bool {
        let new = self.failed.is_none();
        self.failed.get_or_insert(error);
        new
    }

    /// The leader gives up.
    pub(crate) fn abandon(&mut self) {
        self.phase = Phase::Stuck;
    }

    /// Whether somebody leads a write-out.
    pub(crate) fn is_led(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Releasing)
    }

    /// The operator says that the backing is well again. False: not while a discard is under way.
    pub(crate) fn clear_error(&mut self) -> bool {
        if matches!(self.phase, Phase::Discarding { .. }) {
            return false;
        }
        self.failed = None;
        self.trouble_since_ns = None;
        true
    }

    /// The operator gives up what is dirty.
    ///
    /// # Errors
    /// The volume has not failed, or somebody still leads a write-out.
    pub(crate) fn begin_discard(&mut self) -> Result<(), Error> {
        if self.failed.is_none() {
            return Err(NOT_FAILED);
        }
        let stuck = match self.phase {
            Phase::Idle => false,
            Phase::Stuck => true,
            Phase::Running | Phase::Releasing | Phase::Discarding { .. } => return Err(IN_FLIGHT),
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
        // Whoever waits from before, and has not looked since, must not take this for success.
        let from = if self.given_up.1 == 0 { self.durable } else { self.given_up.0 };
        self.given_up = (from, self.open);
        self.durable = self.open;
        self.open += 1;
        self.phase = Phase::Idle;
        self.failed = None;
        self.trouble_since_ns = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: Error = Error::new(Kind::Io, "test");

    #[test]
    fn no_second_leader_while_the_first_hangs() {
        let mut order = Order::new(1, false);
        let target = order.target();
        assert_eq!(order.step(target), Step::Lead { epoch: 1, resume: false });
        assert!(order.fail(ERROR));
        assert!(!order.fail(GIVEN_UP), "the first error stays");
        assert_eq!(order.step(target), Step::Done(Err(ERROR)));
        assert_eq!(order.begin_discard(), Err(IN_FLIGHT));
        assert!(order.clear_error());
        assert_eq!(order.step(target), Step::Wait);
        assert_eq!(order.step(order.target()), Step::Wait);
        order.abandon();
        assert_eq!(order.step(target), Step::Lead { epoch: 1, resume: true });
        order.durable(1);
        order.released();
        assert_eq!(order.step(target), Step::Done(Ok(())));
        assert_eq!(order.step(2), Step::Lead { epoch: 2, resume: false });
    }

    #[test]
    fn a_flush_from_before_a_discard_fails_although_the_next_epochs_are_durable() {
        let mut order = Order::new(5, false);
        assert_eq!(order.begin_discard(), Err(NOT_FAILED));
        let early = order.target();
        assert_eq!(order.step(early), Step::Lead { epoch: 5, resume: false });
        let late = order.target();
        order.fail(ERROR);
        order.abandon();
        assert_eq!(order.begin_discard(), Ok(()));
        assert_eq!(order.begin_discard(), Err(IN_FLIGHT), "one at a time");
        assert!(!order.clear_error(), "not while it is under way");
        order.cancel_discard();
        assert_eq!(order.begin_discard(), Ok(()));
        let open = order.after_discard();
        order.end_discard();
        assert_eq!((order.target(), open), (7, 7));
        for target in [early, late] {
            assert_eq!(order.step(target), Step::Done(Err(GIVEN_UP)));
        }
        assert_eq!(order.step(4), Step::Done(Ok(())), "what was durable stays so");
        assert_eq!(order.step(7), Step::Lead { epoch: 7, resume: false });
        order.durable(7);
        order.released();
        assert_eq!(order.step(7), Step::Done(Ok(())));
        assert_eq!(order.step(early), Step::Done(Err(GIVEN_UP)));
    }
}
