//! The results of a simulation.

use crate::footprint::Counted;
use crate::sample::{Rate, TRUSTED_SLOTS};
use policy::CLASSES_MAX;
use trace::{Format, Notes};

/// Counts of a trace's requests, on the selected devices.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Requests that count: reads, and writes unless only reads count.
    pub requests: u64,
    /// All reads.
    pub reads: u64,
    /// All writes.
    pub writes: u64,
    /// All others: flushes, discards and other operations of a format. They touch no block.
    pub others: u64,
    /// Blocks touched by the counted requests, counted each time.
    pub block_accesses: u64,
}

/// One policy with one size.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The policy as the user named it.
    pub policy: String,
    /// The size as the user gave it.
    pub memory: String,
    /// The cache's blocks, all shards together.
    pub slots: u64,
    /// The simulated blocks: fewer if a sample was simulated.
    pub sampled_slots: u64,
    /// Whether a sample was simulated.
    pub is_estimate: bool,
    /// Accesses to a block that was not cached; of a sample, the extrapolated number.
    pub block_misses: u64,
    /// The same policy and size with a compressed tier, if that was simulated.
    pub tiered: Option<Tiered>,
    /// The same policy and size with hints, if that was simulated.
    pub hinted: Option<Hinted>,
}

/// A cache with hints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hinted {
    /// Accesses to a block that was not cached.
    pub block_misses: u64,
    /// Whether the hints were followed at the end, or were suspended because they cost hits.
    pub are_followed: bool,
    /// The accesses to the blocks of each class.
    pub classes: [ClassAccesses; CLASSES_MAX],
}

/// The accesses to the blocks of a class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClassAccesses {
    /// All accesses.
    pub accesses: u64,
    /// Those to blocks that were not cached.
    pub misses: u64,
}

/// A cache with a compressed tier, which is a part of its slots. All numbers are extrapolated if a
/// sample was simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiered {
    /// Accesses to a block that was not in memory.
    pub block_misses: u64,
    /// Accesses that found the block compressed.
    pub compressed_hits: u64,
    /// Blocks that were compressed at the end.
    pub compressed_blocks: u64,
    /// Slots with compressed blocks at the end.
    pub compressed_slots: u64,
}

impl Run {
    /// Whether all blocks were simulated, or enough slots for a small random error.
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

/// The results of a simulation.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The format as which the trace was read.
    pub format: Format,
    /// Whether the whole trace was read; if not, all figures are of the part that was read.
    pub is_complete: bool,
    /// Requests and blocks.
    pub counts: Counts,
    /// The accesses that were simulated: all of them, unless the plan has a sample.
    pub sampled: Sampled,
    /// Different blocks among all accesses.
    pub footprint: Counted,
    /// The names of all devices in the trace.
    pub devices: Vec<String>,
    /// Notes on the trace.
    pub notes: Notes,
    /// In the order of the policies, then of the sizes, as in the plan.
    pub runs: Vec<Run>,
}

impl Outcome {
    /// Returns the share of a run's accesses that missed.
    pub fn miss_ratio(&self, run: &Run) -> f64 {
        self.ratio(run.block_misses)
    }

    /// Returns the share of these accesses among all.
    pub fn ratio(&self, accesses: u64) -> f64 {
        accesses as f64 / self.counts.block_accesses.max(1) as f64
    }
}
