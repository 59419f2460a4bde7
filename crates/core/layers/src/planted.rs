//! Planted bugs of the layers: see `cache::planted`, whose list this one continues.

/// A bug that the laboratory can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// C1: a change of a part of a block forgets that it is to be durable.
    MergeWithoutFua,
    /// C4: a block is written with what a failed read has left in its other part.
    MergeFailedRead,
    /// C10: a part of a block is changed beside another change of that block.
    MergeBeside,
    /// C10: a part of a block is changed while changes of whole blocks from before are under way.
    MergeAtOnce,
    /// C10: a change of whole blocks does not wait for one that is being changed in part.
    PassMerge,
    /// C10: a change does not wait for an earlier one of its connection that it overlaps.
    OvertakeOnConnection,
}

impl Bug {
    /// Every planted bug of the layers.
    pub const ALL: [Bug; 6] = [
        Bug::MergeWithoutFua,
        Bug::MergeFailedRead,
        Bug::MergeBeside,
        Bug::MergeAtOnce,
        Bug::PassMerge,
        Bug::OvertakeOnConnection,
    ];
}

#[cfg(feature = "laboratory")]
mod hooks {
    use super::Bug;
    use core::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
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
}

#[cfg(feature = "laboratory")]
pub use hooks::{plant, planted};

/// Whether this bug is planted: never, in the product.
#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}
