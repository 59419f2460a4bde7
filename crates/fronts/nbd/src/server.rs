//! The server: each call serves one connection.

use crate::connection::Connection;
use crate::end::{End, until};
use crate::exports::{Exports, limits};
use crate::handshake::{Agreed, Entry, Handshake, Protection};
use crate::options::Options;
use crate::receiver::Receiver;
use crate::sender;
use block::Wire;
use export::{Client, Deadline};
use lane::{Lane, TASKS_MAX, first};
use std::future::Future;
use std::rc::Rc;
use tls::TlsWire;

/// Serves one connection until it has ended. When this returns, all started requests have ended,
/// and the session and the wire have been dropped. Only requests of a stalled backing continue, as
/// separate tasks of the lane without a reference to the connection.
///
/// Run it as a task of `lane`, which is the lane of all exports' stacks. It uses one more task slot
/// for sending, and one for each request in flight.
pub async fn serve<W: Wire>(lane: Lane, wire: W, exports: Rc<Exports>, options: Options) -> End {
    let options = options.bounded();
    let deadline = Deadline::new(&lane, options.handshake_ms);
    let opening = Opening { lane, exports, options, deadline };
    let handshake = Handshake::new(&wire, &opening.exports, opening.protection());
    match opening.within_time(&wire, handshake.run()).await {
        Err(end) => end,
        Ok(Entry::Transmission(agreed)) => opening.transmit(wire, agreed).await,
        Ok(Entry::Tls { zeroes }) => opening.protect(wire, zeroes).await,
    }
}

/// A connection before transmission.
struct Opening {
    lane: Lane,
    exports: Rc<Exports>,
    options: Options,
    /// The end of the time for both handshakes, of NBD and of TLS.
    deadline: Deadline,
}

impl Opening {
    /// Returns the protection of a connection at its beginning.
    fn protection(&self) -> Protection {
        match &self.options.tls {
            None => Protection::Refused,
            Some(tls) if tls.is_required() => Protection::Required,
            Some(_) => Protection::Offered,
        }
    }

    /// Runs a part of the handshake. It must end when the server stops, or at the deadline.
    async fn within_time<T>(
        &self,
        wire: &impl Wire,
        part: impl Future<Output = Result<T, End>>,
    ) -> Result<T, End> {
        let over = async {
            let stop = &self.options.stop;
            first(stop.wait(), self.deadline.wait()).await;
            if stop.is_asked() { End::Stopped } else { End::TimedOut }
        };
        until(wire, over, part).await
    }

    /// Starts TLS, and begins the handshake again.
    async fn protect<W: Wire>(self, wire: W, zeroes: bool) -> End {
        let Some(tls) = &self.options.tls else { return End::Unprotected };
        let wire = TlsWire::new(wire, tls.session());
        let trusting = async { wire.handshake().await.map_err(End::Untrusted) };
        if let Err(end) = self.within_time(&wire, trusting).await {
            return end;
        }
        let handshake = Handshake::protected(&wire, &self.exports, zeroes);
        match self.within_time(&wire, handshake.serve_options()).await {
            Ok(Entry::Transmission(agreed)) => self.transmit(wire, agreed).await,
            Ok(Entry::Tls { .. }) => End::Malformed("TLS within TLS"),
            Err(end) => {
                if end == End::Disconnected {
                    let announcing = async {
                        wire.finish().await;
                        Ok(())
                    };
                    let _ = self.within_time(&wire, announcing).await;
                }
                end
            }
        }
    }

    async fn transmit<W: Wire>(self, wire: W, agreed: Agreed) -> End {
        let Opening { lane, exports, options, .. } = self;
        drop(exports);
        if lane.tasks() >= TASKS_MAX {
            return End::Busy;
        }
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
}
