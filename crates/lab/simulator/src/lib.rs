//! Simulates caches on a trace: every selected policy and size, in one pass over the file.
//!
//! ```text
//!   a file --decompressed--> trace::Reader --accesses--> blocks --chunks--> workers with caches
//! ```
//!
//! A block is 4 KiB of one device; a request is one access for each block that it touches. The file
//! is read piece by piece, so that memory is needed only for the caches, the count of the footprint
//! and a few chunks. Sizes in percent of the footprint need a pass before, which counts it; the
//! optimum needs one that writes the blocks to a temporary file, from which the next use of each is
//! computed. The caches may see a sample of all blocks; the footprint is that of all.
#![forbid(unsafe_code)]

mod block_sizes;
mod blocks;
mod choice;
pub mod compress;
mod compressed;
mod directions;
mod each_access;
mod error;
mod extent;
pub mod families;
mod film;
mod first;
mod footprint;
mod foreign;
mod hash;
pub mod json;
mod lru;
mod map_file;
mod memory;
mod next_use;
mod optimum;
mod outcome;
mod pass;
mod plan;
mod policies;
mod reading;
mod run;
mod sample;
mod spool;
mod trace_file;

pub use block_sizes::{BlockSizes, STORED_BYTES_MAX};
pub use blocks::{BLOCK_BYTES, NUMBER_BITS};
pub use choice::{Choice, DEFAULT, What};
pub use compress::Compress;
pub use directions::{Accessed, DirectionCaches, Hits};
pub use each_access::each_access;
pub use error::Error;
pub use film::{FilmLoad, Part};
pub use footprint::{Counted, Footprint};
pub use hash::OfBlocks;
pub use lru::Lru;
pub use map_file::{class_name, read_hints};
pub use memory::Memory;
pub use optimum::Optimum;
pub use outcome::{ClassAccesses, Counts, Hinted, Outcome, Run, Sampled, Tiered};
pub use plan::{Plan, Watch};
pub use run::run;
pub use sample::{AUTO_BYTES, Rate, Sample, TRUSTED_SLOTS};
pub use trace_file::TraceFile;
