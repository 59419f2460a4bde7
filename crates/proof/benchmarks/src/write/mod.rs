//! The write side in virtual time: the engine in front of a modelled 840 EVO, without data, charged
//! with the processor time of its work on this machine. Each row is compared with the bare drive
//! under the same load.
//!
//! With a fixed price list (`--prices`) the figures are exact: the same on every machine.

mod device;
mod ideal;
mod jobs;
mod load;
mod replay;
mod report;
mod rows;

use crate::prices::{self, PriceList};
use crate::trace;
use anyhow::{Result, ensure};
use device::Speed;
use jobs::{Job, run_all};
use lane::Prices;
use load::{Found, Load, SECOND, Until};
use rows::Row;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only rows whose name contains one of these.
    patterns: Vec<String>,
    /// Shorter runs.
    #[arg(long)]
    quick: bool,
    /// Print the rows' names.
    #[arg(long)]
    list: bool,
    /// A trace to be replayed: a recording, or MQSim's ASCII format, also compressed by xz. Without
    /// this the default one, if it exists.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// The cost of the engine's work, like hit=100,miss=50,...; by default measured first.
    #[arg(long)]
    prices: Option<PriceList>,
}

/// Measurements of the bare drive.
pub(crate) struct Bare {
    /// Single random writes per second at great depth.
    pub(crate) rate: f64,
    /// Earlier runs: the same load is not run twice.
    known: Vec<(Load, Speed, Found)>,
}

impl Bare {
    fn new() -> Result<Bare> {
        let mut bare = Bare { rate: 0.0, known: Vec::new() };
        bare.rate = bare.rate_at(128, Speed::Steady)?;
        Ok(bare)
    }

    /// Runs a load on the bare drive.
    pub(crate) fn run(&mut self, load: Load, speed: Speed) -> Result<&Found> {
        let known = self.known.iter().position(|(a, b, _)| (*a, *b) == (load, speed));
        let at = match known {
            Some(at) => at,
            None => {
                let found = load::run(load, speed, Prices::default(), None)?;
                self.known.push((load, speed, found));
                self.known.len() - 1
            }
        };
        Ok(&self.known[at].2)
    }

    /// Returns single random writes per second at this depth.
    pub(crate) fn rate_at(&mut self, depth: u32, speed: Speed) -> Result<f64> {
        let load = Load { depth, until: Until::Time(SECOND), ..rows::SINGLE };
        Ok(self.run(load, speed)?.rate_answered())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |name: &str| {
        let patterns = &arguments.patterns;
        patterns.is_empty() || patterns.iter().any(|pattern| name.contains(pattern))
    };
    let rows = rows::all(arguments.quick).into_iter();
    let rows: Vec<Row> = rows.filter(|row| wanted(&row.name)).collect();
    let replays: Vec<String> = replay::names().into_iter().filter(|name| wanted(name)).collect();
    ensure!(rows.len() + replays.len() > 0, "no row's name contains that; --list prints the names");
    if arguments.list {
        rows.iter().map(|row| &row.name).chain(&replays).for_each(|name| println!("{name}"));
        return Ok(());
    }
    let trace = if replays.is_empty() { None } else { trace::find(arguments.trace.as_deref())? };
    let prices = match arguments.prices {
        Some(prices) => prices,
        None => prices::measure(256),
    };
    println!(
        "--prices {prices} (nanoseconds{})",
        match arguments.prices {
            Some(_) => "",
            None => ", of this machine",
        }
    );
    let mut bare = Bare::new()?;
    let one = bare.run(rows::SINGLE_SECOND, Speed::Steady)?.write.quantiles[0];
    println!(
        "the drive: {:.1} us a write alone, {:.1} K a second at depth",
        one as f64 / 1e3,
        bare.rate / 1e3
    );
    let (jobs, of) = jobs(&rows);
    let mut missed = Vec::new();
    run_all(&jobs, prices.0, |number, found| {
        let job = &jobs[number];
        match of[number] {
            None => bare.known.push((job.load, job.speed, found)),
            Some(row) if report::print(row, &found, &mut bare)? => {}
            Some(row) => missed.push(row.name.clone()),
        }
        Ok(())
    })?;
    let mut all = rows.len();
    if let Some(trace) = trace {
        missed.extend(replay::run(trace, prices.0, &replays)?);
        all += replays.len();
    }
    println!("\n{} of {all} rows reached", all - missed.len());
    if !missed.is_empty() {
        println!("MISSED: {}", missed.join(" "));
    }
    Ok(())
}

/// Returns the jobs for these rows, and the row of each; the bare drive's jobs come first, and
/// serve every row with that load.
fn jobs(rows: &[Row]) -> (Vec<Job>, Vec<Option<&Row>>) {
    let (mut jobs, mut of) = (Vec::new(), Vec::new());
    for row in rows {
        let bare = Job { load: row.load, speed: row.speed, spec: None };
        if !jobs.contains(&bare) {
            jobs.push(bare.clone());
            of.push(None);
        }
        jobs.push(Job { spec: Some(row.spec.clone()), ..bare });
        of.push(Some(row));
    }
    (jobs, of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_have_names_of_their_own_and_the_bare_drive_is_run_once_for_each_load() {
        let rows = rows::all(false);
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        let (jobs, of) = jobs(&rows);
        let bare: Vec<&Job> = jobs.iter().filter(|job| job.spec.is_none()).collect();
        assert_eq!(of.iter().flatten().count(), rows.len());
        assert!(bare.len() < rows.len());
        assert!(rows.iter().all(|row| bare.iter().any(|job| job.load == row.load)));
    }
}
