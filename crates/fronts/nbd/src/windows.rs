//! Buffers at any offset of one memory, without an allocation for each.

use block::{Buf, Memory};
use std::sync::Arc;

/// Offsets are multiples of this, as the lengths of all headers before data are.
pub(crate) const PLACE_BYTES: usize = 4;
const SECTOR_BYTES: usize = block::SECTOR as usize;

/// Windows on one memory. A [`Buf`] is cut from another in whole sectors, but headers shift data to
/// offsets between sectors. So there is one buffer over the whole memory for each shift, created at
/// its first use, and all windows are parts of these.
pub(crate) struct Windows {
    memory: Arc<Memory>,
    shifted: Vec<Option<Buf>>,
}

impl Windows {
    pub(crate) fn new(memory: Arc<Memory>) -> Windows {
        Windows { memory, shifted: vec![None; SECTOR_BYTES / PLACE_BYTES] }
    }

    /// Returns a window on `sectors` sectors at byte `offset`. None: the offset is not a multiple
    /// of `PLACE_BYTES`, or the window exceeds the memory.
    #[inline]
    pub(crate) fn at(&mut self, offset: usize, sectors: u32) -> Option<Buf> {
        if !offset.is_multiple_of(PLACE_BYTES) {
            return None;
        }
        let shift = offset % SECTOR_BYTES;
        let memory = &self.memory;
        let whole = self.shifted[shift / PLACE_BYTES].get_or_insert_with(|| {
            let sectors = memory.bytes().saturating_sub(shift) / SECTOR_BYTES;
            Buf::from_memory(memory.clone(), shift, sectors as u32, SECTOR_BYTES as u32)
        });
        let first = (offset / SECTOR_BYTES) as u32;
        let inside = first <= whole.sectors() && sectors <= whole.sectors() - first;
        inside.then(|| whole.part(first, sectors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_stands_where_it_was_asked_for() {
        let memory = Arc::new(Memory::heap(4096));
        let mut windows = Windows::new(memory.clone());
        for offset in [0, 16, 28, 508, 512, 1052] {
            windows.at(offset, 2).expect("inside").write(&[7; 1024]);
            let mut around = [1; 1026];
            if offset > 0 {
                memory.read(offset - 1, &mut around);
                assert_eq!((around[0], around[1], around[1025]), (0, 7, 0));
            }
            memory.zero(0, 4096);
        }
        assert!(windows.at(2, 1).is_none(), "not a place");
        assert!(windows.at(3584, 1).is_some());
        assert!(windows.at(3588, 1).is_none(), "beyond the end");
        assert!(windows.at(1 << 20, 1).is_none(), "far beyond the end");
    }
}
