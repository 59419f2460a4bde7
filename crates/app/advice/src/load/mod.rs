//! Advice on a load: hits and time saved by size of the cache, and a recommendation.
//!
//! ```text
//!   a trace, or requests that are watched  --Gather-->  Facts  --Premises-->  Advice
//!   counters of a device               -------------->  Facts
//!   statistics of a served volume      ------------------- advise_volume -->  Advice
//! ```

mod facts;
mod from_trace;
mod gains;
mod gather;
mod machine;
mod overwrites;
mod served;
mod streams;
#[cfg(test)]
mod tests;
mod unseen;
mod verdict;
mod words;

pub use facts::{Facts, Latency, Mean, Premises, Process, Source};
pub use from_trace::gather_trace;
pub use gains::{DurabilityGain, ProcessGain, SizeGain};
pub use gather::{Gather, access_of, access_of_event, sample_of, sizes};
pub use machine::{Displaced, Machine};
pub use served::advise_volume;
pub use verdict::{Advice, advise};
pub use words::span;
