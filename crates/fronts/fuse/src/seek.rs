//! Searches for data and holes.

use crate::codec::*;
use crate::device::Device;
use crate::session::{Asked, Session, Wanted};
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
        let Some(asked) = self.begin(header, Wanted::Done) else { return };
        if offset >= asked.volume.file.bytes {
            return self.refuse(header, ENXIO);
        }
        let Some(asked) = self.let_in(asked, 0).await else { return };
        let (session, volume) = (self.clone(), asked.volume.clone());
        let task = async move {
            let found = find(&asked, offset, wants_hole).await;
            let end = asked.volume.file.bytes;
            match found {
                Ok(Some(at)) => session.reply(Reply::found(asked.unique, at)),
                // The end of the file counts as a hole.
                Ok(None) if wants_hole => session.reply(Reply::found(asked.unique, end)),
                Ok(None) => session.reply(Reply::error(asked.unique, ENXIO)),
                Err(error) => session.fail(&asked, error),
            }
            let Asked { volume, buffer, busy, .. } = asked;
            volume.client.withdraw(buffer);
            drop(busy);
        };
        volume.client.launch(task).await;
    }
}

/// Returns the offset of the next data or hole from `offset` on. None: there is none before the
/// end.
async fn find(asked: &Asked, offset: u64, wants_hole: bool) -> Result<Option<u64>> {
    let (client, end) = (&asked.volume.client, asked.volume.file.bytes);
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
