//! One change of one sector, for the oracle.

use crate::disk::NEVER;
use crate::stamp::{Operation, ZERO};

/// Contents of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The stamp of its operation.
    Stamp,
    /// Zeros.
    Zeros,
    /// Zeros, or the contents before: a discard that no read has decided yet.
    ZerosOrOlder,
}

/// One change of one sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) operation: Operation,
    pub(crate) content: Content,
    pub(crate) sent: u32,
    /// When the change was sent behind which this one came, on the same connection, before that was
    /// answered; [`NEVER`]: there is none.
    pub(crate) behind: u32,
    /// Known to have taken effect at this tick: answered, or seen.
    pub(crate) effective: u32,
    /// Answered with success at this tick.
    pub(crate) answered: u32,
    /// The first answer of a read that returned it.
    pub(crate) seen: u32,
    /// When the latest read that returned it was sent.
    pub(crate) reread: u32,
    /// No read that is sent after this tick may return it.
    pub(crate) dead: u32,
    /// The epoch in which the write buffer admitted it; 0: never buffered.
    pub(crate) epoch: u32,
    /// Whether it has been in a write buffer.
    pub(crate) buffered: bool,
    /// Whether it is covered by a flush that was answered with success, or by its own FUA.
    pub(crate) durable: bool,
    /// `ordered`: all changes completed when a flush was sent at this tick, or before, come before
    /// this one.
    pub(crate) after: u32,
    /// Whether it was an FUA write, answered with success: `ordered`, it comes before all changes
    /// sent after its answer.
    pub(crate) fua: bool,
    /// Its process had ended at this tick: it has taken effect or never will.
    pub(crate) settled: u32,
    /// A flush that was under way at a kill has lost it, or what had gone past the buffer after it.
    pub(crate) lost: bool,
    /// A report said that the disk has lost it, or may have: no flush makes it durable.
    pub(crate) excused: bool,
    /// Whether a restart of the server has dropped it before it was answered with success.
    pub(crate) is_dropped_by_server: bool,
    /// Answered with an error at this tick: if it has an effect, it comes before changes sent
    /// later.
    pub(crate) refused: u32,
    /// Whether the operator has discarded it, and the disk does not hold it.
    pub(crate) dropped: bool,
    /// Whether it is a discard that turned out to change nothing.
    pub(crate) void: bool,
    /// Whether a change of another part of its block has rewritten it, or may have: it may thus be
    /// on the disk before its epoch.
    pub(crate) carried: bool,
}

impl Version {
    pub(crate) fn new(operation: Operation, content: Content, sent: u32) -> Version {
        Version {
            operation,
            content,
            sent,
            behind: NEVER,
            effective: NEVER,
            answered: NEVER,
            seen: NEVER,
            reread: 0,
            dead: NEVER,
            epoch: 0,
            buffered: false,
            durable: false,
            after: 0,
            fua: false,
            settled: NEVER,
            lost: false,
            excused: false,
            is_dropped_by_server: false,
            refused: NEVER,
            dropped: false,
            void: false,
            carried: false,
        }
    }

    /// Returns the contents before the history began.
    pub(crate) fn base(operation: Operation) -> Version {
        let content = match operation {
            ZERO => Content::Zeros,
            _ => Content::Stamp,
        };
        Version {
            effective: 0,
            answered: 0,
            durable: true,
            settled: 0,
            ..Version::new(operation, content, 0)
        }
    }

    /// Returns the epoch that has begun to reach the disk if this version is present; 0: it proves
    /// nothing.
    pub(crate) fn proves(&self) -> u32 {
        if self.carried { 0 } else { self.epoch }
    }

    /// Whether a write buffer holds it. (What was carried may have gone past it with what carried
    /// it.)
    pub(crate) fn is_held(&self) -> bool {
        self.buffered && !self.carried
    }

    /// Whether only a process that has taken it over could send it to the disk.
    pub(crate) fn is_recovered(&self) -> bool {
        self.settled != NEVER && self.sent > 0 && !self.carried
    }

    /// Whether a flush that was sent then covers it: it was answered before, or its process was
    /// gone, and a read had shown it.
    pub(crate) fn is_covered_by(&self, flush_sent: u32) -> bool {
        self.answered.min(self.seen.max(self.settled)) < flush_sent
    }

    /// Whether it certainly replaces `older`.
    #[inline]
    pub(crate) fn replaces(&self, older: &Version) -> bool {
        self.content != Content::ZerosOrOlder && self.follows(older)
    }

    /// Whether it certainly came after `older`.
    #[inline]
    pub(crate) fn follows(&self, older: &Version) -> bool {
        // A later read shows it again: that does not make it replace itself.
        let shown_after = older.seen < self.reread && older.operation != self.operation;
        self.was_sent_after(older) || shown_after || older.sent == self.behind
    }

    /// Whether it was sent when `older` had taken effect or never would.
    #[inline]
    pub(crate) fn was_sent_after(&self, older: &Version) -> bool {
        older.effective.min(older.settled).min(older.refused) < self.sent
    }

    /// Whether reads may show it and older contents by turns: "a change that was never answered
    /// with success may be read, and be gone after a restart of the server" (C15).
    pub(crate) fn may_be_gone(&self) -> bool {
        self.is_dropped_by_server && self.answered == NEVER
    }

    /// Whether this version contains `operation`, or zeros.
    #[inline]
    pub(crate) fn shows(&self, operation: Operation) -> bool {
        match self.content {
            Content::Stamp => self.operation == operation,
            _ => operation == ZERO && !self.void,
        }
    }

    /// Notes that reads may return it again.
    pub(crate) fn revive(&mut self) {
        self.dead = NEVER;
    }

    /// Notes that reads sent after this tick do not return it.
    pub(crate) fn end_at(&mut self, tick: u32) {
        self.dead = self.dead.min(tick);
    }
}
