//! Counters and measurements.

pub(crate) mod counters;
pub(crate) mod latencies;
pub(crate) mod volume;
