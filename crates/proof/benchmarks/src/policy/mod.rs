//! The default policy: compared with the others and the optimum over traces, under scans, its live
//! curve, and whether the cache misses as the simulation does. On request also over generated
//! families of loads, its choices phase by phase, other numbers for its arbiter, the compressed
//! tier with its rules and with others, and hints by class of file.

mod choices;
mod compressed;
mod curve;
mod families;
mod gap;
mod hints;
mod left_out;
mod limit;
mod phases;
mod scan;
mod served;
pub(crate) mod traces;

use anyhow::{Result, bail};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A directory with traces, which may be compressed; other files are ignored.
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    /// Parts to measure: gap, scan, curve, served; families, choices, left-out, compressed, limit
    /// (of a compressed block) and hints.
    #[arg(long, value_delimiter = ',', default_value = "gap,scan,curve,served")]
    parts: Vec<String>,
    /// Number of generated loads of each family, with the seeds from 1.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Number of reads of each generated load.
    #[arg(long, default_value_t = 400_000)]
    reads: usize,
    /// Only traces and families of these names, for families, choices, left-out, compressed and
    /// limit.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// With families: keep the generated loads in this directory, for `overdrive sim`.
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
    /// With compressed: the compression ratio.
    #[arg(long, default_value_t = 2.5)]
    compress: f64,
    /// With choices: print the choices of each phase as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Whether a load of this name and family is measured.
    fn takes(&self, name: &str, family: &str) -> bool {
        let is_named = |wanted: &String| wanted == name || wanted == family;
        self.only.is_empty() || self.only.iter().any(is_named)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let has = |name: &str| arguments.parts.iter().any(|part| part == name);
    if has("families") {
        families::run(arguments)?;
    }
    if has("choices") {
        choices::run(arguments)?;
    }
    if has("left-out") {
        left_out::run(arguments)?;
    }
    if has("compressed") {
        compressed::run(arguments)?;
    }
    if has("limit") {
        limit::run(arguments)?;
    }
    if has("hints") {
        hints::run();
    }
    let others = ["families", "choices", "left-out", "compressed", "limit", "hints"];
    if arguments.parts.iter().all(|part| others.contains(&part.as_str())) {
        return Ok(());
    }
    let mut found = traces::find(&arguments.traces)?;
    if has("gap") {
        gap::run(&found)?;
    }
    // The other parts move data or simulate every size alone: ARC's traces would take an hour.
    found.retain(|trace| trace.family() != "ARC");
    for part in &arguments.parts {
        match part.as_str() {
            "gap" => {}
            "scan" => scan::run(),
            "curve" => curve::run(&found),
            "served" => served::run(&found)?,
            other if others.contains(&other) => {}
            other => {
                bail!(
                    "--parts {other}: gap, scan, curve, served, families, choices, left-out, compressed, \
                     limit or hints"
                )
            }
        }
    }
    Ok(())
}
