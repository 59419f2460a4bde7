//! The server: one call serves one connection.

use crate::budget::Budget;
use crate::connection::Connection;
use crate::export::Exports;
use crate::handshake::{Agreed, Handshake};
use crate::places::Places;
use crate::receiver::Receiver;
use crate::sender;
use crate::stop::{Deadline, Stop, either, until};
use crate::wire::Wire;
use block::{Error, Limits};
use lane::{Lane, TASKS_MAX};
use std::fmt;
use std::rc::Rc;
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
    fn bounded(mut self) -> Options {
        self.in_flight_max = self.in_flight_max.clamp(1, 256);
        self.buffer_bytes = self.buffer_bytes.clamp(128 << 10, 16 << 20);
        self
    }
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// The client said goodbye (`NBD_CMD_DISC`, `NBD_OPT_ABORT`).
    Disconnected,
    /// The client went without a word.
    Closed,
    /// The server was asked to stop.
    Stopped,
    /// The handshake took too long, or the rest of a request where that is limited.
    TimedOut,
    /// The client asked for an export that does not exist, in the way that knows no other answer.
    Refused,
    /// The lane has no task slot free.
    Busy,
    /// What the client sent breaks the protocol: this was found.
    Malformed(&'static str),
    /// The wire failed.
    Failed(Error),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Disconnected => write!(f, "the client disconnected"),
            End::Closed => write!(f, "the client closed the connection"),
            End::Stopped => write!(f, "the server is stopping"),
            End::TimedOut => write!(f, "the client took too long"),
            End::Refused => write!(f, "the client asked for an export that does not exist"),
            End::Busy => write!(f, "the lane has no free task slot; serve fewer connections"),
            End::Malformed(found) => write!(f, "the client broke the protocol: {found}"),
            End::Failed(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

/// Serves one connection until it has ended. When this returns, every request that was started has
/// ended, and the session and the wire have been dropped. Only what a stalled backing keeps goes on
/// behind, as tasks of the lane that know nothing of the connection.
///
/// To be run as a task of `lane`, which is the lane of every export's stack. It takes one more task
/// slot for sending, and one for each request that is under way.
pub async fn serve<W: Wire>(lane: Lane, wire: W, exports: Rc<Exports>, options: Options) -> End {
    let options = options.bounded();
    let handshake = Handshake::new(&wire, &exports);
    let deadline = Deadline::new(&lane, options.handshake_ms);
    let over = handshake_over(&options.stop, deadline);
    let agreed = match until(&wire, over, handshake.run()).await {
        Ok(agreed) => agreed,
        Err(end) => return end,
    };
    drop(exports);
    if lane.tasks() >= TASKS_MAX {
        return End::Busy;
    }
    transmit(&lane, wire, agreed, options).await
}

async fn transmit<W: Wire>(lane: &Lane, wire: W, agreed: Agreed, mut options: Options) -> End {
    let Agreed { export, features, inbox } = agreed;
    if let Some(stop) = &export.stop {
        options.stop = stop.clone();
    }
    let limits: Limits = export.limits();
    let session = (export.session)();
    let inbox = inbox.resized(options.buffer_bytes);
    let connection = Connection::new(wire, export.stack.clone(), limits, features, &options);
    drop(export);
    if lane.spawn(sender::run(connection.clone())).is_err() {
        return End::Busy;
    }
    let inline_bytes_max = options.buffer_bytes / 4;
    Receiver::new(connection, inbox, session, inline_bytes_max).run().await
}

/// How a handshake ends that does not end by itself.
async fn handshake_over(stop: &Stop, deadline: Deadline) -> End {
    either(stop.wait(), deadline.wait()).await;
    if stop.is_asked() { End::Stopped } else { End::TimedOut }
}
