//! The server: each call serves one connection.

use crate::connection::Connection;
use crate::end::{End, until};
use crate::exports::{Exports, limits};
use crate::handshake::{Agreed, Handshake};
use crate::options::Options;
use crate::receiver::Receiver;
use crate::sender;
use block::Wire;
use export::{Client, Deadline, Stop};
use lane::{Lane, TASKS_MAX, first};
use std::rc::Rc;

/// Serves one connection until it has ended. When this returns, all started requests have ended,
/// and the session and the wire have been dropped. Only requests of a stalled backing continue, as
/// separate tasks of the lane without a reference to the connection.
///
/// Run it as a task of `lane`, which is the lane of all exports' stacks. It uses one more task slot
/// for sending, and one for each request in flight.
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

async fn transmit<W: Wire>(lane: &Lane, wire: W, agreed: Agreed, options: Options) -> End {
    let Agreed { export, features, inbox } = agreed;
    let client = Client::new(&export, limits(&export), &options.stop, options.bounds());
    drop(export);
    let inbox = inbox.resized(options.buffer_bytes);
    let connection = Connection::new(wire, client, features, &options);
    if lane.spawn(sender::run(connection.clone())).is_err() {
        return End::Busy;
    }
    let inline_bytes_max = options.buffer_bytes / 4;
    Receiver::new(connection, inbox, inline_bytes_max).run().await
}

/// Waits until a handshake that has not ended must end: when the server stops, or at the deadline.
async fn handshake_over(stop: &Stop, deadline: Deadline) -> End {
    first(stop.wait(), deadline.wait()).await;
    if stop.is_asked() { End::Stopped } else { End::TimedOut }
}
