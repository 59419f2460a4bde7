//! SNIA's Solid State Storage Performance Test Specification (PTS): IOPS, throughput, latency, write saturation.
//!
//! The drive is purged. For the first three tests it is then written twice over in order, 128 KiB at a time, and rounds
//! of the test's matrix follow until five of them are steady ([`steady`]), 25 rounds at most. A row is the mean of these
//! five rounds.
//!
//! What is known of the specification: the purge, the two passes, the matrix of sizes and mixes of the IOPS test, and
//! that rounds follow until they are steady, from descriptions of others. Recollected of its version 2.0 are the rule
//! itself, the minute of each cell, the 25 rounds, the matrices of throughput and latency, and the length of the write
//! saturation. How many requests are under way is the tester's choice there; it is 32 here, and one for latency.

mod iops;
mod latency;
mod rounds;
mod saturation;
mod steady;
mod throughput;

pub(super) use iops::Iops;
pub(super) use latency::LatencyTest;
pub(super) use saturation::Saturation;
pub(super) use throughput::Throughput;

use super::SECOND;

/// What the rounds of a test begin with.
const PREPARATION: &str = "trim,fill,fill";
/// A cell of a round.
const CELL_NS: u64 = 60 * SECOND;
/// Requests under way.
const DEPTH: u32 = 32;
