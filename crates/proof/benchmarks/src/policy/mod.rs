//! The default policy: compared with the others and the optimum over traces, under scans, its live
//! curve, and whether the cache misses as the simulation does.

mod curve;
mod gap;
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
    /// Parts to measure: gap, scan, curve, served.
    #[arg(long, value_delimiter = ',', default_value = "gap,scan,curve,served")]
    parts: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut found = traces::find(&arguments.traces)?;
    if arguments.parts.iter().any(|part| part == "gap") {
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
            other => bail!("--parts {other}: gap, scan, curve or served"),
        }
    }
    Ok(())
}
