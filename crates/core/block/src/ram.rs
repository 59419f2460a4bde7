//! The backend `ram:SIZE`: a volume in memory, for tests and as an upper bound.

use crate::error::Result;
use crate::limits::{Discard, Limits};
use crate::memory::Memory;
use crate::request::Request;
use crate::stack::Block;
use crate::{Buf, Extent};
use std::sync::Arc;

/// A volume in the memory of the process. Clones share the memory.
#[derive(Clone)]
pub struct Ram {
    memory: Arc<Memory>,
    limits: Limits,
}

impl Ram {
    /// Allocates a zeroed volume of `sectors` sectors of `grain` bytes.
    pub fn new(sectors: u64, grain: u32) -> Ram {
        Ram::from_memory(Arc::new(Memory::heap(sectors as usize * grain as usize)), sectors, grain)
    }

    /// Returns a volume on existing memory.
    pub fn from_memory(memory: Arc<Memory>, sectors: u64, grain: u32) -> Ram {
        assert!(memory.bytes() as u64 >= sectors * u64::from(grain));
        Ram { memory, limits: Limits { discard: Discard::Zeroes, ..Limits::plain(sectors, grain) } }
    }

    fn offset(&self, at: &Extent) -> usize {
        at.first as usize * self.limits.grain as usize
    }

    fn serve(&self, request: &Request) -> Result {
        match request {
            Request::Read { at, into } => into.copy_from(&self.memory, self.offset(at)),
            Request::Write { at, from, .. } => Buf::copy_to(from, &self.memory, self.offset(at)),
            Request::Flush | Request::Advise { .. } => (),
            Request::Discard { at } | Request::Zero { at, .. } => {
                let bytes = at.count as usize * self.limits.grain as usize;
                self.memory.zero(self.offset(at), bytes);
            }
        }
        Ok(())
    }
}

impl Block for Ram {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        Some(self.serve(request))
    }

    async fn run(&self, request: Request) -> Result {
        self.serve(&request)
    }
}
