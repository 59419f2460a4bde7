//! The plan of a simulation.

use crate::block_sizes::BlockSizes;
use crate::choice::Choice;
use crate::memory::Memory;
use crate::sample::Sample;
use policy::Hints;
use std::path::PathBuf;
use std::sync::Arc;
use trace::Format;

/// The plan of a simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The trace: a file, which may be compressed by gzip, xz or zstd.
    pub path: PathBuf,
    /// Its format. None: detected from its content and name.
    pub format: Option<Format>,
    /// The sizes.
    pub memories: Vec<Memory>,
    /// The policies; each is simulated with each size.
    pub policies: Vec<Choice>,
    /// The devices that count, by name; empty: all.
    pub devices: Vec<String>,
    /// Whether writes are ignored.
    pub reads_only: bool,
    /// Number of shards of each cache, as in the engine; a power of two.
    pub shards: u32,
    /// Number of threads.
    pub threads: usize,
    /// The blocks that are simulated.
    pub sample: Sample,
    /// The compressed sizes of the blocks: caches of policies that can be served are also simulated
    /// with a compressed tier in the same memory. None: without it only.
    pub compress: Option<Arc<BlockSizes>>,
    /// Hints about the blocks of the only device that counts: caches of policies that can be served
    /// are also simulated with them. None: without them only.
    pub hints: Option<Arc<Hints>>,
}

/// Observes a running simulation.
pub trait Watch {
    /// Called when this share of a stage is done, between 0 and 1. Returns whether to continue.
    fn look(&mut self, stage: &'static str, share: f64) -> bool;
}

/// Shows nothing, and never interrupts.
impl Watch for () {
    fn look(&mut self, _: &'static str, _: f64) -> bool {
        true
    }
}
