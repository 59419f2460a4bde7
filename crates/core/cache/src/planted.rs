//! Planted bugs: the proof that the laboratory detects violations.
//!
//! Each breaks one clause of SEMANTICS.md in one way. Without the feature `laboratory` (that is, in
//! the product) [`planted`] is constant false and the code behind it is removed.

/// A bug that the laboratory can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// C1: a flush is answered before the backing was flushed.
    AckBeforeFlush,
    /// C1: a flush that is sent to the backing is not recorded: after a kill during the flush, the
    /// successor trusts its own flush.
    ForgetSentFlush,
    /// C1: after a kill during a flush, the held copies of write-throughs are not written again.
    ForgetHeldCopies,
    /// C1: a copy that is dropped before it is durable counts as held.
    ForgetLostCopy,
    /// C1: a change that was sent to the backing and is not answered is not recorded.
    ForgetUnansweredWrite,
    /// C1: in `ordered` mode, a volume serves although it is in doubt about a flush.
    ServeInDoubt,
    /// C1: a write that bypasses the whole cache does not count as data to be flushed.
    DirectUnflushed,
    /// C1: a write that bypasses the whole cache is not recorded for the next process.
    DirectUnheld,
    /// C2: a write replaces the version of its block that a closing epoch still has to write.
    CoalesceAcrossEpochs,
    /// C2: a flush that arrives during a commit joins it instead of the next one.
    JoinRunningFlush,
    /// C2: in `ordered` mode, a flush that finds an epoch being closed is answered before it is
    /// closed everywhere.
    AnswerBeforeClose,
    /// C2: in `ordered` mode, two closed epochs are written back together.
    MergeEpochs,
    /// C2: in `ordered` mode, a change is written through while closed epochs wait.
    PassAhead,
    /// C2: in `ordered` mode, an epoch that has only write-throughs counts as empty.
    ForgetPasses,
    /// C2: in `ordered` mode, the backing is not flushed between two epochs.
    SkipEpochFlush,
    /// C2: blocks of the open epoch are written back early while another epoch is closed.
    EarlyAhead,
    /// C4: a write changes a slot that is in flight to the backing.
    OverwriteInFlight,
    /// C4: a run that starts in the middle of a block is written from the block's start.
    WrongOffset,
    /// C5: recovery trusts headers without their checksum.
    SkipChecksum,
    /// C4: a change is written through over a dirty block that is held in part.
    PassHeldInPart,
    /// C4: a slot is published before its bytes are there.
    PublishBeforeFill,
    /// C4: the rest of a block is cached although it could not be read.
    KeepFailedRest,
    /// C5: the older version of a block is dropped before the newer one is published.
    RetireFirst,
    /// C5: blocks are dropped before the range of zeros that replaces them is published.
    RangeAfterBlocks,
    /// C6: dirty data beyond `dirty_bytes`.
    IgnoreDirtyLimit,
    /// C6: the flusher is not woken for an epoch's first change.
    SleepingKeeper,
    /// C6: in `ordered` mode, the flusher is not woken for closed epochs.
    LeaveClosed,
    /// C7: recovery treats what it found as clean.
    ReleaseRecovered,
    /// C7: recovery treats all epochs that were closed as one.
    MergeRecovered,
    /// C7: in `ordered` mode, changes are written through before the backing was flushed for an
    /// earlier process.
    PassAfterTakeover,
    /// C7: recovered data is written back before the backing was flushed for an earlier process.
    SkipFirstFlush,
    /// C7: recovery forgets that the earlier process's clients were promised an order.
    ForgetOrder,
    /// C7: a durable epoch is not recorded before newer blocks are written back.
    ForgetDurable,
    /// C7: a durable epoch's blocks are released before its ranges of zeros.
    RangesLast,
    /// C5: recovery with less memory drops dirty slots that become spare.
    LeaveDirtySlots,
    /// C5: recovery does not record that the backing has grown: cut to its old size, it is taken
    /// over with dirty data beyond its end.
    KeepOldSize,
    /// C5: recovery drops dirty data beyond the end that the backing had before it grew.
    DropBeyondOldEnd,
    /// C4: in the block where the backing ended before it grew, recovery treats the sectors after
    /// that end as held.
    WidenLastBlock,
    /// C5: recovery looks for the blocks of an arena of the former format where the present format
    /// has them.
    SpreadAnew,
    /// C8: a failed writeback counts as done.
    SwallowError,
    /// C8: written blocks are clean before the backing was flushed.
    CleanTooEarly,
    /// C8: a process ignores a failed flush of the backing before its own first successful one,
    /// although an earlier process may have acknowledged the lost changes.
    ForgiveFirstFlush,
    /// C8: an FUA write flushes the backing in parallel with another flush, and trusts the result.
    OverlapFlushes,
    /// C8: recovery forgets that the volume had failed.
    ForgetFailure,
    /// C8: requests that hang in the backing are sent to it again.
    AbandonStalled,
    /// C8: a change that is refused while it waits for requests in flight stays in the queue.
    StayInLine,
    /// C8: a discard of dirty data leaves some of it behind.
    DiscardKeepsVersions,
    /// C8: a read that has joined a readahead is answered with the readahead's error.
    AnswerReadaheadError,
    /// C8: the time in which the link to a server is lost counts as time without an answer.
    StallLostLink,
    /// C8: a request that is unanswered while the link is lost shortly has no new time afterwards.
    CountAcrossReturn,
    /// C8: with `serve-clean`, memory absorbs changes while the link is down.
    AbsorbWithoutLink,
    /// C8: an error of the backing is not counted for a write-through.
    UncountedPass,
    /// C8: a write that bypasses the whole cache counts as data that can be written again.
    DirectUnkept,
    /// C10: a compressed block is not dropped when the block is changed.
    KeepCompressed,
    /// C10: a compression is not cancelled by a change of its block.
    StoreCancelled,
    /// C10: an observer's read returns what the backing had before a change.
    ObserveBelow,
    /// C9: a compressed block is removed without a successor seeing that.
    KeepRemovedObject,
    /// C9: the oldest page of compressed blocks is released, and blocks of it are stored again,
    /// without a successor seeing that.
    KeepMovedObject,
    /// C4: a compressed block is published, with its pages, before its bytes are there, and their
    /// check is not compared.
    PublishTornObject,
    /// C4: the length of a compressed block is too short: the next one is stored over its end.
    ShortObject,
    /// C4: a read copies a compressed block from the slot where it was in an earlier section.
    ReadMovedObject,
    /// C9: clean blocks are kept although something else may have written to the backing.
    KeepOverForeignWrite,
    /// C9: a clean block is kept that could still be read while a write-through of it was in
    /// flight.
    KeepUnderWriteThrough,
    /// C9: a clean slot is published before its bytes are there.
    PublishBeforeFetch,
    /// C9: a clean block is kept although a range of zeros that is newer was taken over.
    KeepUnderZeros,
    /// C8: a read fails because the rest of its block cannot be read.
    FailByRest,
    /// C10: a change is admitted after its client received the error that the backing does not
    /// answer.
    AdmitLeftBehind,
    /// C10: a fill is admitted although a write marked it.
    KeepMarkedFill,
    /// C10: the rest of a block is cached although a change has marked it.
    KeepOverRest,
    /// C10: a write-through leaves an older copy behind.
    KeepBehindPass,
    /// C10: while a write-through is in flight, an older copy of its sectors can be read.
    ReadBesidePass,
    /// C10: the sectors of a block that a write-through did not write count as held.
    WidenPassed,
    /// C10: a write that bypasses the whole cache leaves an older copy behind.
    DirectOverCopy,
    /// C10: a write bypasses the whole cache beside a fetch of its blocks, which is cached.
    DirectBesideFetch,
    /// C10: a write bypasses the whole cache beside a write-through of its blocks.
    DirectBesideChange,
    /// C10: a block that was fetched ahead is cached although a change has overtaken it.
    KeepOvertakenReadahead,
    /// C10: a block of the list of hot blocks is cached although a change has overtaken it.
    WarmOverNewer,
    /// C10: a block is written back while an older version of it is in flight.
    WriteBeside,
    /// C10: a write of a block whose class is never admitted is dropped while it is dirty.
    DropUnadmitted,
    /// C10: a version that was overtaken in flight, and failed, is written again.
    KeepOvertaken,
    /// C11: write-back before any client has flushed.
    TrustAtOnce,
    /// C12: a write-through does not wait for the writeback of its block.
    BypassInFlight,
    /// C12: `set` ends the order while epochs wait that were closed to keep it.
    SwitchWithoutDrain,
    /// C12: `set` returns before the change is in effect.
    SwitchBeforeSettle,
    /// C12: during the bypass, a change is written through over a dirty block as if it were not
    /// there.
    AsideIgnoresDirty,
    /// C12: a write bypasses the whole cache although a version of its block is dirty.
    DirectOverDirty,
    /// C13: dirty data beyond the amount that can be written back in time.
    IgnoreDebt,
    /// C13: throttled writers are not woken when writeback has ended.
    ForgetTurn,
    /// C14: a discard drops data that a closing epoch still has to write.
    DiscardDropsFlushed,
    /// C14: a write of a block that the map of files names as free space is discarded.
    DiscardFreeSpace,
    /// C14: a block that is discarded in part stays unchanged.
    KeepDiscardedEdges,
    /// C14: a shard's part of zeros is written as if there were no blocks of other shards between
    /// its own.
    ZerosOfOthers,
    /// C14: for zeros in several shards, or divided by newer blocks, only the first part is
    /// written.
    ForgetParts,
    /// C14: blocks are written back early while a range of zeros of their epoch waits.
    EarlyUnderRange,
    /// C14: the backing is queried for zeros before the cache checks its own blocks.
    StatusBelowFirst,
    /// C15: recovery starts while writes of the old owner are still in flight.
    SkipFence,
    /// C15: only the first ring of a process holds the fence.
    FenceFirstRing,
    /// C15: a second process takes the memory while the first one still runs.
    TwoOwners,
}

impl Bug {
    /// Every planted bug.
    pub const ALL: [Bug; 98] = [
        Bug::AckBeforeFlush,
        Bug::ForgetSentFlush,
        Bug::ForgetHeldCopies,
        Bug::ForgetLostCopy,
        Bug::ForgetUnansweredWrite,
        Bug::ServeInDoubt,
        Bug::DirectUnflushed,
        Bug::DirectUnheld,
        Bug::CoalesceAcrossEpochs,
        Bug::JoinRunningFlush,
        Bug::AnswerBeforeClose,
        Bug::MergeEpochs,
        Bug::PassAhead,
        Bug::ForgetPasses,
        Bug::SkipEpochFlush,
        Bug::EarlyAhead,
        Bug::OverwriteInFlight,
        Bug::WrongOffset,
        Bug::SkipChecksum,
        Bug::PassHeldInPart,
        Bug::PublishBeforeFill,
        Bug::KeepFailedRest,
        Bug::RetireFirst,
        Bug::RangeAfterBlocks,
        Bug::IgnoreDirtyLimit,
        Bug::SleepingKeeper,
        Bug::LeaveClosed,
        Bug::ReleaseRecovered,
        Bug::MergeRecovered,
        Bug::PassAfterTakeover,
        Bug::SkipFirstFlush,
        Bug::ForgetOrder,
        Bug::ForgetDurable,
        Bug::RangesLast,
        Bug::LeaveDirtySlots,
        Bug::KeepOldSize,
        Bug::DropBeyondOldEnd,
        Bug::WidenLastBlock,
        Bug::SpreadAnew,
        Bug::SwallowError,
        Bug::CleanTooEarly,
        Bug::ForgiveFirstFlush,
        Bug::OverlapFlushes,
        Bug::ForgetFailure,
        Bug::AbandonStalled,
        Bug::StayInLine,
        Bug::DiscardKeepsVersions,
        Bug::AnswerReadaheadError,
        Bug::StallLostLink,
        Bug::CountAcrossReturn,
        Bug::AbsorbWithoutLink,
        Bug::UncountedPass,
        Bug::DirectUnkept,
        Bug::KeepCompressed,
        Bug::StoreCancelled,
        Bug::ObserveBelow,
        Bug::KeepRemovedObject,
        Bug::KeepMovedObject,
        Bug::PublishTornObject,
        Bug::ShortObject,
        Bug::ReadMovedObject,
        Bug::KeepOverForeignWrite,
        Bug::KeepUnderWriteThrough,
        Bug::PublishBeforeFetch,
        Bug::KeepUnderZeros,
        Bug::FailByRest,
        Bug::AdmitLeftBehind,
        Bug::KeepMarkedFill,
        Bug::KeepOverRest,
        Bug::KeepBehindPass,
        Bug::ReadBesidePass,
        Bug::WidenPassed,
        Bug::DirectOverCopy,
        Bug::DirectBesideFetch,
        Bug::DirectBesideChange,
        Bug::KeepOvertakenReadahead,
        Bug::WarmOverNewer,
        Bug::WriteBeside,
        Bug::DropUnadmitted,
        Bug::KeepOvertaken,
        Bug::TrustAtOnce,
        Bug::BypassInFlight,
        Bug::SwitchWithoutDrain,
        Bug::SwitchBeforeSettle,
        Bug::AsideIgnoresDirty,
        Bug::DirectOverDirty,
        Bug::IgnoreDebt,
        Bug::ForgetTurn,
        Bug::DiscardDropsFlushed,
        Bug::DiscardFreeSpace,
        Bug::KeepDiscardedEdges,
        Bug::ZerosOfOthers,
        Bug::ForgetParts,
        Bug::EarlyUnderRange,
        Bug::StatusBelowFirst,
        Bug::SkipFence,
        Bug::FenceFirstRing,
        Bug::TwoOwners,
    ];
}

/// A change that the write buffer has admitted, as reported to the laboratory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// The first sector.
    pub first: u64,
    /// The number of sectors.
    pub sectors: u32,
    /// The epoch that it belongs to.
    pub epoch: u64,
    /// Dirty blocks, including this change.
    pub dirty_blocks: u32,
    /// The maximum of `dirty_bytes`, in blocks.
    pub dirty_blocks_max: u32,
    /// Blocks that wait for writeback, including this change.
    pub debt_blocks: u32,
    /// Their maximum, so that a flush does not take too long (C13).
    pub allowance_blocks: u32,
}

#[cfg(feature = "laboratory")]
mod hooks {
    use super::{Admitted, Bug};
    use core::cell::{Cell, RefCell};
    use std::boxed::Box;

    /// The observer of admissions.
    pub type Observer = Box<dyn FnMut(Admitted)>;

    /// The observer of the arena between two stores; it returns the number of stores until its next
    /// call, 0: never.
    pub type StoreObserver = Box<dyn FnMut() -> u32>;

    std::thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
        static STORES_LEFT: Cell<u32> = const { Cell::new(0) };
        static STORE_OBSERVER: RefCell<Option<StoreObserver>> = const { RefCell::new(None) };
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

    /// Sets the observer of every change that is admitted to the write buffer on this thread. It is
    /// called inside the shard's section, while the client's task is being polled.
    pub fn observe(observer: Option<Observer>) {
        OBSERVER.set(observer);
    }

    /// Sets the observer of the arena in the state that a kill at that moment would leave.
    /// [`watch_stores`] determines when it is called.
    pub fn observe_stores(observer: Option<StoreObserver>) {
        STORE_OBSERVER.set(observer);
    }

    /// Makes the observer run after this number of stores to an arena on this thread (words, and
    /// halves of copies); 0: never.
    #[inline]
    pub fn watch_stores(stores: u32) {
        STORES_LEFT.set(stores);
    }

    /// Counts a store to the arena.
    #[inline]
    pub(crate) fn stored() {
        match STORES_LEFT.get() {
            0 => {}
            1 => STORES_LEFT
                .set(STORE_OBSERVER.with_borrow_mut(|it| it.as_mut().map_or(0, |it| it()))),
            left => STORES_LEFT.set(left - 1),
        }
    }

    /// Copies `sectors` sectors with `copy(first, count)`: in two halves, if the laboratory
    /// watches.
    #[inline]
    pub(crate) fn in_halves(sectors: u32, copy: impl Fn(u32, u32)) {
        let half = sectors / 2;
        if STORES_LEFT.get() == 0 || half == 0 {
            copy(0, sectors);
        } else {
            copy(0, half);
            stored();
            copy(half, sectors - half);
        }
        stored();
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
pub use hooks::{Observer, StoreObserver, observe, observe_stores, plant, planted, watch_stores};
#[cfg(feature = "laboratory")]
pub(crate) use hooks::{admitted, in_halves, stored};

/// Whether this bug is planted: never, in the product.
#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub(crate) fn admitted(_admitted: Admitted) {}

#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub(crate) fn stored() {}

#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub(crate) fn in_halves(sectors: u32, copy: impl Fn(u32, u32)) {
    copy(0, sectors);
}
