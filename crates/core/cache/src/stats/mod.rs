//! What is counted and measured.

pub(crate) mod counters;
pub(crate) mod latencies;
pub(crate) mod volume;
