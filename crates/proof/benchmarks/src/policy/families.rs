//! The default policy and all others over the generated families of loads
//! ([`simulator::families`]): misses against LRU's, and the share of the gap between LRU and the
//! optimum that is closed, for each family and size.

use super::Arguments;
use super::gap::{Cell, Family, LESS, PERCENTS, SAVED_LEAST_PERCENT, cells, choices};
use crate::sides::verdict;
use ::policy::Kind;
use anyhow::{Context, Result};
use simulator::Choice;
use simulator::families::FAMILIES;
use trace::Format;

/// The bound of misses against LRU's applies to caches of at least this size.
pub(super) const SLOTS_MIN: u64 = 512;
/// Misses of the default policy divided by LRU's, at most.
pub(super) const RATIO_MAX: f64 = 1.01;

/// The indexes of the policies that are compared with the rest.
struct Indexes {
    lru: usize,
    optimum: usize,
    served: usize,
}

/// The results of one family and size.
#[derive(Default)]
struct Size {
    ratios: Vec<f64>,
    closed: Family,
}

/// The caches with the most misses against LRU's.
#[derive(Default)]
struct Worst {
    cells: Vec<(f64, String)>,
}

impl Worst {
    fn add(&mut self, ratio: f64, cell: &Cell) {
        if cell.slots >= SLOTS_MIN {
            self.cells.push((ratio, cell.name.clone()));
        }
    }

    fn report(&mut self) {
        self.cells.sort_by(|one, other| other.0.total_cmp(&one.0));
        let over = self.cells.iter().filter(|(ratio, _)| *ratio > RATIO_MAX).count();
        let shown: Vec<String> =
            self.cells.iter().take(5).map(|(ratio, name)| format!("{ratio:.3} {name}")).collect();
        println!(
            "most misses against LRU's, {SLOTS_MIN} slots or more: {}; above {RATIO_MAX}: {over} of \
             {}  target none: {}",
            shown.join(", "),
            self.cells.len(),
            verdict(over == 0),
        );
    }
}

impl Size {
    /// Adds a cache. Returns its misses against LRU's.
    fn add(&mut self, cell: &Cell, at: &Indexes) -> f64 {
        let (lru, optimum) = (cell.misses[at.lru], cell.misses[at.optimum]);
        let ratio = cell.misses[at.served] / lru;
        self.ratios.push(ratio);
        let gap = lru - optimum;
        if gap * 100.0 >= lru * SAVED_LEAST_PERCENT {
            let closed = cell.misses.iter().map(|misses| (lru - misses) / gap * 100.0);
            self.closed.add(&closed.collect::<Vec<f64>>());
        }
        ratio
    }

    fn print(&self, percent: u32, choices: &[Choice]) {
        let count = self.ratios.len() as f64;
        let mean = self.ratios.iter().sum::<f64>() / count;
        let worst = self.ratios.iter().copied().fold(0.0, f64::max);
        let is_shown = |choice: &Choice| choice.name != "opt" && choice.name != Kind::Lru.name();
        let closed = choices.iter().zip(self.closed.means());
        let closed: Vec<String> = closed
            .filter(|(choice, _)| is_shown(choice))
            .map(|(choice, mean)| format!("{} {mean:.1}", choice.name))
            .collect();
        println!(
            "  {percent:>2} %  {mean:.3} of LRU's misses, at most {worst:.3}; closed: {}",
            closed.join(" ")
        );
    }
}

/// Returns a load in ARC's format, which every tool reads.
fn text(load: &[u64]) -> String {
    let mut text = String::new();
    for (number, block) in load.iter().enumerate() {
        text += &format!("{block} 1 0 {number}\n");
    }
    text
}

/// Compares the policies.
///
/// # Errors
/// A load cannot be written or read.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let choices = choices();
    let find = |name: &str| choices.iter().position(|choice| choice.name == name);
    let at = Indexes {
        lru: find(Kind::Lru.name()).context("LRU is there")?,
        optimum: find("opt").context("the optimum is there")?,
        served: find(simulator::DEFAULT.name()).context("the served one is there")?,
    };
    let scratch = tempfile::tempdir()?;
    let directory = arguments.write.as_deref().unwrap_or(scratch.path());
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let (mut all, mut worst) = (Family::default(), Worst::default());
    for family in FAMILIES.iter().filter(|family| arguments.takes(family.name, family.name)) {
        println!("{}: {}", family.name, family.reason);
        let mut sizes = PERCENTS.map(|_| Size::default());
        for seed in 1..=arguments.seeds {
            let name = format!("{}-{seed}", family.name);
            let path = directory.join(format!("{name}.lis"));
            std::fs::write(&path, text(&family.generate(seed, arguments.reads)))
                .with_context(|| path.display().to_string())?;
            let cells = cells(&name, &(path, Format::Arc), &choices)?;
            for (cell, size) in cells.iter().zip(&mut sizes) {
                worst.add(size.add(cell, &at), cell);
            }
        }
        let mut closed = Family::default();
        for (size, percent) in sizes.iter().zip(PERCENTS) {
            size.print(percent, &choices);
            size.closed.merge_into(&mut closed);
        }
        closed.report(family.name, &choices, LESS);
        closed.merge_into(&mut all);
    }
    all.report("all generated families", &choices, 0.0);
    worst.report();
    Ok(())
}
