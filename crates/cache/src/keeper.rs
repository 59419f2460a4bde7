//! The keeper, one task a volume: writes out in time, so that `dirty_age` and `dirty_bytes` hold without
//! a client's flush (C6); in `ordered` mode, also what clients' flushes have closed.

use crate::cache::Handle;
use crate::crew::first;
use crate::shared::Shared;
use core::sync::atomic::Ordering;

impl Shared {
    /// Nobody knows how old it is what was recovered. It is written out at once; that writers wait for
    /// all of it, as for what is too old, would be a wall.
    fn date_recovered(&self, now_ns: u64) {
        let since = &self.gauges.open_since;
        let _ = since.compare_exchange(1, now_ns + 1, Ordering::Relaxed, Ordering::Relaxed);
        self.order.with(|order| {
            order.date_recovered(now_ns + 1);
            self.show_closed(order);
        });
    }

    /// What the keeper must do.
    fn due(&self, now_ns: u64) -> Due {
        if self.has_failed() {
            return Due::Nothing;
        }
        let since = self.gauges.open_since.load(Ordering::Relaxed);
        if self.gauges.urgent.swap(false, Ordering::SeqCst) {
            self.writes_urgent.fetch_add(1, Ordering::Relaxed);
            return Due::All;
        }
        let open = self.gauges.open.load(Ordering::Relaxed);
        let full = open > 0 && open * 4 >= self.gauges.dirty_limit(&self.settings.now());
        // Half of the age is for waiting, half for writing.
        let at_ns = (since.saturating_sub(1)).saturating_add(self.settings.dirty_age_ns() / 2);
        if since > 0 && (full || at_ns <= now_ns) {
            return Due::All;
        }
        if self.gauges.is_ordered() && self.gauges.closed.load(Ordering::SeqCst) > 0 {
            return Due::Closed;
        }
        if since > 0 { Due::At { ns: at_ns } } else { Due::Nothing }
    }
}

/// What the keeper must do.
enum Due {
    /// Write out everything.
    All,
    /// Write out what is closed: nobody else does (`ordered`).
    Closed,
    /// Look again at this time, or when something happens.
    At { ns: u64 },
    /// Wait until something happens.
    Nothing,
}

/// Keeps until the volume stops.
pub(crate) async fn keep(handle: &Handle) {
    let shared = &handle.shared;
    if shared.gauges.is_ordered() {
        handle.lane.turn().await;
        shared.date_recovered(handle.lane.now());
    }
    loop {
        let seen = shared.kick.seen();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        // An error has been counted and told to whoever waits; here nobody asks.
        match shared.due(handle.lane.now()) {
            Due::All => _ = handle.flush().await,
            Due::Closed => _ = handle.write_out_closed().await,
            Due::At { ns } => {
                let kicked = shared.kick.after(seen);
                first(kicked, handle.lane.sleep_until(ns)).await;
            }
            Due::Nothing => shared.kick.after(seen).await,
        }
    }
}
