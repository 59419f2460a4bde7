//! Retries of a backing that fails: for a limited time and at growing intervals; then the volume
//! has failed (C8).

use lane::Lane;

/// The first pause after an error of the backing, in nanoseconds; doubled each time ...
const PAUSE_NS: u64 = 5_000_000;
/// ... up to this.
const PAUSE_NS_MAX: u64 = 500_000_000;

/// Pauses between attempts.
pub(crate) struct Pauses {
    next_ns: u64,
}

impl Pauses {
    pub(crate) fn new() -> Pauses {
        Pauses { next_ns: PAUSE_NS }
    }

    /// Pauses, longer each time.
    pub(crate) async fn pause(&mut self, lane: &Lane) {
        let until_ns = lane.now() + self.next_ns;
        self.next_ns = (self.next_ns * 2).min(PAUSE_NS_MAX);
        lane.sleep_until(until_ns).await;
    }
}
