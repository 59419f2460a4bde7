//! The compressed tier over traces: the misses of the default policy without it, with the rules of
//! the engine, and with fixed ones.

use super::Arguments;
use super::gap::PERCENTS;
use super::traces::{self, Trace};
use ::policy::{CompressedBytes, Simulation, TierRules, TierShare, TieredSimulation};
use anyhow::{Context, Result};
use simulator::BlockSizes;
use std::sync::Arc;

/// Fixed rules, with their names.
fn fixed_rules() -> [(&'static str, TierRules); 7] {
    let of = |percent, stores_rejected| {
        let share = TierShare { percent, stores_rejected };
        TierRules::engine(share)
    };
    let half = of(50, false);
    [
        ("1/4", of(25, false)),
        ("1/2", half),
        ("3/4", of(75, false)),
        ("1/2 all", of(50, true)),
        ("3/4 all", of(75, true)),
        ("first", TierRules { admits_at_first_read: true, ..half }),
        ("new", TierRules { are_proven: false, ..half }),
    ]
}

/// The names of all rules: those of the engine first.
fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once("engine").chain(fixed_rules().map(|(name, _)| name))
}

/// The misses of one trace and size, without the tier and with each of the rules.
struct Cell {
    name: String,
    plain: u64,
    tiered: Vec<u64>,
}

impl Cell {
    fn of(trace: &Trace, percent: u32, sizes: &Arc<CompressedBytes>) -> Cell {
        let (kind, slots) = (simulator::DEFAULT, trace.slots(percent));
        let mut plain = Simulation::new(kind, slots);
        let fixed = fixed_rules()
            .map(|(_, rules)| TieredSimulation::with_rules(kind, slots, 1, rules, sizes));
        let mut tiered = vec![TieredSimulation::new(kind, slots, 1, sizes)];
        tiered.extend(fixed);
        let mut cell = Cell {
            name: format!("{} {percent} %", trace.name),
            plain: 0,
            tiered: vec![0; tiered.len()],
        };
        for block in trace.blocks() {
            cell.plain += u64::from(!plain.read(block));
            for (cache, misses) in tiered.iter_mut().zip(&mut cell.tiered) {
                *misses += u64::from(!cache.read(block));
            }
        }
        cell
    }

    /// The changes of the misses by the tier, in percent.
    fn changes(&self) -> impl Iterator<Item = f64> {
        self.tiered.iter().map(|misses| (*misses as f64 / self.plain as f64 - 1.0) * 100.0)
    }
}

/// Compares the rules.
///
/// # Errors
/// A trace cannot be read, or the ratio makes no sense.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let sizes = BlockSizes::of_ratio(arguments.compress).context("--compress: from 1 to 512")?;
    let sizes = Arc::new(sizes);
    let of_hash = sizes.clone();
    let bytes: Arc<CompressedBytes> = Arc::new(move |hash| of_hash.of(hash));
    println!(
        "changes of the misses by the compressed tier, in percent, at a ratio of {}",
        arguments.compress
    );
    let names: String = names().map(|name| format!("{name:>8}")).collect();
    println!("  {:<16} {:>10}{names}", "", "without");
    let mut cells = Vec::new();
    for trace in traces::find(&arguments.traces)? {
        if !arguments.takes(&trace.name, trace.family()) {
            continue;
        }
        for percent in PERCENTS {
            let cell = Cell::of(&trace, percent, &bytes);
            let changes: String = cell.changes().map(|change| format!("{change:>8.1}")).collect();
            println!("  {:<16} {:>10}{changes}", cell.name, cell.plain);
            cells.push(cell);
        }
    }
    summary(&cells);
    Ok(())
}

/// Prints the mean, the best and the worst change of each of the rules.
fn summary(cells: &[Cell]) {
    for (number, name) in names().enumerate() {
        let changes: Vec<f64> =
            cells.iter().filter_map(|cell| cell.changes().nth(number)).collect();
        let mean = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
        let best = changes.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = changes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        println!("  {name:<8} mean {mean:+.1}, best {best:+.1}, worst {worst:+.1}");
    }
}
