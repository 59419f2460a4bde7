//! The specification's latency test: random requests one at a time, of three sizes in three mixes.
//!
//! Each round runs 8 KiB, 4 KiB and 512 bytes with 100, 65 and 0 percent of reads, a minute each.
//! The mean latency of 4 KiB writes is tracked. The figure is the mean; the maximum of all five
//! rounds is shown next to it.

use super::rounds::{self, Matrix};
use super::{CELL_NS, PREPARATION};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::suite::Suite;
use crate::test_rig::TestRig;
use block::Size;
use report::bars::{Bar, Test, bars};
use report::heatmap;
use report::matrix_names::matrices;
use report::words::time;

const READS: [u32; 3] = [100, 65, 0];
const SIZES: [u32; 3] = [8 << 10, 4096, 512];

/// See the module documentation.
pub(in crate::suite) struct LatencyTest;

static PROFILE: Profile = Profile {
    name: "pts-latency",
    about: "SNIA's PTS, its latency test: random, one at a time, until five rounds are steady",
    takes_state: false,
    preparation: PREPARATION,
    time_ns: CELL_NS,
    span_bytes: None,
};

impl Suite for LatencyTest {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let matrix = Matrix {
            cells: rounds::random_cells(rig, &READS, &SIZES, 1, name),
            tracked: (name(0, 4096), "mean latency of random 4 KiB writes"),
            row: |test, record| Row::access(test, record),
        };
        rounds::run(rig, plan, outcome, &matrix)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let latency = outcome.row(&name(0, 4096))?.latency.as_ref()?;
        Some(format!(
            "Random 4 KiB writes, one at a time: {} on average, {} at most.",
            time(latency.mean_ns()),
            time(latency.max_ns() as f64)
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        let mut plots = rounds::plots(outcome);
        let longest = |row: &Row| row.latency.as_ref().map_or(0.0, |it| it.max_ns() as f64 / 1e6);
        for (title, value) in [("mean", (|row| row.value) as fn(&Row) -> f64), ("longest", longest)]
        {
            let values = outcome.rows.iter().map(|row| (row.test.as_str(), value(row)));
            let (drawn, left) = matrices(&values.collect::<Vec<_>>(), "ms");
            let named = |matrix: heatmap::Matrix| heatmap::Matrix {
                title: format!("Latency, {title}: {}", matrix.title),
                ..matrix
            };
            plots.extend(drawn.into_iter().map(|matrix| named(matrix).figure()));
            let tests = left.into_iter().map(|index| Test {
                name: outcome.rows[index].test.clone(),
                bars: vec![Some(Bar { value: value(&outcome.rows[index]), interval: None })],
                published: None,
            });
            let tests: Vec<Test> = tests.collect();
            let title = format!("Latency, {title}");
            plots.extend((!tests.is_empty()).then(|| bars(&title, "ms", &[], &tests)));
        }
        plots
    }
}

fn name(reads_percent: u32, bytes: u32) -> String {
    format!("{reads_percent}/{}, random {}, QD1", 100 - reads_percent, Size(bytes.into()))
}
