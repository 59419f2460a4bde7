//! Limits the number of polling lanes of a process to the number of spare processors.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of polling lanes.
pub(crate) struct PollingLanes {
    polling: AtomicUsize,
}

/// The polling lanes of this process.
pub(crate) static POLLING_LANES: PollingLanes = PollingLanes::new();

/// The right to poll, until it is dropped.
pub(crate) struct Permit<'a>(&'a PollingLanes);

impl PollingLanes {
    const fn new() -> PollingLanes {
        PollingLanes { polling: AtomicUsize::new(0) }
    }

    /// Permits another lane to poll, if fewer than `most` do.
    pub(crate) fn take(&self, most: usize) -> Option<Permit<'_>> {
        let more = |polling: usize| (polling < most).then_some(polling + 1);
        let taken = self.polling.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.polling.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns how many lanes may poll: at most as many as this process has processors, while one
/// online processor stays free for clients, which may run on any processor.
fn lanes_max(ours: usize, online: usize) -> usize {
    ours.min(online.saturating_sub(1))
}

/// Returns how many lanes of this process may poll, from its affinity, its quota, and the machine's
/// processors.
pub(crate) fn polling_lanes_max() -> usize {
    let ours = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: the call takes a number and returns one.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    lanes_max(ours, usize::try_from(online).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_stays_free_for_clients() {
        assert_eq!(lanes_max(1, 1), 0, "a client could not run");
        assert_eq!(
            (lanes_max(2, 2), lanes_max(1, 2), lanes_max(8, 8), lanes_max(4, 8)),
            (1, 1, 7, 4)
        );
        assert_eq!(lanes_max(1, 0), 0);
    }

    #[test]
    fn at_most_the_permitted_number_of_lanes_polls() {
        let spare = PollingLanes::new();
        assert!(spare.take(0).is_none());
        let first = spare.take(2).expect("the first of two");
        let second = spare.take(2).expect("the second of two");
        assert!(spare.take(2).is_none());
        drop(first);
        assert!(spare.take(1).is_none(), "there are fewer by now");
        let third = spare.take(2).expect("a place is free");
        drop((second, third));
        assert_eq!(spare.polling.into_inner(), 0);
    }
}
