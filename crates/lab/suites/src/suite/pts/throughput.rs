//! The specification's throughput test: sequential reads and writes of 1 MiB.
//!
//! Each round reads for a minute and writes for a minute. The writes are tracked.

use super::rounds::{self, Cell, Matrix};
use super::{CELL_NS, DEPTH, PREPARATION};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::suite::Suite;
use crate::test_rig::TestRig;
use load::Order;
use report::words::figure;

const BLOCK_BYTES: u32 = 1 << 20;
const READ: &str = "100/0, sequential 1 MiB";
const WRITE: &str = "0/100, sequential 1 MiB";

/// See the module documentation.
pub(in crate::suite) struct Throughput;

static PROFILE: Profile = Profile {
    name: "pts-throughput",
    about: "SNIA's PTS, its throughput test: sequential 1 MiB until five rounds are steady",
    takes_state: false,
    preparation: PREPARATION,
    time_ns: CELL_NS,
    span_bytes: None,
};

impl Suite for Throughput {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let cell = |test: &str, reads_percent| Cell {
            test: test.to_owned(),
            order: Order::Sequential,
            block_bytes: BLOCK_BYTES,
            depth: DEPTH,
            reads_percent,
        };
        let matrix = Matrix {
            cells: vec![cell(READ, 100), cell(WRITE, 0)],
            tracked: (WRITE.to_owned(), "sequential 1 MiB writes"),
            row: |test, record| Row::throughput(test, record),
        };
        rounds::run(rig, plan, outcome, &matrix)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let (read, write) = (outcome.row(READ)?.value, outcome.row(WRITE)?.value);
        Some(format!("Sequential 1 MiB: {} MB/s read, {} written.", figure(read), figure(write)))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        [rounds::plots(outcome), plots::rows(outcome)].concat()
    }
}
