//! The write side in virtual time: the engine in front of a modelled 840 EVO, without data, with
//! the processor's time that its work costs on this machine charged. Beside each row stands the bare
//! drive under the same load.
//!
//! With a fixed price list (`--prices`) the figures are exact: the same on every machine.

mod device;
mod ideal;
mod load;
mod report;
mod rows;

use crate::prices::{self, PriceList};
use anyhow::{Result, ensure};
use device::Speed;
use lane::Prices;
use load::{Found, Load, SECOND, Until};
use rows::Row;

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
    /// What the engine's work costs, like hit=100,miss=50,...; by default measured first.
    #[arg(long)]
    prices: Option<PriceList>,
}

/// What the bare drive does, measured.
pub(crate) struct Bare {
    /// Single random writes a second at great depth.
    pub(crate) rate: f64,
    /// What was run so far: the same load is not run twice.
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

    /// Single random writes a second at this depth.
    pub(crate) fn rate_at(&mut self, depth: u32, speed: Speed) -> Result<f64> {
        let load = Load { depth, until: Until::Time(SECOND), ..rows::SINGLE };
        Ok(self.run(load, speed)?.rate_answered())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |row: &Row| {
        let patterns = &arguments.patterns;
        patterns.is_empty() || patterns.iter().any(|pattern| row.name.contains(pattern))
    };
    let rows: Vec<Row> = rows::all(arguments.quick).into_iter().filter(wanted).collect();
    ensure!(!rows.is_empty(), "no row's name contains that; --list prints the names");
    if arguments.list {
        rows.iter().for_each(|row| println!("{}", row.name));
        return Ok(());
    }
    let prices = match arguments.prices {
        Some(prices) => prices,
        None => prices::measure(256)?,
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
    let mut missed = Vec::new();
    for row in &rows {
        let cached = load::run(row.load, row.speed, prices.0, Some(&row.spec))?;
        if !report::tell(row, &cached, &mut bare)? {
            missed.push(row.name.as_str());
        }
    }
    println!("\n{} of {} rows reached", rows.len() - missed.len(), rows.len());
    if !missed.is_empty() {
        println!("MISSED: {}", missed.join(" "));
    }
    Ok(())
}
