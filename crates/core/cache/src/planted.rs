//! Planted bugs: the laboratory's proof that it would notice.
//!
//! Each stands for a way to break one clause of SEMANTICS.md. Without the feature `laboratory`
//! (that is, in the product) [`planted`] is constant false and the code behind it is gone.

/// A bug that the laboratory can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// C1: a flush is answered before the backing was flushed.
    AckBeforeFlush,
    /// C1: that a flush has been sent to the backing is not noted: a successor of a process that is
    /// killed meanwhile believes its own.
    ForgetSentFlush,
    /// C1: after a kill during a flush, the held copies of what went past the cache are not written
    /// again.
    ForgetHeldCopies,
    /// C1: a copy that is given up before it is durable is taken for held.
    ForgetLostCopy,
    /// C1: nothing is known of a change that was sent to the backing and is not answered.
    ForgetUnansweredWrite,
    /// C1: in `ordered` mode, a volume serves though it is in doubt about a flush.
    ServeInDoubt,
    /// C2: a write replaces the version of its block that a closing epoch still has to write.
    CoalesceAcrossEpochs,
    /// C2: a flush that arrives during a write-out joins it instead of the next one.
    JoinRunningFlush,
    /// C2: in `ordered` mode, a flush that finds an epoch being closed is answered before it is
    /// closed everywhere.
    AnswerBeforeClose,
    /// C2: in `ordered` mode, two closed epochs are written out together.
    MergeEpochs,
    /// C2: in `ordered` mode, a change passes while closed epochs wait.
    PassAhead,
    /// C2: in `ordered` mode, an epoch is taken for empty that holds only what has passed.
    ForgetPasses,
    /// C2: in `ordered` mode, the backing is not flushed between two epochs.
    SkipEpochFlush,
    /// C2: blocks of the open epoch are written out early while another epoch is closed.
    EarlyAhead,
    /// C4: a write changes a slot that is on its way to the backing.
    OverwriteInFlight,
    /// C4: a run that starts in the middle of a block is written from the block's start.
    WrongOffset,
    /// C5: recovery believes headers without their checksum.
    SkipChecksum,
    /// C4: a change goes past a dirty block that is held in part.
    PassHeldInPart,
    /// C4: a slot is published before its bytes are there.
    PublishBeforeFill,
    /// C5: the older version of a block is given up before the newer one is published.
    RetireFirst,
    /// C5: blocks are given up before the range of zeros that replaces them is published.
    RangeAfterBlocks,
    /// C6: dirty data beyond `dirty_bytes`.
    IgnoreDirtyLimit,
    /// C6: the flusher does not hear of an epoch's first change.
    SleepingKeeper,
    /// C6: in `ordered` mode, the flusher does not hear of closed epochs.
    LeaveClosed,
    /// C7: recovery takes what it found for clean.
    ReleaseRecovered,
    /// C7: recovery takes all epochs that were closed for one.
    MergeRecovered,
    /// C7: in `ordered` mode, changes pass before the backing was flushed for an earlier life.
    PassAfterTakeover,
    /// C7: what was taken over is written out before the backing was flushed for an earlier life.
    SkipFirstFlush,
    /// C7: recovery forgets that the earlier life's clients were promised an order.
    ForgetOrder,
    /// C7: that an epoch is durable is not noted before newer blocks are written out.
    ForgetDurable,
    /// C7: a durable epoch's blocks are released before its ranges of zeros.
    RangesLast,
    /// C5: recovery with less memory gives up dirty slots that become spare.
    LeaveDirtySlots,
    /// C5: recovery does not note that the backing has grown: cut to its old size, it is taken over
    /// with dirty data beyond its end.
    KeepOldSize,
    /// C5: recovery gives up what is dirty beyond the end that the backing had before it has grown.
    DropBeyondOldEnd,
    /// C4: of the block in which the backing ended before it has grown, recovery takes what lies
    /// behind that end for held.
    WidenLastBlock,
    /// C5: recovery looks for the blocks of an arena of the former format where this one has them.
    SpreadAnew,
    /// C8: a failed write-out counts as done.
    SwallowError,
    /// C8: written blocks are clean before the backing was flushed.
    CleanTooEarly,
    /// C8: a process forgives the backing a failed flush before its own first good one, though an
    /// earlier life may have answered what is lost.
    ForgiveFirstFlush,
    /// C8: an FUA write flushes the backing beside another flush, and believes what it is told.
    OverlapFlushes,
    /// C8: recovery forgets that the volume had failed.
    ForgetFailure,
    /// C8: what hangs in the backing is offered to it again.
    AbandonStalled,
    /// C8: a change that is refused while it waits for what is under way keeps its place in the
    /// line.
    StayInLine,
    /// C8: a discard of what is dirty leaves some of it behind.
    DiscardKeepsVersions,
    /// C8: a read that has joined a fetch ahead of it is answered with the error of that.
    AnswerReadaheadError,
    /// C8: an error of the backing is not counted where a change went straight to it.
    UncountedPass,
    /// C10: a change is admitted after its client was told that the backing does not answer.
    AdmitLeftBehind,
    /// C10: a fill is kept although a write marked it.
    KeepMarkedFill,
    /// C10: a bypassing write leaves an older copy behind.
    KeepBehindPass,
    /// C10: while a write is on its way past the cache, an older copy of its sectors can be read.
    ReadBesidePass,
    /// C10: what a write that went past the cache did not bring of a block is taken for held.
    WidenPassed,
    /// C10: what was fetched ahead is kept although a change has overtaken it.
    KeepOvertakenReadahead,
    /// C10: a block is written out while an older version of it is under way.
    WriteBeside,
    /// C10: a version that was overtaken while it was under way, and failed, is written out again.
    KeepOvertaken,
    /// C11: write-back before any client has flushed.
    TrustAtOnce,
    /// C12: a bypassing write does not wait for a write-out of its block.
    BypassInFlight,
    /// C12: `set` stops to keep the order while epochs wait that were closed to keep it.
    SwitchWithoutDrain,
    /// C12: `set` answers before the change is in force.
    SwitchBeforeSettle,
    /// C12: stepping aside, a change goes past a dirty block as if it were not there.
    AsideIgnoresDirty,
    /// C13: dirty data beyond what can be written out in time.
    IgnoreDebt,
    /// C13: writers that wait for their turn do not hear that nothing is being written out any
    /// more.
    ForgetTurn,
    /// C14: a discard drops data that a closing epoch still has to write.
    DiscardDropsFlushed,
    /// C14: of a block that is discarded in part, everything stays.
    KeepDiscardedEdges,
    /// C14: a shard's part of zeros is written out as if no other shard's blocks lay between its
    /// own.
    ZerosOfOthers,
    /// C14: of zeros that several shards have, or that newer blocks divide, only the first part is
    /// written out.
    ForgetParts,
    /// C14: blocks are written out early while a range of zeros of their epoch waits.
    EarlyUnderRange,
    /// C14: the backing is asked what is zero before the cache looks at what it holds itself.
    StatusBelowFirst,
    /// C15: recovery starts while the old owner's writes are still under way.
    SkipFence,
    /// C15: only the first ring of a process holds the fence.
    FenceFirstRing,
    /// C15: a second process takes the memory while the first one still runs.
    TwoOwners,
}

impl Bug {
    /// Every planted bug.
    pub const ALL: [Bug; 70] = [
        Bug::AckBeforeFlush,
        Bug::ForgetSentFlush,
        Bug::ForgetHeldCopies,
        Bug::ForgetLostCopy,
        Bug::ForgetUnansweredWrite,
        Bug::ServeInDoubt,
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
        Bug::UncountedPass,
        Bug::AdmitLeftBehind,
        Bug::KeepMarkedFill,
        Bug::KeepBehindPass,
        Bug::ReadBesidePass,
        Bug::WidenPassed,
        Bug::KeepOvertakenReadahead,
        Bug::WriteBeside,
        Bug::KeepOvertaken,
        Bug::TrustAtOnce,
        Bug::BypassInFlight,
        Bug::SwitchWithoutDrain,
        Bug::SwitchBeforeSettle,
        Bug::AsideIgnoresDirty,
        Bug::IgnoreDebt,
        Bug::ForgetTurn,
        Bug::DiscardDropsFlushed,
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
    /// Blocks that wait to be written out, this change included.
    pub debt_blocks: u32,
    /// How many may, so that a flush does not take too long (C13).
    pub allowance_blocks: u32,
}

#[cfg(feature = "laboratory")]
mod hooks {
    use super::{Admitted, Bug};
    use core::cell::{Cell, RefCell};
    use std::boxed::Box;

    /// What hears of admissions.
    pub type Observer = Box<dyn FnMut(Admitted)>;

    /// What sees the arena between two stores; it says after how many more it wants to see it
    /// again, 0: never.
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

    /// Sets what hears of every change that is admitted to the write buffer on this thread. It is
    /// called inside the shard's section, while the client's task is being polled.
    pub fn observe(observer: Option<Observer>) {
        OBSERVER.set(observer);
    }

    /// Sets what is called in the middle of things, with the arena as a kill at that very moment
    /// would leave it. [`watch_stores`] says when.
    pub fn observe_stores(observer: Option<StoreObserver>) {
        STORE_OBSERVER.set(observer);
    }

    /// From now on, the observer is called after so many stores to an arena on this thread (words,
    /// and halves of copies); 0: not at all.
    #[inline]
    pub fn watch_stores(stores: u32) {
        STORES_LEFT.set(stores);
    }

    /// A store to the arena has been made.
    #[inline]
    pub(crate) fn stored() {
        match STORES_LEFT.get() {
            0 => {}
            1 => STORES_LEFT
                .set(STORE_OBSERVER.with_borrow_mut(|it| it.as_mut().map_or(0, |it| it()))),
            left => STORES_LEFT.set(left - 1),
        }
    }

    /// Copies `sectors` sectors by `copy(first, count)`: in two halves, if the laboratory watches.
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
