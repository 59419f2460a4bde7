//! Reads of a volume by programs that look at its contents, such as the map of files.

use super::volume_service::VolumeService;
use crate::control::words::{HELD_CLASSES, READ_BYTES_MAX};
use crate::device::blocking;
use block::{Buf, Memory, Part, Request};
use cache::HeldBlock;
use hotlist::{CLASS_EXTENTS_MAX, ClassList, ClassRun};
use stack::{Exit, Failure};
use std::sync::Arc;

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

    /// Returns the blocks that the cache holds, as an encoded [`ClassList`]. If they are in too
    /// many runs, those at the end of the volume are missing.
    ///
    /// # Errors
    /// Negative: there is no cache. No thread can be started.
    pub(super) async fn held(&self) -> Result<Part, Failure> {
        let Some(cache) = &self.attached.cache else {
            let message = format!("{}: has no cache", self.name);
            return Err(Failure::new(Exit::Negative, message));
        };
        let mut held = Vec::new();
        cache.visit_held_blocks(|blocks| held.extend_from_slice(blocks)).await;
        let bytes = blocking(move || runs_of(held).encode()).await?;
        let memory = Memory::heap(bytes.len());
        memory.write(0, &bytes);
        Ok(Part { memory: Arc::new(memory), offset: 0, length: bytes.len() })
    }
}

/// Returns runs of neighbouring blocks that are all clean or all dirty.
fn runs_of(mut held: Vec<HeldBlock>) -> ClassList {
    held.sort_unstable_by_key(|held| held.block);
    held.dedup_by_key(|held| held.block);
    let mut runs: Vec<ClassRun> = Vec::new();
    for HeldBlock { block, is_dirty } in held {
        let class = u8::from(is_dirty);
        if let Some(last) = runs.last_mut()
            && last.class == class
            && last.first + u64::from(last.blocks) == block
        {
            last.blocks += 1;
            continue;
        }
        if runs.len() == CLASS_EXTENTS_MAX as usize {
            break;
        }
        runs.push(ClassRun { first: block, blocks: 1, class });
    }
    ClassList { names: HELD_CLASSES.map(str::to_owned).to_vec(), runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_are_equal_are_one_run() {
        let held = |block, is_dirty| HeldBlock { block, is_dirty };
        let blocks = vec![held(9, false), held(4, true), held(3, false), held(8, false)];
        let list = runs_of([blocks, vec![held(9, false), held(5, true)]].concat());
        let run = |first, blocks, class| ClassRun { first, blocks, class };
        assert_eq!(list.runs, [run(3, 1, 0), run(4, 2, 1), run(8, 2, 0)]);
        assert_eq!(list.names, HELD_CLASSES);
    }
}
