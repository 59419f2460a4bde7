//! Planted races: the explorer's proof that it would notice.
//!
//! Each breaks one order in which threads must do things. Without the feature `explore` (that is, in the product)
//! [`planted`] is constant false and the code behind it is gone.

/// A race that the explorer can switch on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Race {
    /// A lane parks without another look at its mail.
    ParkBlindly,
    /// An event looks whether it is awaited before it has happened.
    LookBeforeCount,
    /// A task goes on an event's list without another look at the event.
    WaitBlindly,
    /// A task that gives up waiting stays on the list, where it takes the wake of one that waits.
    StayListed,
    /// An inbox looks whether it is empty before it asks how often something was posted.
    LookBeforeSeen,
    /// Closing an inbox wakes no thread that waits for room.
    CloseQuietly,
    /// A count that several lanes change is loaded, and stored where it must be added to.
    StoreSum,
    /// A worker that found nothing sleeps, and does not look whether something has come for which it was relied on.
    SleepUnasked,
    /// Changes of several shards take room in the write buffer without having claimed it.
    TakeUnclaimed,
}

impl Race {
    /// All of them.
    pub const ALL: [Race; 9] = [
        Race::ParkBlindly,
        Race::LookBeforeCount,
        Race::WaitBlindly,
        Race::StayListed,
        Race::LookBeforeSeen,
        Race::CloseQuietly,
        Race::StoreSum,
        Race::SleepUnasked,
        Race::TakeUnclaimed,
    ];
}

#[cfg(feature = "explore")]
mod hooks {
    use super::Race;
    use std::cell::Cell;

    // The explorer's threads are all on this one.
    thread_local! {
        static PLANTED: Cell<Option<Race>> = const { Cell::new(None) };
    }

    /// Whether this race is planted on this thread.
    #[inline]
    pub fn planted(race: Race) -> bool {
        PLANTED.get() == Some(race)
    }

    /// Plants a race on this thread, or none.
    pub fn plant(race: Option<Race>) {
        PLANTED.set(race);
    }
}

#[cfg(feature = "explore")]
pub use hooks::{plant, planted};

/// Whether this race is planted: never, in the product.
#[cfg(not(feature = "explore"))]
#[inline(always)]
pub const fn planted(_race: Race) -> bool {
    false
}
