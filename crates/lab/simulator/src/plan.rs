//! What is to be simulated.

use crate::choice::Choice;
use crate::memory::Memory;
use crate::sample::Sample;
use std::path::PathBuf;
use trace::Format;

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The trace: a file, which may be compressed by gzip, xz or zstd.
    pub path: PathBuf,
    /// Its format; None: by its content and name.
    pub format: Option<Format>,
    /// The sizes.
    pub memories: Vec<Memory>,
    /// The policies; each is simulated with each size.
    pub policies: Vec<Choice>,
    /// The devices that count, by name; empty: all.
    pub devices: Vec<String>,
    /// Whether writes do not count.
    pub reads_only: bool,
    /// In how many shards each cache is split, as the engine does it; a power of two.
    pub shards: u32,
    /// How many threads simulate.
    pub threads: usize,
    /// Which blocks are simulated.
    pub sample: Sample,
}

/// Looks at what is going on.
pub trait Watch {
    /// A share of this stage is done, between 0 and 1. Returns whether to go on.
    fn look(&mut self, stage: &'static str, share: f64) -> bool;
}

/// Nothing is shown, and it goes on.
impl Watch for () {
    fn look(&mut self, _: &'static str, _: f64) -> bool {
        true
    }
}
