//! The specification's IOPS test: random requests of eight sizes in seven mixes of reads and
//! writes.
//!
//! Each round runs every size of 1 MiB down to 512 bytes with every mix, a minute each. Random 4
//! KiB writes are tracked.

use super::rounds::{self, Matrix};
use super::{CELL_NS, DEPTH, PREPARATION};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::suite::Suite;
use crate::test_rig::TestRig;
use block::Size;
use report::words::figure;

const READS: [u32; 7] = [100, 95, 65, 50, 35, 5, 0];
const SIZES: [u32; 8] = [1 << 20, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10, 4096, 512];

/// See the module documentation.
pub(in crate::suite) struct Iops;

static PROFILE: Profile = Profile {
    name: "pts",
    about: "SNIA's PTS, its IOPS test: rounds of sizes and mixes until five of them are steady",
    takes_state: false,
    preparation: PREPARATION,
    time_ns: CELL_NS,
    span_bytes: None,
};

impl Suite for Iops {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let matrix = Matrix {
            cells: rounds::random_cells(rig, &READS, &SIZES, DEPTH, name),
            tracked: (name(0, 4096), "random 4 KiB writes"),
            row: |test, record| Row::rate(test, record),
        };
        rounds::run(rig, plan, outcome, &matrix)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let row = outcome.row(&name(0, 4096))?;
        Some(format!("Random 4 KiB writes: {} per second.", figure(row.value)))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        [rounds::plots(outcome), plots::rows(outcome)].concat()
    }
}

fn name(reads_percent: u32, bytes: u32) -> String {
    format!("{reads_percent}/{}, random {}", 100 - reads_percent, Size(bytes.into()))
}
