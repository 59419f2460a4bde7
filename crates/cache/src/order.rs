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
//! ```

use block::Error;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Running,
    Releasing,
    /// A write-out was given up, or recovery found one half done: whoever leads next resumes it.
    Stuck,
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
}

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
        Order { phase, open, durable, trouble_since_ns: None, failed: None }
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
        if self.durable >= target {
            return Step::Done(Ok(()));
        }
        if let Some(error) = self.failed {
            return Step::Done(Err(error));
        }
        let resume = self.phase == Phase::Stuck;
        match self.phase {
            Phase::Running | Phase::Releasing => Step::Wait,
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

    /// The backing has failed at `now_ns`. True: try again. False: the volume has failed, too long.
    pub(crate) fn trouble(&mut self, error: Error, now_ns: u64, retry_time_ns: u64) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let since = *self.trouble_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since) < retry_time_ns {
            return true;
        }
        self.fail(error);
        false
    }

    /// The volume has failed.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failed = Some(error);
    }

    /// The leader gives up.
    pub(crate) fn abandon(&mut self) {
        self.phase = Phase::Stuck;
    }

    /// The operator says that the backing is well again.
    pub(crate) fn clear_error(&mut self) {
        self.failed = None;
        self.trouble_since_ns = None;
    }
}
