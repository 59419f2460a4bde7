//! Requests that begin or end inside a block, sent by clients that ignore block sizes.
//!
//! Their buffers have room for the whole blocks; the payload is at its position within these.

use crate::codec::*;
use crate::connection::window;
use crate::end::End;
use crate::outbox::{ReplyKind, bytes_of};
use crate::receiver::Receiver;
use block::Wire;
use block::{Extent, Padding, Request};

impl<W: Wire> Receiver<W> {
    /// Serves a request for a part of the blocks `at`, without the padding.
    pub(crate) async fn serve_part(
        &mut self,
        header: &RequestHeader,
        at: Extent,
        padding: Padding,
    ) -> Result<(), End> {
        let (command, cookie, length) = (header.command, header.cookie, header.length as usize);
        if command == NBD_CMD_CACHE {
            // The whole blocks around it are just as useful.
            self.advise(cookie, at).await;
            return Ok(());
        }
        let has_payload = matches!(command, NBD_CMD_READ | NBD_CMD_WRITE);
        let reply_kind = match command {
            NBD_CMD_READ => ReplyKind::Data(at, padding),
            _ => ReplyKind::Stored,
        };
        let bytes = if has_payload { bytes_of(at) } else { 0 };
        let pending = match command {
            NBD_CMD_WRITE => {
                let head = padding.head as usize;
                self.take_in(cookie, bytes, head..head + length).await?
            }
            _ => self.admit(cookie, reply_kind, bytes).await,
        };
        let Some(pending) = pending else { return Ok(()) };
        let client = &self.connection.client;
        let fua = header.flags & NBD_CMD_FLAG_FUA != 0;
        let may_unmap = header.flags & NBD_CMD_FLAG_NO_HOLE == 0;
        let request = match command {
            NBD_CMD_WRITE => Request::Write { at, from: window(&pending.buffer, at), fua },
            NBD_CMD_TRIM => Request::Discard { at },
            NBD_CMD_WRITE_ZEROES => Request::Zero { at, fua, may_unmap },
            _ => Request::Read { at, into: window(&pending.buffer, at) },
        };
        // A read may read whole blocks around its range, which may be cached.
        let is_whole = !request.is_change() && bytes <= client.limits().io_max_bytes as usize;
        let padding = if is_whole { Padding::NONE } else { padding };
        let operation = client.operation(request, padding, fua);
        client.note(&operation).await;
        self.ask_or_start(pending, operation).await;
        Ok(())
    }
}
