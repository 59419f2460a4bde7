//! The errors of requests that a link may cause, by the promises of C8.
//!
//! ```text
//!   wait          none
//!   fail          those while the link is lost, cut or followed by a hold, while the backing
//!                 counts as one that hangs, and while the volume has failed
//!   serve-clean   those while changes are refused
//!   each policy   those of changes and flushes, from a loss that no memory may hold until it is
//!                 mended
//! ```

use super::Link;
use crate::device::Disk;
use crate::oracle::Oracle;
use crate::pending::{Kind, Pending};
use crate::subject::Process;
use block::{LinkDown, Stall};
use std::rc::Rc;
use std::sync::Arc;

/// The link of a process, as the book watches it.
pub(crate) struct Watch {
    policy: LinkDown,
    link: Rc<Link>,
    process: Rc<dyn Process>,
    stall: Option<Arc<Stall>>,
    /// Losses of the server's that a flush has reported.
    losses: u32,
    /// Whether such a flush may have failed the volume, and that is not mended since.
    is_lost: bool,
    /// The last tick at which such a loss was not handled yet.
    lost_at: u32,
    /// Whether the policy may have caused an error at any time in the life of the process.
    was_down: bool,
    /// The last tick at which the policy may have caused an error, ...
    down_until: u32,
    /// ... and at which a loss may have.
    lost_until: u32,
}

impl Watch {
    /// `may_have_failed`: whether the volume may have failed before, because of its link.
    pub(crate) fn new(
        policy: LinkDown,
        link: &Rc<Link>,
        process: &Rc<dyn Process>,
        stall: Option<&Arc<Stall>>,
        may_have_failed: bool,
    ) -> Watch {
        Watch {
            policy,
            link: link.clone(),
            process: process.clone(),
            stall: stall.cloned(),
            losses: link.losses(),
            is_lost: may_have_failed,
            lost_at: 0,
            was_down: may_have_failed,
            down_until: 0,
            lost_until: 0,
        }
    }

    /// Looks at the link and the process at this moment.
    pub(crate) fn look(&mut self, oracle: &Oracle, disk: &Disk) {
        self.note_losses(oracle, disk);
        if self.is_lost {
            self.lost_until = oracle.clock;
        }
        if self.is_down() {
            (self.was_down, self.down_until) = (true, oracle.clock);
        }
    }

    /// Notes the losses that flushes have reported. "Where no memory holds such changes, the volume
    /// fails under each policy, because a flush could not report the truth otherwise." (C8) "Before
    /// the first good flush of a process, a loss may be one of changes that an earlier process has
    /// written through" (docs/design/stack.md).
    ///
    /// The process judges a loss later than it is reported. A change that it has sent until then,
    /// without a copy, may fail the volume too. So these count until a flush succeeds.
    fn note_losses(&mut self, oracle: &Oracle, disk: &Disk) {
        let losses = self.link.losses();
        let is_open = losses > 0 && !self.link.has_flushed();
        if losses != self.losses || is_open {
            self.losses = losses;
            self.is_lost |= !disk.with(|disk| disk.flushed) || oracle.has_loose();
            self.lost_at = oracle.clock;
        }
    }

    /// Notes that a client's flush, sent at `sent`, has made all durable: the process has handled
    /// the losses before it. (A write with FUA alone does not act on them.)
    pub(crate) fn note_flush(&mut self, sent: u32) {
        self.is_lost &= sent <= self.lost_at || self.process.has_failed();
    }

    /// Whether the policy may cause an error now. With `fail`, a watchdog may also fire early in
    /// the laboratory, where time can pass while all tasks are ready.
    fn is_down(&self) -> bool {
        match self.policy {
            LinkDown::Wait => false,
            LinkDown::ServeClean => self.process.refuses_changes(),
            LinkDown::Fail => !self.link.is_well() || self.has_hung(),
        }
    }

    /// Whether the process takes the disk for one that hangs, or has done so for too long.
    fn has_hung(&self) -> bool {
        self.process.has_failed() || self.stall.as_ref().is_some_and(|stall| stall.is_on())
    }

    /// Whether the link may be the cause of this request's error. A read fails by no loss of
    /// changes.
    pub(crate) fn excuses(&self, pending: &Pending) -> bool {
        let is_read = matches!(pending.kind, Kind::Read | Kind::Status);
        pending.sent <= self.down_until || !is_read && pending.sent <= self.lost_until
    }

    /// Whether the link may have failed the volume.
    pub(crate) fn may_have_failed(&self) -> bool {
        self.is_lost || self.policy == LinkDown::Fail && self.was_down
    }

    /// Whether it may have failed the volume of the next process: "A failed flush whose loss is not
    /// mended yet outlives the process as well." (C8)
    pub(crate) fn may_fail_after_kill(&self) -> bool {
        self.may_have_failed() || self.link.has_unmended_loss()
    }

    /// If the process refuses changes now, returns the number of the time for which it does.
    pub(crate) fn refusal(&self) -> Option<u64> {
        let state = &self.link.state;
        let refuses = self.process.refuses_changes() && state.lost_ns().is_some();
        refuses.then(|| state.returns())
    }

    /// Whether a flush has reported a loss.
    pub(crate) fn has_reported(&self) -> bool {
        self.losses > 0
    }
}
