//! What is done about a backing that fails: it is tried again, for so long and ever less often; then the volume
//! has failed (C8).

use crate::arena::superblock::Condition;
use crate::epochs::Order;
use crate::request::Handle;
use crate::shared::Shared;
use block::{Error, Kind};
use core::sync::atomic::Ordering;
use lane::Lane;

/// The first pause after an error of the backing, in nanoseconds; doubled each time ...
const PAUSE_NS: u64 = 5_000_000;
/// ... up to this.
const PAUSE_NS_MAX: u64 = 500_000_000;

pub(crate) const TAINTED: Error =
    Error::new(Kind::Io, "flush: the flush of an earlier FUA write failed");

/// Pauses between attempts.
pub(crate) struct Pauses {
    next_ns: u64,
}

impl Pauses {
    pub(crate) fn new() -> Pauses {
        Pauses { next_ns: PAUSE_NS }
    }

    /// Pauses, each time for longer.
    pub(crate) async fn pause(&mut self, lane: &Lane) {
        let until_ns = lane.now() + self.next_ns;
        self.next_ns = (self.next_ns * 2).min(PAUSE_NS_MAX);
        lane.sleep_until(until_ns).await;
    }
}

impl Handle {
    /// The backing has failed: try again for so long, then the volume fails (C8). `kind`: which error to
    /// count.
    pub(crate) async fn trouble(&self, error: Error, kind: usize, retry_time_ns: u64) {
        let shared = &self.shared;
        shared.errors[kind].fetch_add(1, Ordering::Relaxed);
        self.lane.turn().await;
        let now = self.lane.now();
        let goes_on = shared.order.with(|order| {
            let goes_on = order.trouble(now, retry_time_ns);
            if !goes_on {
                shared.fail(order, error);
            }
            goes_on
        });
        if !goes_on {
            shared.tell_everybody();
        }
    }
}

impl Shared {
    /// The volume fails, if it has not yet. It is noted where it outlives the process before anybody
    /// can hear of it; whoever waits is then to be told by [`Shared::tell_everybody`].
    pub(crate) fn fail(&self, order: &mut Order, error: Error) {
        if order.fail(error) {
            self.arena.note_condition(Condition::Failed);
            self.failed.store(true, Ordering::SeqCst);
        }
    }

    /// Whether no flush has failed since `flush_failures` was this. One that failed while something was under
    /// way may have taken it along; whoever saw to that did not find it written yet. To be asked in the
    /// section that notes the end, or after the end was noted: either that finds it, or this finds that.
    pub(crate) fn has_kept(&self, failures: u64) -> bool {
        self.flush_failures.load(Ordering::SeqCst) == failures
    }

    /// Wakes everybody whom it concerns that the volume has failed.
    pub(crate) fn tell_everybody(&self) {
        self.order_changed.notify();
        self.work.notify();
        self.kick.notify();
        self.pace.work_ends();
        // Writers that wait for room must hear that there will be none.
        self.rooms.iter().for_each(|room| room.changed.notify());
        self.freed.notify();
    }
}
