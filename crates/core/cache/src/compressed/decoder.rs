//! The memory of a lane to decode blocks with: their bytes are copied to it under the lock, and
//! decoded after it.

use super::{Copied, Copies};
use crate::BLOCK_SECTORS;
use crate::blocks::{SLICE, share};
use crate::planted::{Bug, planted};
use alloc::vec;
use alloc::vec::Vec;
use block::{Buf, Extent};
use core::cell::{RefCell, RefMut};

/// The memory of a lane.
pub(crate) struct Decoder {
    copies: RefCell<Copies>,
    /// None: no block was decoded yet. Most volumes are not compressed.
    codec: RefCell<Option<packing::Decoder>>,
    block: RefCell<Vec<u8>>,
}

impl Decoder {
    /// Makes one for sectors of this many bytes.
    pub(crate) fn new(grain: u32) -> Decoder {
        let block = vec![0; BLOCK_SECTORS as usize * grain as usize];
        let copies = Copies::with_capacity(SLICE as usize, SLICE as usize * block.len());
        Decoder {
            copies: RefCell::new(copies),
            codec: RefCell::default(),
            block: RefCell::new(block),
        }
    }

    /// Returns the place for the bytes of blocks, which is empty.
    pub(crate) fn begin(&self) -> RefMut<'_, Copies> {
        let mut copies = self.copies.borrow_mut();
        copies.clear();
        copies
    }

    /// Returns the place with the bytes that were copied until now.
    pub(crate) fn copies(&self) -> RefMut<'_, Copies> {
        self.copies.borrow_mut()
    }

    /// Decodes the blocks that were copied. Their parts of a read of `at` are stored in its buffer.
    /// Returns false if one is damaged.
    pub(crate) fn decode_into(&self, at: &Extent, into: &Buf) -> bool {
        let copies = self.copies.borrow();
        copies.iter().all(|(object, bytes)| self.decode_one(at, object, bytes, into))
    }

    fn decode_one(&self, at: &Extent, object: Copied, bytes: &[u8], into: &Buf) -> bool {
        if !object.is_sound(bytes) && !planted(Bug::PublishTornObject) {
            return false;
        }
        let mut block = self.block.borrow_mut();
        let mut codec = self.codec.borrow_mut();
        let codec = codec.get_or_insert_default();
        if codec.decode(object.encoding, bytes, &mut block).is_err() {
            return false;
        }
        let (sector, sectors, skip) = share(at, object.block);
        let grain = into.grain() as usize;
        let start = sector as usize * grain;
        into.part(skip, sectors).write(&block[start..start + sectors as usize * grain]);
        true
    }
}
