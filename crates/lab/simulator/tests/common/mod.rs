//! Shared by the tests of this crate.

use simulator::{Choice, Memory, Plan, Rate, Sample};
use std::path::Path;

/// Returns a plan of these caches over all blocks of this trace.
pub(crate) fn plan(path: &Path, memories: &[Memory], policies: &[&str]) -> Plan {
    let choice = |name: &&str| Choice::by_name(name).expect("a policy");
    Plan {
        path: path.to_owned(),
        format: None,
        memories: memories.to_vec(),
        policies: policies.iter().map(choice).collect(),
        devices: Vec::new(),
        reads_only: false,
        shards: 1,
        threads: 2,
        sample: Sample::Fixed(Rate::ALL),
        compress: None,
        hints: None,
    }
}
