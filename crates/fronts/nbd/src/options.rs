//! How connections are served.

use crate::places::Places;
use export::{Bounds, Budget, Stop};
use std::sync::Arc;

/// How connections are served. Values outside their bounds are moved to the nearest bound.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the handshake may take, in milliseconds; None: as long as it likes (a world whose
    /// seed may let time pass at any moment has no use for limits).
    pub handshake_ms: Option<u64>,
    /// How long a client may take for its last replies after the end has come, in milliseconds;
    /// None: as long as it likes.
    pub drain_ms: Option<u64>,
    /// How long what still comes in is taken and thrown away, once the server is to stop and has
    /// said all that it will say, in milliseconds: a connection that is closed before the client has
    /// read the end may lose replies. None: until the client closes it.
    pub linger_ms: Option<u64>,
    /// How long the payload of a refused write may take to come, in milliseconds: it is thrown away
    /// before the refusal is sent. While all places are taken: how long, and half as long again, the
    /// rest of any request may take, and each MiB of a payload. None: as long as it likes.
    pub rest_ms: Option<u64>,
    /// Requests of one connection that are under way at a time: 1 to 256. What is answered at once
    /// is never under way.
    pub in_flight_max: usize,
    /// Memory for their payloads, in bytes. One request is always let in.
    pub in_flight_bytes_max: usize,
    /// Size of the receive buffer and of each of two send buffers, in bytes: 128 KiB to 16 MiB.
    /// They come when the handshake has ended; until then a client costs a few KiB.
    pub buffer_bytes: usize,
    /// What all connections with clones of these options may have under way together.
    pub budget: Arc<Budget>,
    /// The places of which this connection has one.
    pub places: Arc<Places>,
    /// Ends the connection when it is asked.
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
            stop: Arc::new(Stop::new()),
        }
    }
}

impl Options {
    /// With every value inside its bounds.
    pub(crate) fn bounded(mut self) -> Options {
        self.in_flight_max = self.in_flight_max.clamp(1, 256);
        self.buffer_bytes = self.buffer_bytes.clamp(128 << 10, 16 << 20);
        self
    }

    /// What one connection may have under way.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            in_flight_max: self.in_flight_max,
            in_flight_bytes_max: self.in_flight_bytes_max,
            budget: self.budget.clone(),
        }
    }
}
