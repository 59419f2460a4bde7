//! Generated requests as the source of a load.

use super::requests::Requests;
use block::{Extent, Limits, SECTOR};
use load::{LoadError, Source, Step};

/// Requests as a source. They are made while it runs, and need no memory.
pub struct Generated {
    requests: Requests,
    /// Sectors of a block of the target: requests are extended to whole blocks.
    unit: u64,
    is_timed: bool,
    lead_ns: u64,
}

impl Generated {
    /// Returns the requests for a target with these limits, at their times after a lead.
    pub fn timed(requests: Requests, limits: &Limits, lead_ns: u64) -> Generated {
        let unit = u64::from(limits.block_logical_bytes) / SECTOR;
        Generated { requests, unit, is_timed: true, lead_ns }
    }

    /// Returns the requests without times: as fast as possible at the depth of the run.
    pub fn untimed(requests: Requests, limits: &Limits) -> Generated {
        Generated { is_timed: false, ..Generated::timed(requests, limits, 0) }
    }
}

impl Source for Generated {
    fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        if self.requests.end() > limits.sectors / self.unit * self.unit {
            return Err(LoadError::Span { sectors: limits.sectors });
        }
        let longest = u64::from(self.requests.sectors_max()) + 2 * self.unit;
        if longest * SECTOR > u64::from(limits.io_max_bytes) {
            return Err(LoadError::Block { unit: limits.block_logical_bytes });
        }
        if limits.read_only { Err(LoadError::ReadOnly) } else { Ok(()) }
    }

    #[inline]
    fn next(&mut self) -> Option<Step> {
        let event = self.requests.next()?;
        let end = (event.first + u64::from(event.sectors)).next_multiple_of(self.unit);
        let first = event.first / self.unit * self.unit;
        Some(Step {
            due_ns: self.is_timed.then(|| event.time_ns + self.lead_ns),
            operation: event.operation,
            at: Extent { first, count: (end - first) as u32 },
        })
    }
}
