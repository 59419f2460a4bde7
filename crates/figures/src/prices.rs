//! The price list of this machine: what the engine's work costs with real bytes, on one thread.

use crate::sides::cpu_ns;
use anyhow::{Result, ensure};
use suites::prices::{self, Measure};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Requests in each run.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// Print one JSON object, for 'overdrive bench --prices'.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.mib >= 1 && arguments.requests >= 1, "--mib and --requests: 1 or more");
    let how = Measure {
        memory_bytes: arguments.mib << 20,
        requests: arguments.requests,
        ..Measure::default()
    };
    let measured = prices::measure(&how, &mut cpu_ns);
    if arguments.json {
        println!("{}", prices::document(&measured));
        return Ok(());
    }
    println!("nanoseconds of this machine, {} MiB of ordinary pages:", arguments.mib);
    for (name, ns) in prices::to_json(&measured).as_object().into_iter().flatten() {
        println!("  {name:<12} {ns:>8}");
    }
    Ok(())
}
