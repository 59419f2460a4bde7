//! Searches for data and holes.

use crate::codec::*;
use crate::device::Device;
use crate::session::{ActiveRequest, ReplyKind, Session};
use block::{Result, SECTOR};
use std::rc::Rc;

/// Maximum length of one status request to a volume, in bytes.
const PIECE_BYTES_MAX: u64 = 1 << 30;

impl<D: Device> Session<D> {
    /// Finds the next data or hole. Ranges that read as zeros are reported as holes, so that
    /// programs skip them.
    pub(crate) async fn seek(self: &Rc<Self>, header: &Header, offset: u64, whence: u32) {
        let wants_hole = match whence {
            SEEK_DATA => false,
            SEEK_HOLE => true,
            _ => return self.refuse(header, EINVAL),
        };
        let Some(active) = self.begin(header, ReplyKind::Done) else { return };
        if offset >= active.volume.file.bytes {
            return self.refuse(header, ENXIO);
        }
        let Some(active) = self.admit(active, 0).await else { return };
        let (session, volume) = (self.clone(), active.volume.clone());
        let task = async move {
            let found = find(&active, offset, wants_hole).await;
            let end = active.volume.file.bytes;
            match found {
                Ok(Some(at)) => session.reply(Reply::seek_result(active.unique, at)),
                // The end of the file counts as a hole.
                Ok(None) if wants_hole => session.reply(Reply::seek_result(active.unique, end)),
                Ok(None) => session.reply(Reply::error(active.unique, ENXIO)),
                Err(error) => session.fail(&active, error),
            }
            let ActiveRequest { volume, buffer, busy, .. } = active;
            volume.client.withdraw(buffer);
            drop(busy);
        };
        volume.client.launch(task).await;
    }
}

/// Returns the offset of the next data or hole from `offset` on. None: there is none before the
/// end.
async fn find(active: &ActiveRequest, offset: u64, wants_hole: bool) -> Result<Option<u64>> {
    let (client, end) = (&active.volume.client, active.volume.file.bytes);
    let mut from = offset;
    while from < end {
        let bytes = PIECE_BYTES_MAX.min(end - from);
        let (at, _) = client.limits().around(from, bytes as u32)?;
        let mut begins = at.first * SECTOR;
        for stretch in client.status(at).await? {
            let ends = begins + stretch.sectors * SECTOR;
            if (stretch.hole || stretch.zero) == wants_hole && ends > offset {
                return Ok(Some(begins.max(offset)));
            }
            begins = ends;
        }
        from += bytes;
    }
    Ok(None)
}
