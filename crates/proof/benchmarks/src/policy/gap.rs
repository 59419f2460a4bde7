//! The share of the gap between LRU and the optimum that each policy closes, and a check that the
//! default one is never much worse than LRU.

use super::traces::Trace;
use crate::sides::verdict;
use ::policy::Kind;
use anyhow::{Context, Result};
use simulator::{Choice, Memory, Plan, Rate, Sample, run as simulate};

const PERCENTS: [u32; 4] = [1, 3, 10, 20];
/// Cells where the optimum saves less of LRU's misses than this, in percent, are not evaluated.
const SAVED_LEAST_PERCENT: f64 = 2.0;
/// The number of shards that the default policy is also tried with.
const SHARDS: u32 = 32;

/// The misses of each policy in one trace and size, in the order of [`choices`].
struct Cell {
    name: String,
    misses: Vec<f64>,
    in_shards: f64,
}

fn choices() -> Vec<Choice> {
    let is_kind = |choice: &Choice| choice.name != "default";
    Choice::all().filter(is_kind).collect()
}

fn cells(trace: &Trace, choices: &[Choice]) -> Result<Vec<Cell>> {
    let Some((path, format)) = &trace.file else { return Ok(Vec::new()) };
    let plan = |policies: Vec<Choice>, shards| Plan {
        path: path.clone(),
        format: Some(*format),
        memories: PERCENTS.map(|percent| Memory::Percent(f64::from(percent))).to_vec(),
        policies,
        devices: Vec::new(),
        reads_only: false,
        shards,
        sample: Sample::Fixed(Rate::ALL),
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let all = simulate(&plan(choices.to_vec(), 1), &mut ())?;
    let served = Choice::by_name("default").context("it is there")?;
    let in_shards = simulate(&plan(vec![served], SHARDS), &mut ())?;
    let cell = |(size, percent): (usize, &u32)| Cell {
        name: format!("{} {percent} %", trace.name),
        misses: all.runs[size..].iter().step_by(PERCENTS.len()).map(misses).collect(),
        in_shards: misses(&in_shards.runs[size]),
    };
    Ok(PERCENTS.iter().enumerate().map(cell).collect())
}

fn misses(run: &simulator::Run) -> f64 {
    run.block_misses as f64
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
    let mut closed = vec![Vec::new(); choices.len()];
    let mut worst = [(0.0f64, String::new()), (0.0, String::new())];
    println!("the share of the gap between LRU and the optimum that is closed, in per cent");
    let mut all = Vec::new();
    for trace in traces {
        all.extend(cells(trace, &choices)?);
    }
    for cell in all {
        let gap = cell.misses[lru] - cell.misses[optimum];
        for (misses, worst) in [cell.misses[served], cell.in_shards].into_iter().zip(&mut worst) {
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
        let shares = cell.misses.iter().map(|misses| (cell.misses[lru] - misses) / gap * 100.0);
        let mut line = format!("  {:<14}", cell.name);
        for ((choice, share), all) in choices.iter().zip(shares).zip(&mut closed) {
            all.push(share);
            if ![lru, optimum].contains(&place(choice.name).unwrap_or(lru)) {
                line += &format!(" {} {share:.1}", choice.name);
            }
        }
        println!("{line}");
    }
    let mean = |shares: &Vec<f64>| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let mut means: Vec<(f64, &str)> =
        closed.iter().map(mean).zip(&choices).map(|(mean, choice)| (mean, choice.name)).collect();
    means.retain(|(_, name)| *name != "opt");
    means.sort_by(|one, other| other.0.total_cmp(&one.0));
    let entries: Vec<String> =
        means.iter().map(|(mean, name)| format!("{name} {mean:.1}")).collect();
    println!(
        "mean: {}  target the served one first: {}",
        entries.join(", "),
        verdict(means.first().is_some_and(|first| first.1 == simulator::DEFAULT.name())),
    );
    for ((ratio, cell), shards) in worst.into_iter().zip([1, SHARDS]) {
        println!(
            "{shards} shards: most misses against LRU's in one: {ratio:.4} ({cell})  target at most 1.01: {}",
            verdict(ratio <= 1.01),
        );
    }
    Ok(())
}
