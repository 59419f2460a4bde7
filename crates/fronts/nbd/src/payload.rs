//! Payloads of writes in the receiver: they follow the header, and must be received even if the
//! request fails.

use crate::codec::*;
use crate::connection::{Connection, Pending};
use crate::end::{End, until};
use crate::outbox::{Header, ReplyKind};
use crate::receiver::{Receiver, Step};
use block::Wire;
use export::{Buffer, Deadline};
use std::ops::Range;
use std::pin::pin;

/// A payload with at least this number of bytes missing is received directly into its buffer.
const DIRECT_BYTES_MIN: usize = 64 << 10;

const MIB: usize = 1 << 20;

impl<W: Wire> Receiver<W> {
    /// Admits a write with a buffer of `bytes` bytes, and receives its payload into `part` of the
    /// buffer. None: it was refused, and has been answered.
    pub(crate) async fn take_in(
        &mut self,
        cookie: u64,
        bytes: usize,
        part: Range<usize>,
    ) -> Result<Option<Pending>, End> {
        let connection = self.connection.clone();
        let buffer = match connection.admit(bytes).await {
            Ok(buffer) => buffer,
            Err(error) => {
                let reply_kind = ReplyKind::Stored;
                let reply =
                    Header::without_data(connection.features, cookie, reply_kind, Err(error));
                return self.refuse(reply, part.len()).await.map(|()| None);
            }
        };
        connection.rest.is_admitted.set(true);
        let taken = self.take_payload(&buffer, part).await;
        connection.rest.is_admitted.set(false);
        connection.rest.has_come();
        if let Err(end) = taken {
            connection.client.withdraw(buffer);
            return Err(end);
        }
        Ok(Some(Pending { cookie, reply_kind: ReplyKind::Stored, buffer }))
    }

    /// Moves a write's payload into its part of the buffer; a large rest is received there
    /// directly.
    async fn take_payload(&mut self, buffer: &Option<Buffer>, part: Range<usize>) -> Step {
        let Some(buffer) = buffer else { return Ok(()) };
        let (memory, offset, length) = (buffer.memory(), part.start, part.len());
        let mut filled = self.inbox.copy_out(memory, offset, length);
        let mut awaited_from = None;
        while filled < length {
            let rest = length - filled;
            // Each MiB has its own time limit.
            if awaited_from.replace(filled / MIB) != Some(filled / MIB) {
                self.connection.rest.await_from(self.connection.client.lane().now());
            }
            if rest < DIRECT_BYTES_MIN {
                self.receive_rest().await?;
                filled += self.inbox.copy_out(memory, offset + filled, rest);
                continue;
            }
            let Connection { wire, client, outbox, .. } = &*self.connection;
            let receive = pin!(wire.receive(memory, offset + filled, rest));
            let received = outbox.wait_for(receive, wire, client).await;
            self.arrived(received)?;
            filled += received.unwrap_or(0).min(rest);
        }
        Ok(())
    }

    /// Refuses a request after its payload: clients expect no reply to a request that they are
    /// still sending. The payload is discarded, and does not count in the budget.
    pub(crate) async fn refuse(&mut self, reply: Header, payload_bytes: usize) -> Step {
        if payload_bytes > PAYLOAD_BYTES_MAX as usize {
            return Err(End::Malformed("a write of more than 32 MiB"));
        }
        if payload_bytes > 0 {
            self.skip(payload_bytes).await?;
        }
        let Connection { wire, client, outbox, .. } = &*self.connection;
        outbox.answer(reply, wire, client).await;
        Ok(())
    }

    /// Discards the next bytes, with a time limit.
    async fn skip(&mut self, length: usize) -> Step {
        let connection = self.connection.clone();
        let deadline = Deadline::new(connection.client.lane(), connection.rest_ms);
        let over = async {
            deadline.wait().await;
            End::TimedOut
        };
        let skipping = async {
            let mut rest = length;
            loop {
                let count = rest.min(self.inbox.available());
                self.inbox.consume(count);
                rest -= count;
                if rest == 0 {
                    return Ok(());
                }
                self.receive_rest().await?;
            }
        };
        until(&connection.wire, over, skipping).await
    }
}
