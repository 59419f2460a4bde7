//! The task beside the receiver: it sends replies that come while the receiver waits, and it
//! notices when the server is to stop, and when a client takes too long.

use crate::connection::Connection;
use block::Wire;
use export::Deadline;
use lane::first;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

/// Runs until the receiver has left.
pub(crate) async fn run<W: Wire>(connection: Rc<Connection<W>>) {
    let mut sending = pin!(send(&connection));
    // Waits and nothing else: they may be dropped. Beside the sending, because that may be stuck
    // with a client that does not read.
    let mut stopping = pin!(watch_stop(&connection));
    let mut hurrying = pin!(watch_rest(&connection));
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
    connection.client.stop().wait().await;
    let deadline = Deadline::new(connection.client.lane(), connection.drain_ms);
    loop {
        let seen = connection.room.seen();
        if connection.receiving.get() && connection.is_idle() {
            connection.wire.finish();
            Deadline::new(connection.client.lane(), connection.linger_ms).wait().await;
            break;
        }
        if deadline.has_come() {
            break;
        }
        first(connection.room.after(seen), deadline.wait()).await;
    }
    connection.wire.shutdown();
    std::future::pending().await
}

/// While all places are taken: hangs up on a client that does not send the rest of a request. To look
/// from time to time costs nothing for each request, and nothing at all while there is a place.
async fn watch_rest<W: Wire>(connection: &Connection<W>) {
    let Some(rest_ms) = connection.rest_ms else { return std::future::pending().await };
    let rest_ns = rest_ms.saturating_mul(1_000_000);
    loop {
        connection.places.full().await;
        let now_ns = connection.client.lane().now();
        let since_ns = connection.rest.since_ns.get();
        if since_ns.is_some_and(|since_ns| now_ns - since_ns >= rest_ns) {
            connection.rest.is_late.set(true);
            connection.wire.shutdown();
            return std::future::pending().await;
        }
        connection.client.lane().sleep_until(now_ns + rest_ns / 2).await;
    }
}
