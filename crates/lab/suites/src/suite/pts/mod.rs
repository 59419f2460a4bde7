//! SNIA's Solid State Storage Performance Test Specification (PTS): IOPS, throughput, latency,
//! write saturation.
//!
//! The drive is purged. For the first three tests it is then written twice in order, 128 KiB at a
//! time, and rounds of the test's matrix follow until five of them are steady ([`steady`]), at most
//! 25 rounds. A row is the mean of these five rounds.
//!
//! Some parts of the specification are known from descriptions of others: the purge, the two
//! passes, the matrix of sizes and mixes of the IOPS test, and rounds until they are steady. Other
//! parts are recalled from its version 2.0: the rule itself, the minute of each cell, the 25
//! rounds, the matrices of throughput and latency, and the length of the write saturation. The
//! queue depth is the tester's choice there; it is 32 here, and one for latency.

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

use super::parts::SECOND;

/// The preparation before the rounds of a test.
const PREPARATION: &str = "trim,fill,fill";
/// Duration of a cell of a round.
const CELL_NS: u64 = 60 * SECOND;
/// Requests under way.
const DEPTH: u32 = 32;
