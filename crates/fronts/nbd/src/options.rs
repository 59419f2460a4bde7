//! Settings of connections.

use crate::connection_limit::ConnectionLimit;
use export::{Bounds, Budget, Stop};
use std::sync::Arc;
use tls::ServerTls;

/// Settings of connections. Values out of range are replaced by the nearest bound.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time limit of the handshake, in milliseconds; None: no limit (for simulated worlds whose
    /// seed may let time pass at any moment).
    pub handshake_ms: Option<u64>,
    /// Time for which a client may still receive its last replies after the end, in milliseconds;
    /// None: no limit.
    pub drain_ms: Option<u64>,
    /// Time for which incoming data is received and discarded after the server has stopped and has
    /// sent its last reply, in milliseconds: closing a connection before the client has read the
    /// end may destroy replies. None: until the client closes it.
    pub linger_ms: Option<u64>,
    /// Time limit for the payload of a refused write, in milliseconds: the payload is discarded
    /// before the refusal is sent. While all places are taken, also the time (plus up to half of
    /// it) for the rest of any request, and for each MiB of a payload. None: no limit.
    pub rest_ms: Option<u64>,
    /// Requests of one connection in flight at a time: 1 to 256. A request that is answered
    /// immediately is never in flight.
    pub in_flight_max: usize,
    /// Memory for their payloads, in bytes. One request is always admitted.
    pub in_flight_bytes_max: usize,
    /// Size of the receive buffer and of each of the two send buffers, in bytes: 128 KiB to 16 MiB.
    /// They are allocated after the handshake; until then a client uses only a few KiB.
    pub buffer_bytes: usize,
    /// Limits on the requests in flight of all connections whose options are clones of these.
    pub budget: Arc<Budget>,
    /// The places for connections, of which this connection takes one.
    pub places: Arc<ConnectionLimit>,
    /// The protection of connections. None: TLS is refused.
    pub tls: Option<Arc<ServerTls>>,
    /// The stop that ends the connection.
    pub stop: Arc<Stop>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            handshake_ms: Some(10_000),
            drain_ms: Some(10_000),
            linger_ms: Some(500),
            rest_ms: Some(10_000),
            in_flight_max: 128,
            in_flight_bytes_max: 64 << 20,
            buffer_bytes: 256 << 10,
            budget: Arc::default(),
            places: Arc::default(),
            tls: None,
            stop: Arc::new(Stop::new()),
        }
    }
}

impl Options {
    /// Returns the options with each value within its bounds.
    pub(crate) fn bounded(mut self) -> Options {
        self.in_flight_max = self.in_flight_max.clamp(1, 256);
        self.buffer_bytes = self.buffer_bytes.clamp(128 << 10, 16 << 20);
        self
    }

    /// Returns the limits on one connection's requests in flight.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            in_flight_max: self.in_flight_max,
            in_flight_bytes_max: self.in_flight_bytes_max,
            budget: self.budget.clone(),
        }
    }
}
