//! Bugs that break the pool's guarantees, for the crash laboratory, which must find each.

/// A bug that can be planted. The product contains none of this code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A flush is answered before the journal has been written.
    AnswerBeforeJournal,
    /// The journal is written before the data that it points to is durable.
    JournalBeforeData,
    /// An older place is free as soon as its successor is in the map, even before that is durable.
    ReuseTooEarly,
    /// An older place is reused although a read of it is in flight.
    ReuseUnderReaders,
    /// A discard is sent to the member after the right one.
    TrimWrongOwner,
    /// Damaged blocks of the journal and pages of the map are accepted.
    BelieveDamaged,
    /// Blocks of the journal that do not follow each other are accepted.
    BelieveBroken,
    /// The journal's tail moves on before the pages of the map are written.
    TailBeforePages,
    /// The first member's journal is selected, even if that member had failed.
    BelieveFailedMember,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 9] = [
        Bug::AnswerBeforeJournal,
        Bug::JournalBeforeData,
        Bug::ReuseTooEarly,
        Bug::ReuseUnderReaders,
        Bug::TrimWrongOwner,
        Bug::BelieveDamaged,
        Bug::BelieveBroken,
        Bug::TailBeforePages,
        Bug::BelieveFailedMember,
    ];
}

#[cfg(feature = "laboratory")]
mod hooks {
    extern crate std;

    use super::Bug;
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in all pools of this thread, or removes it.
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
