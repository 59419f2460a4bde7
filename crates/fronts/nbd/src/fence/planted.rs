//! Bugs that break the fence, for the laboratory, which must find each.

/// A bug that can be planted. The product contains none of this code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// C15: the range of an unanswered change is free again as soon as its connection has ended.
    EndFenceEarly,
    /// C15: other bytes are sent to a range whose earlier change may still be executed.
    ResendOtherBytes,
    /// C15: a flush succeeds on a new connection although answered changes were lost with the old
    /// one.
    ForgetLostChanges,
    /// C15: a change is entered in the table only after it has been sent.
    EnterAfterSend,
    /// C15: a next process does not wait for the answers on the connection of the earlier one.
    SkipOldAnswers,
    /// C15: answers of an earlier process that cannot be read count as received.
    TrustUnreadable,
    /// C15: the changes that a flush covers count as flushed from its beginning on.
    FlushedAtBegin,
    /// C15: a cache keeps data that was read in the range of a change that was never answered.
    KeepUnanswered,
    /// C15: a cache keeps data that was read after a session had ended with unflushed changes, and
    /// before the next flush.
    KeepAfterLoss,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 9] = [
        Bug::EndFenceEarly,
        Bug::ResendOtherBytes,
        Bug::ForgetLostChanges,
        Bug::EnterAfterSend,
        Bug::SkipOldAnswers,
        Bug::TrustUnreadable,
        Bug::FlushedAtBegin,
        Bug::KeepUnanswered,
        Bug::KeepAfterLoss,
    ];
}

#[cfg(feature = "laboratory")]
mod hooks {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in all fences of this thread, or removes it.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Whether this bug is planted.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "laboratory")]
pub use hooks::{plant, planted};

/// Whether this bug is planted: never in the product.
#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub(crate) const fn planted(_bug: Bug) -> bool {
    false
}
