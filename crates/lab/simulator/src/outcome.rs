//! What came of a simulation.

use crate::footprint::Counted;
use crate::sample::{Rate, TRUSTED_SLOTS};
use trace::{Format, Notes};

/// What was counted of a trace's requests, on the devices that were selected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Requests that count: reads, and writes unless only reads count.
    pub requests: u64,
    /// All reads.
    pub reads: u64,
    /// All writes.
    pub writes: u64,
    /// All others: flushes, discards and what else a format has. They touch no block.
    pub others: u64,
    /// Blocks that the counted requests touch, each time that they do.
    pub block_accesses: u64,
}

/// One policy with one size.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The policy as it was asked for.
    pub policy: String,
    /// The size as it was asked for.
    pub memory: String,
    /// The cache's blocks, all shards together.
    pub slots: u64,
    /// Those that were simulated: fewer, of a sample.
    pub sampled_slots: u64,
    /// Whether a sample was simulated.
    pub is_estimate: bool,
    /// Accesses to a block that was not held; of a sample what its misses stand for.
    pub block_misses: u64,
}

impl Run {
    /// Whether all blocks were simulated, or so many slots that chance has no great part in it.
    pub fn is_trusted(&self) -> bool {
        !self.is_estimate || self.sampled_slots >= TRUSTED_SLOTS
    }
}

/// The sample that was simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampled {
    /// The share of all blocks.
    pub rate: Rate,
    /// Accesses to blocks of the sample.
    pub block_accesses: u64,
}

/// What came of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The format that the trace was read as.
    pub format: Format,
    /// Whether all of the trace was read; if not, all figures are of what was.
    pub is_complete: bool,
    /// Requests and blocks.
    pub counts: Counts,
    /// What was simulated of the accesses; all of them, unless a sample was asked for.
    pub sampled: Sampled,
    /// Different blocks among all accesses.
    pub footprint: Counted,
    /// The names of all devices in the trace.
    pub devices: Vec<String>,
    /// What else is to be told of the trace.
    pub notes: Notes,
    /// In the order of the policies, then of the sizes, as they were asked for.
    pub runs: Vec<Run>,
}

impl Outcome {
    /// A run's share of accesses that missed.
    pub fn miss_ratio(&self, run: &Run) -> f64 {
        run.block_misses as f64 / self.counts.block_accesses.max(1) as f64
    }
}
