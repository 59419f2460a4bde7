//! Buffers for reads of whole blocks whose clients need a part: a client's buffer has no room for
//! the rest.

use crate::BLOCK_SECTORS;
use crate::geometry::Geometry;
use crate::settings::Settings;
use alloc::vec::Vec;
use block::Buf;
use core::cell::{Cell, RefCell};

/// Maximum number of a lane's buffers, and thus of such reads in flight.
const BUFFERS_MAX: u32 = 32;

/// The buffers of a lane.
pub(crate) struct RestBuffers {
    free: RefCell<Vec<Buf>>,
    made: Cell<u32>,
    blocks: u32,
    grain: u32,
}

impl RestBuffers {
    /// Makes a pool of buffers for reads of as many blocks as a write may have to be cached.
    pub(crate) fn new(settings: &Settings, geometry: &Geometry, grain: u32) -> RestBuffers {
        let blocks = settings.absorb_blocks_max.min(geometry.run_blocks).max(1);
        let free = RefCell::new(Vec::with_capacity(BUFFERS_MAX as usize));
        RestBuffers { free, made: Cell::new(0), blocks, grain }
    }

    /// Whether a read of this many blocks can have a buffer now.
    pub(crate) fn has_room(&self, blocks: u32) -> bool {
        let is_left = self.made.get() < BUFFERS_MAX || !self.free.borrow().is_empty();
        blocks <= self.blocks && is_left
    }

    /// Takes a buffer for whole blocks, if one is left.
    pub(crate) fn take(&self) -> Option<Buf> {
        if let Some(buffer) = self.free.borrow_mut().pop() {
            return Some(buffer);
        }
        let made = self.made.get();
        (made < BUFFERS_MAX).then(|| {
            self.made.set(made + 1);
            Buf::new(self.blocks * BLOCK_SECTORS, self.grain)
        })
    }

    /// Takes back a buffer that no request uses any more.
    pub(crate) fn give(&self, buffer: Buf) {
        self.free.borrow_mut().push(buffer);
    }
}
