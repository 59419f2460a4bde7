//! Rounds of a matrix of cells, until five of them are steady.

use super::steady::{self, Determination, WINDOW};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row, Series};
use crate::plan::Plan;
use crate::suite::parts::{before, seed, with_ceiling, writes};
use crate::test_rig::TestRig;
use load::{Latency, Load, Order, Record};

/// Maximum number of rounds.
const ROUNDS_MAX: usize = 25;

/// A cell of the matrix: its name, and its load.
pub(super) struct Cell {
    pub(super) test: String,
    pub(super) order: Order,
    pub(super) block_bytes: u32,
    pub(super) depth: u32,
    pub(super) reads_percent: u32,
}

/// Returns random requests of all these sizes that the device supports, in all these mixes; `name`
/// makes a name from the mix and the size.
pub(super) fn random_cells(
    rig: &TestRig,
    reads_percent: &[u32],
    block_bytes: &[u32],
    depth: u32,
    name: fn(u32, u32) -> String,
) -> Vec<Cell> {
    let least = rig.top().limits().block_logical_bytes;
    let cell = |reads_percent, block_bytes| Cell {
        test: name(reads_percent, block_bytes),
        order: Order::Random,
        block_bytes,
        depth,
        reads_percent,
    };
    let sizes = || block_bytes.iter().filter(move |bytes| **bytes >= least);
    let cells = reads_percent.iter().flat_map(|reads| sizes().map(|bytes| cell(*reads, *bytes)));
    cells.collect()
}

/// The cells of each round of a test, and the cell that determines the steady state.
pub(super) struct Matrix {
    pub(super) cells: Vec<Cell>,
    /// The tracked cell, and its description.
    pub(super) tracked: (String, &'static str),
    /// Makes the row of a cell.
    pub(super) row: fn(String, &Record) -> Row,
}

/// The measurements.
#[derive(Default)]
struct Measured {
    /// All cells of each complete round.
    rounds: Vec<Vec<Row>>,
    /// The cells of an incomplete round.
    begun: Vec<Row>,
    /// The tracked cell's figure in each complete round.
    tracked: Vec<f64>,
}

/// Purges the drive, writes it, and runs rounds. In any case the outcome contains everything
/// measured until then.
pub(super) fn run(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    matrix: &Matrix,
) -> Result<(), Halt> {
    before(rig, plan)?;
    rig.prepare(&plan.preparation, plan.span(), seed(plan, 1000))?;
    let mut measured = Measured::default();
    let is_steady = |tracked: &[f64]| Determination::of(tracked).is_some_and(|it| it.is_steady());
    let mut ended = Ok(());
    while measured.rounds.len() < ROUNDS_MAX && !is_steady(&measured.tracked) && ended.is_ok() {
        ended = round(rig, plan, matrix, &mut measured);
    }
    add_rows(rig, plan, outcome, matrix, &measured);
    ended
}

/// Runs all cells once.
fn round(
    rig: &mut TestRig,
    plan: &Plan,
    matrix: &Matrix,
    measured: &mut Measured,
) -> Result<(), Halt> {
    let number = measured.rounds.len();
    for (part, cell) in matrix.cells.iter().enumerate() {
        let load =
            writes(plan, cell.order, cell.block_bytes, cell.depth, (number * 100 + part) as u64);
        let load = Load { reads_percent: cell.reads_percent, flush: false, ..load };
        let record = rig.load(&format!("round {}: {}", number + 1, cell.test), load)?;
        let row = (matrix.row)(cell.test.clone(), &record);
        measured.begun.push(with_ceiling(rig, row));
    }
    // A round that was interrupted in its last cell is not complete.
    if let Some(halt) = rig.halt() {
        return Err(halt.clone());
    }
    let rows = std::mem::take(&mut measured.begun);
    let tracked = rows.iter().find(|row| row.test == matrix.tracked.0);
    measured.tracked.extend(tracked.map(|row| row.value));
    measured.rounds.push(rows);
    Ok(())
}

/// Adds the rows: the mean of each cell over the window, then the cells of an incomplete round.
fn add_rows(
    rig: &TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    matrix: &Matrix,
    measured: &Measured,
) {
    let rounds = &measured.rounds;
    outcome.say(format!(
        "It was trimmed, written twice over in order, and then each cell took {} s in each round.",
        plan.time_ns as f64 / 1e9
    ));
    let window = &rounds[rounds.len().saturating_sub(WINDOW)..];
    let cells = window.last().map_or(0, Vec::len);
    let unit = rounds.first().and_then(|rows| rows.first()).map_or("", |row| row.unit);
    outcome.say(verdict(matrix.tracked.1, unit, &measured.tracked));
    for cell in 0..cells {
        let row = mean(window, cell);
        // A test that was stopped before it was steady has no final result.
        let partial = row.partial || rig.halt().is_some();
        outcome.add(rig, Row { partial, ..row });
    }
    for row in &measured.begun {
        let test = format!("round {}, not ended: {}", rounds.len() + 1, row.test);
        outcome.add(rig, Row { test, partial: true, ..row.clone() });
    }
    outcome.series.push(Series {
        name: format!("{} by round", matrix.tracked.1),
        unit,
        along: "rounds",
        step: 1.0,
        values: measured.tracked.clone(),
    });
}

/// Describes whether it was steady, with the figures of the decision.
fn verdict(what: &str, unit: &str, tracked: &[f64]) -> String {
    let found = Determination::of(tracked);
    let figures = found.as_ref().map(|found| found.text(unit, "round"));
    let figures = figures.map_or(String::new(), |values| format!(" {what}, {values}"));
    match found.filter(Determination::is_steady).map(|found| found.rounds()) {
        Some((first, last)) => format!("Steady over rounds {first} to {last}:{figures}"),
        None => format!(
            "NOT steady after {} rounds: these are not figures of the specification.{figures}",
            tracked.len()
        ),
    }
}

/// Returns a cell's mean over the rounds, with the latencies of all of them.
fn mean(window: &[Vec<Row>], cell: usize) -> Row {
    let samples: Vec<f64> = window.iter().map(|rows| rows[cell].value).collect();
    let value = samples.iter().sum::<f64>() / samples.len() as f64;
    let mut latency = Latency::new();
    let all = window.iter().filter_map(|rows| rows[cell].latency.as_ref());
    all.for_each(|one| latency.merge(one));
    let partial = window.iter().any(|rows| rows[cell].partial);
    let row = window.last().expect("there is a round")[cell].clone();
    Row { value, samples, partial, latency: Some(latency), ..row }
}

/// Returns the plot of the steady state.
pub(super) fn plots(outcome: &Outcome) -> Vec<String> {
    outcome.series.iter().filter_map(steady::plot).collect()
}
