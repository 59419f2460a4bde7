//! Ways to break the pool's promises, for the crash laboratory, which must find each.

/// A bug that can be planted. In the product none can: the code is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A flush is answered before the journal has been written.
    AnswerBeforeJournal,
    /// The journal is written before the data that it points to is durable.
    JournalBeforeData,
    /// An older place is free as soon as its successor is in the map, durable or not.
    ReuseTooEarly,
    /// An older place is used again although a read of it is under way.
    ReuseUnderReaders,
    /// A discard is sent to the member after the owner.
    TrimWrongOwner,
    /// Damaged blocks of the journal and pages of the map are believed.
    BelieveDamaged,
    /// Blocks of the journal that do not follow on each other are believed.
    BelieveBroken,
    /// The journal's tail moves on before the pages of the map are written.
    TailBeforePages,
    /// The first member's journal is believed, also if that member had failed.
    BelieveFailedMember,
}

impl Bug {
    /// All of them.
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

    /// Plants a bug in every pool of this thread, or takes it out.
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

/// Whether this bug is planted: never, in the product.
#[cfg(not(feature = "laboratory"))]
#[inline(always)]
pub(crate) const fn planted(_bug: Bug) -> bool {
    false
}
