//! The second task of a connection: sends replies that become ready while the receiver waits, and
//! notices when the server stops or a client takes too long.

use crate::connection::Connection;
use block::Wire;
use export::Deadline;
use lane::first;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

/// Runs until the receiver has ended.
pub(crate) async fn run<W: Wire>(connection: Rc<Connection<W>>) {
    let mut sending = pin!(send(&connection));
    // These only wait and may be dropped. They run in parallel with the sending, which a client
    // that does not read can block.
    let mut stopping = pin!(watch_stop(&connection));
    let mut hurrying = pin!(watch_rest(&connection));
    std::future::poll_fn(|context| {
        let _ = stopping.as_mut().poll(context);
        let _ = hurrying.as_mut().poll(context);
        sending.as_mut().poll(context)
    })
    .await;
    connection.sender_gone.set(true);
    connection.outbox.room.notify();
}

/// Requests that end together are all in the outbox before this task is polled, so they share a
/// send.
async fn send<W: Wire>(connection: &Connection<W>) {
    let mut has_finished = false;
    loop {
        let seen = connection.work.seen();
        connection.outbox.send_ready(&connection.wire, &connection.client).await;
        if connection.is_finishing.get() && !has_finished {
            has_finished = true;
            connection.wire.finish().await;
        }
        connection.outbox.room.notify();
        if connection.closed.get() {
            return;
        }
        connection.work.after(seen).await;
    }
}

/// Once the server stops: ends the sending direction as soon as all requests are answered, and
/// gives the client time to leave. Shuts the wire down when that time is over, which ends the
/// receiver's wait.
async fn watch_stop<W: Wire>(connection: &Connection<W>) {
    connection.client.stop().wait().await;
    let deadline = Deadline::new(connection.client.lane(), connection.drain_ms);
    loop {
        let seen = connection.outbox.room.seen();
        if connection.outbox.receiving.get() && connection.is_idle() {
            connection.is_finishing.set(true);
            connection.work.notify();
            Deadline::new(connection.client.lane(), connection.linger_ms).wait().await;
            break;
        }
        if deadline.has_come() {
            break;
        }
        first(connection.outbox.room.after(seen), deadline.wait()).await;
    }
    connection.wire.shutdown();
    std::future::pending().await
}

/// While all places are taken: disconnects a client that does not send the rest of a request. A
/// periodic check has no cost per request, and none while a place is free.
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
