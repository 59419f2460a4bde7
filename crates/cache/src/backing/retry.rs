//! What is done about a backing that fails: it is tried again, for so long and ever less often; then the volume
//! has failed (C8).

use crate::arena::superblock::Condition;
use crate::epochs::Epochs;
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
    pub(crate) async fn backing_failed(&self, error: Error, kind: usize, retry_time_ns: u64) {
        let shared = &self.shared;
        shared.errors[kind].fetch_add(1, Ordering::Relaxed);
        self.lane.turn().await;
        let now = self.lane.now();
        let goes_on = shared.epochs.with(|epochs| {
            let goes_on = epochs.backing_failed(now, retry_time_ns);
            if !goes_on {
                shared.fail(epochs, error);
            }
            goes_on
        });
        if !goes_on {
            shared.wake_all();
        }
    }
}

impl Shared {
    /// The volume fails, if it has not yet. It is noted where it outlives the process before a client
    /// can hear of it; what waits is then to be told by [`Shared::wake_all`].
    pub(crate) fn fail(&self, epochs: &mut Epochs, error: Error) {
        if epochs.fail(error) {
            self.arena.note_condition(Condition::Failed);
            self.failed.store(true, Ordering::SeqCst);
        }
    }

    /// Whether no flush has failed since `flush_failures` was this. One that failed while a write was in
    /// flight may have taken it along, and did not find it written yet. To be asked in the section that notes the
    /// write's end, or after the end was noted. Either the failed flush marks the blocks dirty again, or this
    /// check sees the failure.
    pub(crate) fn has_kept(&self, failures: u64) -> bool {
        self.flush_failures.load(Ordering::SeqCst) == failures
    }

    /// Wakes every task that must hear that the volume has failed.
    pub(crate) fn wake_all(&self) {
        self.epochs_changed.notify();
        self.work.notify();
        self.kick.notify();
        self.throttle.work_ends();
        // Writers that wait for room must hear that there will be none.
        self.shards.iter().for_each(|entry| entry.changed.notify());
        self.freed.notify();
    }
}
