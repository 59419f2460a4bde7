//! Reads, writes and flushes.

use crate::bytes::{bytes_of, length_inside};
use crate::codec::*;
use crate::device::Device;
use crate::message::Inbox;
use crate::session::{ActiveRequest, ReplyKind, Session};
use block::{Extent, Padding, Request};
use std::rc::Rc;
use std::sync::atomic::Ordering;

impl<D: Device> Session<D> {
    /// Reads up to the end of the file. Reads the whole blocks around the requested range.
    pub(crate) async fn read(self: &Rc<Self>, header: &Header, offset: u64, length: u32) {
        let Some(mut active) = self.begin(header, ReplyKind::Done) else { return };
        let volume = active.volume.clone();
        let length = length_inside(volume.file.bytes, offset, u64::from(length)) as u32;
        if length == 0 {
            return self.reply(Reply::done(header.unique));
        }
        let (at, padding) = match volume.client.limits().around(offset, length) {
            Ok(found) => found,
            Err(error) => return self.fail(&active, error),
        };
        let (head, length) = (padding.head as usize, length as usize);
        let request = Request::Read { at, into: self.outbox.window(at.count) };
        volume.client.turn().await;
        match volume.client.ask(&request) {
            Some(Ok(())) => {
                self.send(&self.outbox.own(Reply::done(header.unique), head, length));
            }
            Some(Err(error)) => self.fail(&active, error),
            None => {
                active.reply_kind = ReplyKind::Data { at: head, length };
                self.read_later(active, at).await;
            }
        }
    }

    async fn read_later(self: &Rc<Self>, active: ActiveRequest, at: Extent) {
        let Some(active) = self.admit(active, bytes_of(at)).await else { return };
        let buffer = active.buffer.as_ref().expect("it was let in with one");
        let request = Request::Read { at, into: buffer.sectors(at.count) };
        let operation = active.volume.client.operation(request, Padding::NONE, false);
        self.start(active, operation).await;
    }

    /// Writes up to the end of the file. If a program has opened the file with O_DSYNC, the write
    /// is durable when it is answered.
    pub(crate) async fn write(
        self: &Rc<Self>,
        header: &Header,
        inbox: &Inbox,
        handle: u64,
        offset: u64,
        length: u32,
        durable: bool,
    ) {
        let Some(active) = self.begin(header, ReplyKind::Done) else { return };
        let volume = active.volume.clone();
        let length = length_inside(volume.file.bytes, offset, u64::from(length)) as u32;
        if length == 0 {
            return self.refuse(header, ENOSPC);
        }
        let active = ActiveRequest { reply_kind: ReplyKind::Written(length), ..active };
        let (at, padding) = match volume.client.limits().around(offset, length) {
            Ok(found) => found,
            Err(error) => return self.fail(&active, error),
        };
        volume.file.is_written.store(true, Ordering::SeqCst);
        if durable {
            self.prove(&active, handle).await;
        }
        let write = |from| {
            let request = Request::Write { at, from, fua: durable };
            volume.client.operation(request, padding, durable)
        };
        if padding == Padding::NONE {
            let operation = write(inbox.window(at.count));
            if let Some(request) = operation.plain() {
                volume.client.turn().await;
                if let Some(result) = volume.client.ask(request) {
                    return match result {
                        Ok(()) => self.reply(Reply::written(header.unique, length)),
                        Err(error) => self.fail(&active, error),
                    };
                }
            }
        }
        let Some(active) = self.admit(active, bytes_of(at)).await else { return };
        let buffer = active.buffer.as_ref().expect("it was let in with one");
        inbox.copy_out(buffer.memory(), padding.head as usize, length as usize);
        let operation = write(buffer.sectors(at.count));
        self.start(active, operation).await;
    }

    /// Makes all answered writes durable.
    pub(crate) async fn sync(self: &Rc<Self>, header: &Header, handle: u64) {
        let Some(active) = self.begin(header, ReplyKind::Done) else { return };
        self.prove(&active, handle).await;
        match active.volume.file.take_doubt(handle) {
            Ok(()) => self.flush(active).await,
            Err(error) => self.fail(&active, error),
        }
    }

    /// Handles the close of a descriptor. Flushes written data, as programs that copy an image
    /// expect. This proves nothing about the client: every program closes its descriptors.
    pub(crate) async fn close(self: &Rc<Self>, header: &Header) {
        let Some(active) = self.begin(header, ReplyKind::Done) else { return };
        match active.volume.file.is_written.load(Ordering::SeqCst) {
            true => self.flush(active).await,
            false => self.reply(Reply::done(header.unique)),
        }
    }

    async fn flush(self: &Rc<Self>, active: ActiveRequest) {
        let Some(active) = self.admit(active, 0).await else { return };
        active.volume.file.is_written.store(false, Ordering::SeqCst);
        let operation = active.volume.client.operation(Request::Flush, Padding::NONE, false);
        self.ask_or_start(active, operation).await;
    }

    /// Reports that the client flushes (C11).
    pub(crate) async fn prove(&self, active: &ActiveRequest, handle: u64) {
        active.volume.client.turn().await;
        active.volume.file.proven(handle, || (active.volume.session)());
    }
}
