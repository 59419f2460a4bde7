//! A trace as its blocks, a chunk at a time.

use crate::blocks::Blocks;
use crate::error::Error;
use crate::outcome::Counts;
use crate::plan::Plan;
use crate::trace_file::TraceFile;
use trace::{Access, Devices, Format, Notes};

/// Approximate number of accesses in a chunk.
pub(crate) const CHUNK: usize = 1 << 14;

/// Facts about a trace that was read.
pub(crate) struct Read {
    pub(crate) format: Format,
    pub(crate) counts: Counts,
    pub(crate) devices: Vec<String>,
    pub(crate) notes: Notes,
}

/// A trace that is being read.
pub(crate) struct Reading<'a> {
    pub(crate) file: TraceFile,
    blocks: Blocks<'a>,
    accesses: Vec<Access>,
    /// Number of them that were taken.
    taken: usize,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(plan: &'a Plan, file: TraceFile) -> Reading<'a> {
        let blocks = Blocks::new(&plan.devices, plan.reads_only);
        Reading { file, blocks, accesses: Vec::new(), taken: 0 }
    }

    /// Appends the blocks of the next requests, at least a chunk of them unless the trace ends.
    /// Returns whether there were any.
    pub(crate) fn fill(&mut self, into: &mut Vec<u64>) -> Result<bool, Error> {
        while into.len() < CHUNK {
            if self.taken == self.accesses.len() {
                self.taken = 0;
                if !self.file.next(&mut self.accesses)? {
                    break;
                }
            }
            let left = &self.accesses[self.taken..];
            self.taken += self.blocks.expand(left, self.file.devices(), CHUNK, into);
        }
        Ok(!into.is_empty())
    }

    /// Returns the facts about the trace, after its end.
    pub(crate) fn end(&self, plan: &Plan) -> Result<Read, Error> {
        let place = plan.path.display();
        let names = self.file.devices().names();
        if let Some(missing) = self.blocks.missing(self.file.devices()) {
            return Err(Error::Usage(format!(
                "--device {missing}: {place} has no such device; it has {}",
                some_of(names)
            )));
        }
        if self.blocks.counts.block_accesses == 0 {
            let of_writes = if plan.reads_only { "read" } else { "read or write" };
            let message = format!("{place}: contains no {of_writes}; use another trace");
            return Err(Error::Malformed(message));
        }
        Ok(self.so_far())
    }

    pub(crate) fn so_far(&self) -> Read {
        Read {
            format: self.file.format,
            counts: self.blocks.counts,
            devices: names(self.file.devices()),
            notes: self.file.notes.unwrap_or_default(),
        }
    }
}

fn names(devices: &Devices) -> Vec<String> {
    devices.names().to_vec()
}

/// Lists the first names, and the number of the others.
fn some_of(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(20));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    format!("{}{more}", shown.join(", "))
}
