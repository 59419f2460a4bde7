//! Zeroing and deallocation.

use crate::bytes::length_inside;
use crate::codec::*;
use crate::device::Device;
use crate::session::{ActiveRequest, ReplyKind, Session};
use block::{Padding, Request, Result};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Maximum length of one zero request: its length has 32 bits.
const PIECE_BYTES_MAX: u64 = 1 << 30;

/// A range to be zeroed.
#[derive(Clone, Copy)]
struct Zeroing {
    offset: u64,
    length: u64,
    may_unmap: bool,
}

/// Returns whether a mode of fallocate(2) allows unmapping. None: a mode that would allocate.
fn may_unmap(mode: u32) -> Option<bool> {
    match mode & !KEEP_SIZE {
        PUNCH_HOLE => Some(true),
        ZERO_RANGE => Some(false),
        _ => None,
    }
}

impl<D: Device> Session<D> {
    /// Makes a range read as zeros. Punching a hole writes zeros that may be unmapped; it never
    /// sends a discard, which may be ignored: ranges that a loop device discards must read as
    /// zeros.
    pub(crate) async fn allocate(
        self: &Rc<Self>,
        header: &Header,
        offset: u64,
        length: u64,
        mode: u32,
    ) {
        let Some(may_unmap) = may_unmap(mode) else { return self.refuse(header, EOPNOTSUPP) };
        let Some(active) = self.begin(header, ReplyKind::Done) else { return };
        let file = &active.volume.file;
        let within = length_inside(file.bytes, offset, length);
        if file.read_only {
            return self.refuse(header, EROFS);
        }
        if within < length && mode & KEEP_SIZE == 0 {
            return self.refuse(header, ENOSPC);
        }
        if within == 0 {
            return self.reply(Reply::done(header.unique));
        }
        file.is_written.store(true, Ordering::SeqCst);
        let Some(active) = self.admit(active, 0).await else { return };
        let (session, volume) = (self.clone(), active.volume.clone());
        let zeroing = Zeroing { offset, length: within, may_unmap };
        let task = async move {
            let result = zero(&active, zeroing).await;
            session.finish(active, result);
        };
        volume.client.launch(task).await;
    }
}

/// Zeroes piece by piece.
async fn zero(active: &ActiveRequest, zeroing: Zeroing) -> Result {
    let Zeroing { mut offset, length, may_unmap } = zeroing;
    let (client, end) = (&active.volume.client, offset + length);
    while offset < end {
        // Up to a multiple of the piece size, so that all pieces except the ends are whole blocks.
        let border = (offset / PIECE_BYTES_MAX + 1) * PIECE_BYTES_MAX;
        let bytes = border.min(end) - offset;
        let (at, padding) = client.limits().around(offset, bytes as u32)?;
        let request = Request::Zero { at, fua: false, may_unmap };
        let operation = client.operation(request, padding, false);
        debug_assert!(padding == Padding::NONE || client.limits().unaligned);
        client.run(operation).await?;
        offset += bytes;
    }
    Ok(())
}
