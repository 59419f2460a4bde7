//! The share of the gap between LRU and the optimum that each policy closes, for each trace, each
//! family of traces and all, and a check that the default one is never much worse than LRU.

use super::traces::Trace;
use crate::sides::verdict;
use ::policy::Kind;
use ::trace::Format;
use anyhow::{Context, Result};
use simulator::{Choice, Memory, Plan, Rate, Sample, run as simulate};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) const PERCENTS: [u32; 4] = [1, 3, 10, 20];
/// Cells where the optimum saves less of LRU's misses than this, in percent, are not evaluated.
pub(super) const SAVED_LEAST_PERCENT: f64 = 2.0;
/// A family's mean may be this much below that of the best other policy, in percent of the gap.
pub(super) const LESS: f64 = 1.0;
/// The number of shards that the default policy is also tried with.
const SHARDS: u32 = 32;

/// The misses of each policy in one trace and size, in the order of [`choices`].
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) slots: u64,
    pub(super) misses: Vec<f64>,
    in_shards: f64,
}

pub(super) fn choices() -> Vec<Choice> {
    let is_kind = |choice: &Choice| choice.name != "default";
    Choice::all().filter(is_kind).collect()
}

/// Simulates all choices over a file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn cells(
    name: &str,
    (path, format): &(PathBuf, Format),
    choices: &[Choice],
) -> Result<Vec<Cell>> {
    let plan = |policies: Vec<Choice>, shards| Plan {
        path: path.clone(),
        format: Some(*format),
        memories: PERCENTS.map(|percent| Memory::Percent(f64::from(percent))).to_vec(),
        policies,
        devices: Vec::new(),
        reads_only: false,
        shards,
        sample: Sample::Fixed(Rate::ALL),
        compress: None,
        hints: None,
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let all = simulate(&plan(choices.to_vec(), 1), &mut ())?;
    let served = Choice::by_name("default").context("it is there")?;
    let in_shards = simulate(&plan(vec![served], SHARDS), &mut ())?;
    let cell = |(size, percent): (usize, &u32)| Cell {
        name: format!("{name} {percent} %"),
        slots: all.runs[size].slots,
        misses: all.runs[size..].iter().step_by(PERCENTS.len()).map(misses).collect(),
        in_shards: misses(&in_shards.runs[size]),
    };
    Ok(PERCENTS.iter().enumerate().map(cell).collect())
}

fn misses(run: &simulator::Run) -> f64 {
    run.block_misses as f64
}

/// The shares of the gap that each policy has closed, in percent, of each cell of a family.
#[derive(Default)]
pub(super) struct Family {
    /// In the order of [`choices`].
    closed: Vec<Vec<f64>>,
}

impl Family {
    pub(super) fn add(&mut self, shares: &[f64]) {
        self.closed.resize(shares.len(), Vec::new());
        self.closed.iter_mut().zip(shares).for_each(|(all, share)| all.push(*share));
    }

    /// Adds all its cells to another.
    pub(super) fn merge_into(&self, other: &mut Family) {
        other.closed.resize(self.closed.len().max(other.closed.len()), Vec::new());
        for (all, own) in other.closed.iter_mut().zip(&self.closed) {
            all.extend_from_slice(own);
        }
    }

    pub(super) fn means(&self) -> impl Iterator<Item = f64> {
        self.closed.iter().map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64)
    }

    /// Prints the means of the policies, best first, and whether the served one has reached the
    /// target: at least the best other less one percent of the gap, or above it.
    pub(super) fn report(&self, name: &str, choices: &[Choice], less: f64) {
        let named = self.means().zip(choices.iter().map(|choice| choice.name));
        let mut means: Vec<(f64, &str)> = named.filter(|(_, name)| *name != "opt").collect();
        means.sort_by(|one, other| other.0.total_cmp(&one.0));
        let is_served = |mean: &&(f64, &str)| mean.1 == simulator::DEFAULT.name();
        let served = means.iter().find(is_served).map_or(0.0, |mean| mean.0);
        let other = means.iter().find(|mean| !is_served(mean)).map_or(0.0, |mean| mean.0);
        let told: Vec<String> =
            means.iter().map(|(mean, name)| format!("{name} {mean:.1}")).collect();
        println!(
            "mean of {name}: {}  target at least {:.1}: {}",
            told.join(", "),
            other - less,
            verdict(served >= other - less),
        );
    }
}

/// Compares the policies.
///
/// # Errors
/// A trace cannot be read.
pub(crate) fn run(traces: &[Trace]) -> Result<()> {
    let choices = choices();
    let place = |name: &str| choices.iter().position(|choice| choice.name == name);
    let lru = place(Kind::Lru.name()).context("LRU is there")?;
    let optimum = place("opt").context("the optimum is there")?;
    let served = place(simulator::DEFAULT.name()).context("the served one is there")?;
    let (mut families, mut all) = (BTreeMap::<&str, Family>::new(), Family::default());
    let mut worst = [(0.0f64, String::new()), (0.0, String::new())];
    println!("the share of the gap between LRU and the optimum that is closed, in per cent");
    for trace in traces {
        let Some(file) = &trace.file else { continue };
        for cell in cells(&trace.name, file, &choices)? {
            let gap = cell.misses[lru] - cell.misses[optimum];
            for (misses, worst) in [cell.misses[served], cell.in_shards].into_iter().zip(&mut worst)
            {
                let ratio = misses / cell.misses[lru];
                if ratio > worst.0 {
                    *worst = (ratio, cell.name.clone());
                }
            }
            if gap * 100.0 < cell.misses[lru] * SAVED_LEAST_PERCENT {
                println!(
                    "  {:<14} the optimum saves under {SAVED_LEAST_PERCENT} % of LRU's misses",
                    cell.name
                );
                continue;
            }
            let share = |misses: &f64| (cell.misses[lru] - misses) / gap * 100.0;
            let shares: Vec<f64> = cell.misses.iter().map(share).collect();
            print_cell(&cell, &choices, &shares);
            families.entry(trace.family()).or_default().add(&shares);
            all.add(&shares);
        }
    }
    for (name, family) in &families {
        family.report(name, &choices, LESS);
    }
    all.report("all", &choices, 0.0);
    for ((ratio, cell), shards) in worst.into_iter().zip([1, SHARDS]) {
        println!(
            "{shards} shards: most misses against LRU's in one: {ratio:.4} ({cell})  target at most 1.01: {}",
            verdict(ratio <= 1.01),
        );
    }
    Ok(())
}

fn print_cell(cell: &Cell, choices: &[Choice], shares: &[f64]) {
    let is_shown = |name: &str| name != "opt" && name != Kind::Lru.name();
    let shown = choices.iter().zip(shares).filter(|(choice, _)| is_shown(choice.name));
    let told: Vec<String> = shown.map(|(it, share)| format!("{} {share:.1}", it.name)).collect();
    println!("  {:<14} {}", cell.name, told.join(" "));
}
