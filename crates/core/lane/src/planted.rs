//! Planted races, which show that the explorer would detect them.
//!
//! Each breaks one order in which threads must act. Without the feature `explore` (that is, in the
//! product) [`planted`] is constant false, and the compiler removes the code.

/// A race that the explorer can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Race {
    /// A lane parks without checking its mailbox again.
    ParkBlindly,
    /// An event checks whether it is awaited before it increments its count.
    LookBeforeCount,
    /// A task joins an event's list without checking the event again.
    WaitBlindly,
    /// A task that stops waiting stays on the list, where it takes the wake-up of a waiting one.
    StayListed,
    /// An inbox checks whether it is empty before it reads the count of posts.
    LookBeforeSeen,
    /// Closing an inbox wakes no thread that waits for room.
    CloseQuietly,
    /// Several lanes change a count by a load and a store instead of an atomic addition.
    StoreSum,
    /// A worker that found no work sleeps without checking whether work has arrived that relied on
    /// it.
    SleepUnasked,
    /// Changes of several shards take room in the write buffer without claiming it first.
    TakeUnclaimed,
    /// A write that bypasses the cache is sent after the section in which nothing was held of its
    /// blocks.
    SendAfterSection,
}

impl Race {
    /// All races.
    pub const ALL: [Race; 10] = [
        Race::ParkBlindly,
        Race::LookBeforeCount,
        Race::WaitBlindly,
        Race::StayListed,
        Race::LookBeforeSeen,
        Race::CloseQuietly,
        Race::StoreSum,
        Race::SleepUnasked,
        Race::TakeUnclaimed,
        Race::SendAfterSection,
    ];
}

#[cfg(feature = "explore")]
mod hooks {
    use super::Race;
    use std::cell::Cell;

    // The explorer runs all its threads on this one.
    thread_local! {
        static PLANTED: Cell<Option<Race>> = const { Cell::new(None) };
    }

    /// Whether this race is planted on this thread.
    #[inline]
    pub fn planted(race: Race) -> bool {
        PLANTED.get() == Some(race)
    }

    /// Plants a race on this thread, or removes it.
    pub fn plant(race: Option<Race>) {
        PLANTED.set(race);
    }
}

#[cfg(feature = "explore")]
pub use hooks::{plant, planted};

/// Whether this race is planted: never in the product.
#[cfg(not(feature = "explore"))]
#[inline(always)]
pub const fn planted(_race: Race) -> bool {
    false
}
