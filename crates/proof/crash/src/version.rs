//! One change of one sector, as the oracle knows it.

use crate::disk::NEVER;
use crate::stamp::{Operation, ZERO};

/// What a version holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The stamp of its operation.
    Stamp,
    /// Zeros.
    Zeros,
    /// Zeros, or whatever was there: a discard that no read has decided yet.
    ZerosOrOlder,
}

/// One change of one sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) operation: Operation,
    pub(crate) content: Content,
    pub(crate) sent: u32,
    /// When the change was sent behind which this one came, on the same connection, before that was
    /// answered;
    /// [`NEVER`]: there is none.
    pub(crate) behind: u32,
    /// Known to have taken effect at this tick: answered, or seen.
    pub(crate) effective: u32,
    /// Answered well at this tick.
    pub(crate) answered: u32,
    /// The first answer of a read that returned it.
    pub(crate) seen: u32,
    /// When the latest read that returned it was sent.
    pub(crate) reread: u32,
    /// No read that is sent after this tick may return it.
    pub(crate) dead: u32,
    /// The epoch of the write buffer it was admitted to; 0: never buffered.
    pub(crate) epoch: u32,
    /// It has been in a write buffer.
    pub(crate) buffered: bool,
    /// Covered by a flush that was answered well, or by its own FUA.
    pub(crate) durable: bool,
    /// `ordered`: whatever was completed when a flush was sent at this tick, or before, is before this.
    pub(crate) after: u32,
    /// It was an FUA write, answered well: `ordered`, it is before whatever is sent after its answer.
    pub(crate) fua: bool,
    /// Its process was gone at this tick: it has taken effect or never will.
    pub(crate) settled: u32,
    /// A flush that was under way at a kill has lost it, or what had gone past the buffer after it.
    pub(crate) lost: bool,
    /// The operator was told that the disk has lost it, or may have: no flush makes it durable.
    pub(crate) excused: bool,
    /// Answered with an error at this tick: if it has an effect, it comes before what is sent later.
    pub(crate) refused: u32,
    /// The operator has given it up, and it is not what the disk has.
    pub(crate) dropped: bool,
    /// A discard that turned out to change nothing.
    pub(crate) void: bool,
    /// A change of another part of its block has written it again, or may have: with that, it may be
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
            refused: NEVER,
            dropped: false,
            void: false,
            carried: false,
        }
    }

    /// What was there before the history began.
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

    /// The epoch that has begun to reach the disk if this is there; 0: that proves nothing.
    pub(crate) fn proves(&self) -> u32 {
        if self.carried { 0 } else { self.epoch }
    }

    /// Whether a write buffer holds it. (What was carried may have gone past it with what carried
    /// it.)
    pub(crate) fn is_held(&self) -> bool {
        self.buffered && !self.carried
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
        older.effective.min(older.settled).min(older.refused) < self.sent
            || shown_after
            || older.sent == self.behind
    }

    /// Whether `operation`, or zeros, is what this version holds.
    #[inline]
    pub(crate) fn shows(&self, operation: Operation) -> bool {
        match self.content {
            Content::Stamp => self.operation == operation,
            _ => operation == ZERO && !self.void,
        }
    }

    /// Reads that are sent after this tick do not return it.
    pub(crate) fn dies(&mut self, tick: u32) {
        self.dead = self.dead.min(tick);
    }
}
