//! Reads of a volume by programs that look at its contents, such as the map of files.

use super::volume_service::VolumeService;
use crate::control::held::{PAGE_BLOCKS_MAX, encode, word};
use crate::control::words::READ_BYTES_MAX;
use block::{Buf, Memory, Part, Request};
use stack::{Exit, Failure};
use std::sync::Arc;

/// Maximum number of sections of the cache in which the blocks of a page are listed.
const SLICES_A_PAGE: u32 = 256;

impl VolumeService {
    /// Reads bytes as a client would, without a trace in the cache.
    ///
    /// # Errors
    /// Usage: they are not all inside the volume, or too many. Those of the backing.
    pub(super) async fn observe(&self, first_byte: u64, bytes: u32) -> Result<Part, Failure> {
        let stack = &self.attached.stack;
        let limits = stack.limits();
        let around = limits.around(first_byte, bytes).ok().filter(|_| bytes <= READ_BYTES_MAX);
        let Some((at, padding)) = around else {
            let message = format!(
                "{}: {bytes} bytes from byte {first_byte} on cannot be read; the volume has {} \
                 bytes, and a request at most {READ_BYTES_MAX}",
                self.name,
                limits.bytes()
            );
            return Err(Failure::new(Exit::Usage, message));
        };
        let memory = Arc::new(Memory::heap((at.count * limits.grain) as usize));
        let into = Buf::from_memory(memory.clone(), 0, at.count, limits.grain);
        let reading = match self.attached.cache.clone() {
            Some(cache) => stack.lane().pin(async move { cache.observe(at, into).await }),
            None => stack.run(Request::Read { at, into }),
        };
        stack.unless_stalled(reading).await.map_err(|error| self.io_failure(error))?;
        Ok(Part { memory, offset: padding.head as usize, length: bytes as usize })
    }

    /// Notes that the process that maps the files has read.
    pub(super) fn note_observed(&self) {
        self.mapping.iter().for_each(|mapping| mapping.note_observed());
    }

    /// Returns a page of the blocks that the cache holds, from this position on.
    ///
    /// # Errors
    /// Negative: there is no cache.
    pub(super) async fn held_blocks(&self, from: u64) -> Result<Part, Failure> {
        let Some(cache) = &self.attached.cache else {
            let message = format!("{}: has no cache", self.name);
            return Err(Failure::new(Exit::Negative, message));
        };
        let (mut blocks, mut words) = (Vec::new(), Vec::with_capacity(PAGE_BLOCKS_MAX));
        let mut next = Some(from);
        for _ in 0..SLICES_A_PAGE {
            let Some(from) = next else { break };
            next = cache.list_held_blocks(from, &mut blocks).await;
            if words.len() + blocks.len() > PAGE_BLOCKS_MAX {
                next = Some(from);
                break;
            }
            words.extend(blocks.drain(..).map(|held| word(held.block, held.is_dirty)));
        }
        let bytes = encode(next, &words);
        let memory = Memory::heap(bytes.len());
        memory.write(0, &bytes);
        Ok(Part { memory: Arc::new(memory), offset: 0, length: bytes.len() })
    }
}
