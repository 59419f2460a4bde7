//! The rest of a request that has begun to come: a client that does not send it holds a place.

use crate::connection::Connection;
use crate::wire::Wire;
use std::cell::Cell;

/// What is known of a request that has come in part.
#[derive(Default)]
pub(crate) struct Rest {
    /// Since when more of it is awaited, on the lane's clock.
    since_ns: Cell<Option<u64>>,
    /// It was let in, and its payload is awaited.
    pub(crate) is_let_in: Cell<bool>,
    /// It was awaited for too long.
    pub(crate) is_late: Cell<bool>,
}

impl Rest {
    pub(crate) fn is_awaited(&self) -> bool {
        self.since_ns.get().is_some()
    }

    /// More of it is awaited, from now on.
    pub(crate) fn await_from(&self, now_ns: u64) {
        self.since_ns.set(Some(now_ns));
    }

    /// What was awaited has come.
    pub(crate) fn has_come(&self) {
        self.since_ns.set(None);
    }
}

/// While all places are taken: hangs up on a client that does not send the rest of a request. To look
/// from time to time costs nothing for each request, and nothing at all while there is a place.
pub(crate) async fn watch<W: Wire>(connection: &Connection<W>) {
    let Some(rest_ms) = connection.rest_ms else { return std::future::pending().await };
    let rest_ns = rest_ms.saturating_mul(1_000_000);
    loop {
        connection.places.full().await;
        let now_ns = connection.lane.now();
        let since_ns = connection.rest.since_ns.get();
        if since_ns.is_some_and(|since_ns| now_ns - since_ns >= rest_ns) {
            connection.rest.is_late.set(true);
            connection.wire.shutdown();
            return std::future::pending().await;
        }
        connection.lane.sleep_until(now_ns + rest_ns / 2).await;
    }
}
