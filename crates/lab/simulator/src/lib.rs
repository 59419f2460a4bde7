//! What caches would do with a trace: every policy and size that is asked for, in one pass over the file.
//!
//! ```text
//!   a file --decompressed--> trace::Reader --accesses--> blocks --chunks--> workers, each with some caches
//! ```
//!
//! A block is 4 KiB of one device; a request covers as many as it touches, and each is one access. The file is read
//! piece by piece, so memory is that of the caches, of the footprint's count and of a few chunks. Sizes in per cent
//! of the footprint take a pass of their own before, which counts it; the optimum takes one that notes the blocks in
//! a temporary file, from which it is worked out when each comes next. Caches may see a sample of all blocks; the
//! footprint is that of all.
#![forbid(unsafe_code)]

mod blocks;
mod choice;
mod compressed;
mod each_access;
mod error;
mod extent;
mod first;
mod footprint;
mod foreign;
mod hash;
mod lru;
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

pub use blocks::BLOCK_BYTES;
pub use choice::{Choice, DEFAULT, What};
pub use each_access::each_access;
pub use error::Error;
pub use footprint::{Counted, Footprint};
pub use lru::Lru;
pub use memory::Memory;
pub use optimum::Optimum;
pub use outcome::{Counts, Outcome, Run, Sampled};
pub use plan::{Plan, Watch};
pub use run::run;
pub use sample::{AUTO_BYTES, Rate, Sample, TRUSTED_SLOTS};
