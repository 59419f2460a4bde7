//! Reads and writes slots of a member, one stretch after the other: for opening a pool, which does
//! nothing in parallel.

use crate::layout::SLOT_SECTORS;
use alloc::vec;
use alloc::vec::Vec;
use block::{Buf, Extent, Request, Result, Stack};

/// Slots per request.
const STRETCH: u32 = 64;

/// A member and a buffer.
pub(crate) struct Slots {
    member: Stack,
    buffer: Buf,
    stretch: u32,
    bytes: Vec<u8>,
}

impl Slots {
    pub(crate) fn of(member: &Stack) -> Slots {
        let limits = member.limits();
        let most = limits.io_max_bytes / (SLOT_SECTORS * block::SECTOR as u32);
        let stretch = most.clamp(1, STRETCH);
        let buffer = Buf::new(stretch * SLOT_SECTORS, limits.grain);
        let bytes = vec![0; (SLOT_SECTORS * limits.grain) as usize];
        Slots { member: member.clone(), buffer, stretch, bytes }
    }

    /// Calls `each` with the number and the bytes of `count` slots from `first` on, until it
    /// returns false.
    pub(crate) async fn read(
        &mut self,
        first: u32,
        count: u32,
        mut each: impl FnMut(u32, &[u8]) -> bool,
    ) -> Result {
        let mut done = 0;
        while done < count {
            let length = self.stretch.min(count - done);
            let at = extent(first + done, length);
            let into = self.buffer.part(0, at.count);
            self.member.run(Request::Read { at, into }).await?;
            for index in 0..length {
                let slot = self.buffer.part(index * SLOT_SECTORS, SLOT_SECTORS);
                slot.read(&mut self.bytes);
                if !each(first + done + index, &self.bytes) {
                    return Ok(());
                }
            }
            done += length;
        }
        Ok(())
    }

    /// Writes `count` slots from `first` on; `each` fills them.
    pub(crate) async fn write(
        &mut self,
        first: u32,
        count: u32,
        mut each: impl FnMut(u32, &Buf),
    ) -> Result {
        let mut done = 0;
        while done < count {
            let length = self.stretch.min(count - done);
            for index in 0..length {
                let slot = self.buffer.part(index * SLOT_SECTORS, SLOT_SECTORS);
                each(first + done + index, &slot);
            }
            let at = extent(first + done, length);
            let from = self.buffer.part(0, at.count);
            self.member.run(Request::Write { at, from, fua: false }).await?;
            done += length;
        }
        Ok(())
    }

    pub(crate) async fn flush(&self) -> Result {
        self.member.run(Request::Flush).await
    }
}

fn extent(first: u32, count: u32) -> Extent {
    Extent::new(u64::from(first) * u64::from(SLOT_SECTORS), count * SLOT_SECTORS)
}
