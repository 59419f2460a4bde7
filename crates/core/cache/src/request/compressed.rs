//! Reads from the compressed tier: bytes are copied under the lock, and decoded after it.

use crate::BLOCK_SECTORS;
use crate::blocks::{blocks_of, share, slices};
use crate::compressed::Copies;
use crate::compressed::codec::decode;
use crate::handle::Handle;
use crate::shard::Fetch;
use crate::shard::shards::ShardEntry;
use alloc::vec;
use alloc::vec::Vec;
use block::Buf;
use core::cell::RefCell;

/// The memory of a lane to decode blocks with.
pub(crate) struct Decoder {
    copies: RefCell<Copies>,
    block: RefCell<Vec<u8>>,
}

impl Decoder {
    /// Makes one for sectors of this many bytes.
    pub(crate) fn new(grain: u32) -> Decoder {
        let block = vec![0; BLOCK_SECTORS as usize * grain as usize];
        Decoder { copies: RefCell::default(), block: RefCell::new(block) }
    }
}

impl Handle {
    /// Answers a fetch from the compressed tier. Returns false if a block has left it meanwhile:
    /// then nothing of the buffer may be used.
    pub(super) async fn read_compressed(
        &self,
        entry: &ShardEntry,
        fetch: &Fetch,
        into: &Buf,
    ) -> bool {
        let (first, blocks) = blocks_of(&fetch.at);
        for slice in slices(first..first + u64::from(blocks)) {
            self.lane.turn().await;
            let mut copies = self.decoder.copies.borrow_mut();
            copies.clear();
            let copied = entry.shard.with(|shard| shard.copy_compressed(fetch, slice, &mut copies));
            if !copied || !self.decode_all(fetch, &copies, into) {
                return false;
            }
        }
        true
    }

    /// Decodes blocks into a read's buffer.
    fn decode_all(&self, fetch: &Fetch, copies: &Copies, into: &Buf) -> bool {
        let mut block = self.decoder.block.borrow_mut();
        let grain = into.grain() as usize;
        copies.iter().all(|(object, bytes)| {
            let (sector, sectors, skip) = share(&fetch.at, object.block);
            let is_sound = decode(object.encoding, bytes, &mut block);
            if is_sound {
                let start = sector as usize * grain;
                let part = &block[start..start + sectors as usize * grain];
                into.part(fetch.skip + skip, sectors).write(part);
            }
            is_sound
        })
    }
}
