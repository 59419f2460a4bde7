//! Advice on a load: hits and time saved by size of the cache, and a recommendation.
//!
//! ```text
//!   a trace, or counters of a device  -->  Facts  --Premises-->  Advice
//! ```

mod facts;
mod gather;
mod machine;
mod streams;
#[cfg(test)]
mod tests;
mod verdict;

pub use facts::{Facts, Latency, Mean, Premises, Source};
pub use gather::{Gather, gather_trace, sizes};
pub use machine::Machine;
pub use verdict::{Advice, DurabilityGain, SizeGain, advise};
