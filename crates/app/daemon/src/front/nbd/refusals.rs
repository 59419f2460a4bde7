//! Messages about clients that were refused because of TLS.

use nbd::End;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time between two messages, in nanoseconds: clients may come as often as they like.
const PAUSE_NS: u64 = 1_000_000_000;

/// Number of clients that this process has refused because of TLS.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of clients that were refused because of TLS, at all addresses.
pub(crate) fn tls_refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// The refused clients of a front, on all lanes.
#[derive(Default)]
pub(super) struct Refusals {
    /// Time before which no further message is printed.
    silent_until_ns: AtomicU64,
    /// Number of refused clients about which no message was printed.
    unreported: AtomicU64,
}

impl Refusals {
    /// Counts a connection that ended because of TLS, and prints the reason, at most once per
    /// second.
    pub(super) fn report(&self, front: &str, end: End, now_ns: u64) {
        if !matches!(end, End::Unprotected | End::Untrusted(_)) {
            return;
        }
        REFUSED.fetch_add(1, Ordering::Relaxed);
        let until_ns = self.silent_until_ns.load(Ordering::Relaxed);
        let next_ns = now_ns.saturating_add(PAUSE_NS);
        let order = Ordering::Relaxed;
        let is_due = now_ns >= until_ns
            && self.silent_until_ns.compare_exchange(until_ns, next_ns, order, order).is_ok();
        if !is_due {
            self.unreported.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match self.unreported.swap(0, Ordering::Relaxed) {
            0 => crate::tell!("overdrive: {front}: {end}"),
            more => {
                crate::tell!("overdrive: {front}: {end}; refused since the last message: {more}")
            }
        }
    }
}
