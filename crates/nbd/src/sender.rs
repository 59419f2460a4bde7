//! The task beside the receiver: it sends replies that come while the receiver waits, and it
//! notices when the server is to stop, and when a client takes too long.

use crate::connection::Connection;
use crate::rest;
use crate::stop::{Deadline, either};
use crate::wire::Wire;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

/// Runs until the receiver has left.
pub(crate) async fn run<W: Wire>(connection: Rc<Connection<W>>) {
    let mut sending = pin!(send(&connection));
    // Waits and nothing else: they may be dropped. Beside the sending, because that may be stuck
    // with a client that does not read.
    let mut stopping = pin!(watch_stop(&connection));
    let mut hurrying = pin!(rest::watch(&connection));
    std::future::poll_fn(|context| {
        let _ = stopping.as_mut().poll(context);
        let _ = hurrying.as_mut().poll(context);
        sending.as_mut().poll(context)
    })
    .await;
    connection.sender_gone.set(true);
    connection.room.notify();
}

/// Requests that end together are all in the outbox before this task is polled: they share a send.
async fn send<W: Wire>(connection: &Connection<W>) {
    loop {
        let seen = connection.work.seen();
        connection.send_ready().await;
        connection.room.notify();
        if connection.closed.get() {
            return;
        }
        connection.work.after(seen).await;
    }
}

/// Once the server is to stop: says that this was all as soon as everything is answered, and gives
/// the client a moment to go. Shuts the wire down when time is over, which ends the receiver's wait.
async fn watch_stop<W: Wire>(connection: &Connection<W>) {
    connection.stop.wait().await;
    let deadline = Deadline::new(&connection.lane, connection.drain_ms);
    loop {
        let seen = connection.room.seen();
        if connection.receiving.get() && connection.is_idle() {
            connection.wire.finish();
            Deadline::new(&connection.lane, connection.linger_ms).wait().await;
            break;
        }
        if deadline.has_come() {
            break;
        }
        either(connection.room.after(seen), deadline.wait()).await;
    }
    connection.wire.shutdown();
    std::future::pending().await
}
