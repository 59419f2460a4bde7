//! SNIA's Solid State Storage Performance Test Specification: its IOPS test.
//!
//! The drive is purged, then written twice over in order, 128 KiB at a time. Then rounds: every size of 1 MiB down to 512
//! bytes with every mix of reads and writes, a minute for each. The drive is in its steady state when over five rounds
//! in a row random 4 KiB writes
//!
//! - do not spread: largest less least is at most 20 % of the mean, and
//! - do not drift: the straight line of least squares through them rises or falls by at most 10 % of the mean.
//!
//! After 25 rounds that is given up. A row is the mean of the five rounds. 32 requests are under way. The rule and the
//! minute are as recalled from the specification, version 2.0.

use super::{SECOND, Suite, before, seed, with_ceiling, writes};
use crate::bed::Bed;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::{Plan, Profile};
use block::Size;
use load::{Load, Order};

const READS: [u32; 7] = [100, 95, 65, 50, 35, 5, 0];
const SIZES: [u32; 8] = [1 << 20, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10, 4096, 512];
const DEPTH: u32 = 32;
const WINDOW: usize = 5;
const ROUNDS: usize = 25;

/// See the file's head.
pub(super) struct Pts;

static PROFILE: Profile = Profile {
    name: "pts",
    about: "SNIA's PTS, its IOPS test: rounds of sizes and mixes until five of them are steady",
    takes_state: false,
    preparation: "trim,fill,fill",
    time_ns: 60 * SECOND,
    span_bytes: None,
};

/// Whether the values of the rounds are those of a steady state.
pub(crate) fn is_steady(window: &[f64]) -> bool {
    if window.len() < WINDOW {
        return false;
    }
    let count = window.len() as f64;
    let mean = window.iter().sum::<f64>() / count;
    let least = window.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = window.iter().copied().fold(0.0, f64::max);
    let middle = (count - 1.0) / 2.0;
    let offsets = || (0..window.len()).map(|number| number as f64 - middle);
    let slope = offsets().zip(window).map(|(x, y)| x * (y - mean)).sum::<f64>()
        / offsets().map(|x| x * x).sum::<f64>();
    let drift = (slope * (count - 1.0)).abs();
    largest - least <= 0.2 * mean && drift <= 0.1 * mean
}

impl Suite for Pts {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        before(bed, plan)?;
        bed.prepare(&plan.preparation, plan.span(), seed(plan, 1000))?;
        let least = bed.top().limits().block_logical_bytes;
        let sizes: Vec<u32> = SIZES.into_iter().filter(|bytes| *bytes >= least).collect();
        let cells: Vec<(u32, u32)> =
            READS.iter().flat_map(|reads| sizes.iter().map(|bytes| (*reads, *bytes))).collect();
        let mut rounds: Vec<Vec<Row>> = Vec::new();
        let mut tracked: Vec<f64> = Vec::new();
        let mut ended = Ok(());
        while rounds.len() < ROUNDS && !is_steady(window(&tracked)) && ended.is_ok() {
            match round(bed, plan, &cells, rounds.len() as u64) {
                Ok(rows) => {
                    let row = rows.iter().find(|row| row.test == name(0, 4096));
                    tracked.extend(row.map(|row| row.value));
                    rounds.push(rows);
                }
                Err(halt) => ended = Err(halt),
            }
        }
        told(bed, plan, outcome, &rounds, &tracked);
        ended
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let row = outcome.row(&name(0, 4096))?;
        Some(format!("Random 4 KiB writes: {:.0} a second.", row.value))
    }
}

fn window(tracked: &[f64]) -> &[f64] {
    &tracked[tracked.len().saturating_sub(WINDOW)..]
}

fn name(reads_percent: u32, bytes: u32) -> String {
    format!("{reads_percent}/{}, random {}", 100 - reads_percent, Size(bytes.into()))
}

/// All cells once.
fn round(bed: &mut Bed, plan: &Plan, cells: &[(u32, u32)], number: u64) -> Result<Vec<Row>, Halt> {
    let mut rows = Vec::new();
    for (part, (reads_percent, bytes)) in cells.iter().enumerate() {
        let test = name(*reads_percent, *bytes);
        let load = writes(plan, Order::Random, *bytes, DEPTH, number * 100 + part as u64);
        let load = Load { reads_percent: *reads_percent, flush: false, ..load };
        let stage = format!("round {}: {test}", number + 1);
        let record = bed.load(&stage, load)?;
        rows.push(with_ceiling(bed, Row::rate(test, &record)));
    }
    Ok(rows)
}

/// The rows: of each cell the mean over the window.
fn told(bed: &Bed, plan: &Plan, outcome: &mut Outcome, rounds: &[Vec<Row>], tracked: &[f64]) {
    let steady = match is_steady(window(tracked)) {
        true => format!("Steady over rounds {} to {}.", rounds.len() + 1 - WINDOW, rounds.len()),
        false => format!(
            "NOT steady after {} rounds: these are no figures of the specification.",
            rounds.len()
        ),
    };
    outcome.say(format!(
        "It was trimmed, written twice over in order, and then each cell took {} s in each round. {steady}",
        plan.time_ns as f64 / 1e9
    ));
    let last = &rounds[rounds.len().saturating_sub(WINDOW)..];
    let Some(latest) = last.last() else { return };
    for (cell, row) in latest.iter().enumerate() {
        let samples: Vec<f64> = last.iter().map(|rows| rows[cell].value).collect();
        let value = samples.iter().sum::<f64>() / samples.len() as f64;
        let partial = last.iter().any(|rows| rows[cell].partial);
        outcome.add(bed, Row { value, samples, partial, ..row.clone() });
    }
    outcome.series.push(Series {
        name: "random 4 KiB writes by round".to_owned(),
        unit: "IOPS",
        along: "rounds",
        step: 1.0,
        values: tracked.to_vec(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_rounds_are_steady_if_they_neither_spread_nor_drift() {
        assert!(is_steady(&[100.0, 104.0, 97.0, 103.0, 99.0]));
        assert!(!is_steady(&[100.0, 104.0, 97.0, 103.0]), "four are too few");
        assert!(!is_steady(&[100.0, 125.0, 97.0, 103.0, 99.0]), "it spreads");
        assert!(!is_steady(&[106.0, 103.0, 100.0, 97.0, 94.0]), "it drifts");
        assert!(is_steady(&[104.0, 102.0, 100.0, 98.0, 96.0]), "by 8 % only");
    }
}
