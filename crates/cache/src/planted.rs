//! Planted bugs: the laboratory's proof that it would notice.
//!
//! Each stands for a way to break one clause of SEMANTICS.md. Without the feature `laboratory`
//! (that is, in the product) [`planted`] is constant false and the code behind it is gone.

/// A bug that the laboratory can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// C1: a flush is answered before the backing was flushed.
    AckBeforeFlush,
    /// C2: a write replaces the version of its block that a closing epoch still has to write.
    CoalesceAcrossEpochs,
    /// C2: a flush that arrives during a write-out joins it instead of the next one.
    JoinRunningFlush,
    /// C4: a write changes a slot that is on its way to the backing.
    OverwriteInFlight,
    /// C4: a run that starts in the middle of a block is written from the block's start.
    WrongOffset,
    /// C5: recovery believes headers without their checksum.
    SkipChecksum,
    /// C4: a change goes past a dirty block that is held in part.
    PassHeldInPart,
    /// C6: dirty data beyond `dirty_bytes`.
    IgnoreDirtyLimit,
    /// C6: the keeper does not hear of an epoch's first change.
    SleepingKeeper,
    /// C7: recovery takes what it found for clean.
    ReleaseRecovered,
    /// C8: a failed write-out counts as done.
    SwallowError,
    /// C8: written blocks are clean before the backing was flushed.
    CleanTooEarly,
    /// C8: an FUA write flushes the backing beside another flush, and believes what it is told.
    OverlapFlushes,
    /// C10: a fill is kept although a write marked it.
    KeepMarkedFill,
    /// C10: a bypassing write leaves an older copy behind.
    KeepBehindPass,
    /// C11: write-back before any client has flushed.
    TrustAtOnce,
    /// C12: a bypassing write does not wait for a write-out of its block.
    BypassInFlight,
    /// C13: dirty data beyond what can be written out in time.
    IgnoreDebt,
    /// C14: a discard drops data that a closing epoch still has to write.
    DiscardDropsFlushed,
    /// C15: recovery starts while the old owner's writes are still under way.
    SkipFence,
}

impl Bug {
    /// Every planted bug.
    pub const ALL: [Bug; 20] = [
        Bug::AckBeforeFlush,
        Bug::CoalesceAcrossEpochs,
        Bug::JoinRunningFlush,
        Bug::OverwriteInFlight,
        Bug::WrongOffset,
        Bug::SkipChecksum,
        Bug::PassHeldInPart,
        Bug::IgnoreDirtyLimit,
        Bug::SleepingKeeper,
        Bug::ReleaseRecovered,
        Bug::SwallowError,
        Bug::CleanTooEarly,
        Bug::OverlapFlushes,
        Bug::KeepMarkedFill,
        Bug::KeepBehindPass,
        Bug::TrustAtOnce,
        Bug::BypassInFlight,
        Bug::IgnoreDebt,
        Bug::DiscardDropsFlushed,
        Bug::SkipFence,
    ];
}

/// A change that the write buffer has admitted, as the laboratory hears of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// The first sector.
    pub first: u64,
    /// How many sectors.
    pub sectors: u32,
    /// The epoch that it belongs to.
    pub epoch: u64,
    /// Dirty blocks, this change included.
    pub dirty_blocks: u32,
    /// What `dirty_bytes` allows, in blocks.
    pub dirty_blocks_max: u32,
    /// What the flush debt allows, in blocks.
    pub allowance_blocks: u32,
}

#[cfg(feature = "laboratory")]
mod hooks {
    use super::{Admitted, Bug};
    use core::cell::{Cell, RefCell};
    use std::boxed::Box;

    /// Who hears of admissions.
    pub type Observer = Box<dyn FnMut(Admitted)>;

    std::thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
    }

    /// Whether this bug is planted on this thread.
    #[inline]
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Plants a bug on this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    /// Sets who hears of every change that is admitted to the write buffer on this thread. It is
    /// called inside the shard's section, while the client's task is being polled.
    pub fn observe(observer: Option<Observer>) {
        OBSERVER.set(observer);
    }

    pub(crate) fn admitted(admitted: Admitted) {
        OBSERVER.with_borrow_mut(|observer| {
            if let Some(observer) = observer {
                observer(admitted);
            }
        });
    }
}

#[cfg(feature = "laboratory")]
pub(crate) use hooks::admitted;
#[cfg(feature = "laboratory")]
pub use hooks::{Observer, observe, plant, planted};

/// Whether this bug is planted: never, in the product.
#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub(crate) fn admitted(_admitted: Admitted) {}
