//! The server: one call serves one connection.

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

/// How a handshake ends that does not end by itself.
async fn handshake_over(stop: &Stop, deadline: Deadline) -> End {
    first(stop.wait(), deadline.wait()).await;
    if stop.is_asked() { End::Stopped } else { End::TimedOut }
}
