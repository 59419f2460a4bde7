//! Planted bugs of the layers: see `cache::planted`, whose list continues here.

/// A bug that the laboratory can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// C1: a change of a part of a block is not made durable although it must be.
    MergeWithoutFua,
    /// C4: a block is written with the remains of a failed read in its unchanged part.
    MergeFailedRead,
    /// C10: a part of a block is changed while another change of that block is in flight.
    MergeBeside,
    /// C10: a part of a block is changed while earlier changes of whole blocks are in flight.
    MergeAtOnce,
    /// C10: a change of whole blocks does not wait for a change of a part of one of them.
    PassMerge,
    /// C10: a change does not wait for an earlier one of its connection that it overlaps.
    OvertakeOnConnection,
}

impl Bug {
    /// All planted bugs of the layers.
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

    /// Plants a bug on this thread, or removes it.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }
}

#[cfg(feature = "laboratory")]
pub use hooks::{plant, planted};

/// Whether this bug is planted: never in the product.
#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}
