//! The error of a simulated sample, and its speed-up.
//!
//! Every policy and the optimum, at several sizes of each trace, once over all blocks and then over
//! samples. Differences are those of miss ratios, so 0.01 is one access in a hundred. Times are
//! those of whole runs on all processors, including the decompression of the trace; the fastest of
//! each counts.

use crate::sides::wall_ns;
use crate::zipf::Zipf;
use anyhow::{Context, Result, bail};
use lane::Random;
use simulator::{Choice, Memory, Outcome, Plan, Rate, Run, Sample};
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::Format;

/// Sizes of the caches, in percent of the footprint.
const PERCENTS: [f64; 4] = [1.0, 3.0, 10.0, 20.0];
/// Shares of the blocks.
const RATES: [f64; 2] = [0.1, 0.01];

/// Differences of miss ratios.
#[derive(Default)]
struct Differences {
    count: usize,
    sum: f64,
    largest: f64,
    /// The policy and the size of the largest.
    worst: String,
}

impl Differences {
    fn add(&mut self, difference: f64, run: &Run) {
        self.count += 1;
        self.sum += difference;
        if difference > self.largest {
            self.largest = difference;
            self.worst = format!(" ({} at {})", run.policy, run.memory);
        }
    }

    fn text(&self) -> String {
        match self.count {
            0 => "no cache".to_owned(),
            count => format!(
                "largest {:.4}{}, mean {:.4} of {count}",
                self.largest,
                self.worst,
                self.sum / count as f64
            ),
        }
    }
}

/// Parses the name of a trace: `FILE`, or `FILE=FORMAT`.
fn plan(named: &str) -> Result<Plan> {
    let (path, format) = match named.rsplit_once('=') {
        None => (named, None),
        Some((path, name)) => match Format::by_name(name) {
            Some(format) => (path, Some(format)),
            None => bail!("--sampled {named}: there is no format {name}"),
        },
    };
    Ok(Plan {
        path: PathBuf::from(path),
        format,
        memories: PERCENTS.map(Memory::Percent).to_vec(),
        policies: Choice::all().filter(|choice| choice.name != "default").collect(),
        devices: Vec::new(),
        reads_only: false,
        shards: 1,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        sample: Sample::Fixed(Rate::ALL),
        compress: None,
        hints: None,
    })
}

/// Returns the seconds of a plan's fastest run, and its results.
fn timed(plan: &Plan, runs: usize) -> Result<(f64, Outcome)> {
    let mut fastest: Option<(f64, Outcome)> = None;
    for _ in 0..runs.max(1) {
        let begun = wall_ns();
        let outcome = simulator::run(plan, &mut ())?;
        let seconds = (wall_ns() - begun) as f64 / 1e9;
        if fastest.as_ref().is_none_or(|known| seconds < known.0) {
            fastest = Some((seconds, outcome));
        }
    }
    fastest.context("one run at least")
}

/// Measures these traces; a generated one if there are none.
pub(super) fn run(named: &[String], runs: usize) -> Result<()> {
    if named.is_empty() {
        let home = tempfile::tempdir()?;
        let path = home.path().join("zipf.csv");
        generate(&path)?;
        return measure(&path.to_string_lossy(), runs);
    }
    named.iter().try_for_each(|named| measure(named, runs))
}

fn measure(named: &str, runs: usize) -> Result<()> {
    let plan = plan(named)?;
    let (whole_seconds, whole) = timed(&plan, runs)?;
    println!(
        "{named}: {} accesses, {} blocks, {whole_seconds:.2} s for {} caches",
        whole.counts.block_accesses,
        whole.footprint.blocks,
        whole.runs.len()
    );
    for share in RATES {
        let rate = Rate::new(share).context("a share")?;
        let sampled = Plan { sample: Sample::Fixed(rate), ..plan.clone() };
        let (seconds, near) = timed(&sampled, runs)?;
        let (mut all, mut trusted) = (Differences::default(), Differences::default());
        for (run, exact) in near.runs.iter().zip(&whole.runs) {
            let difference = (near.miss_ratio(run) - whole.miss_ratio(exact)).abs();
            all.add(difference, run);
            if run.is_trusted() {
                trusted.add(difference, run);
            }
        }
        println!(
            "  rate {rate}: {}; of 1,000 sampled slots or more {}; {:.1} x as fast ({seconds:.3} s)",
            all.text(),
            trusted.text(),
            whole_seconds / seconds
        );
    }
    Ok(())
}

/// Generates four million accesses, zipf 1.0 over a million blocks.
fn generate(path: &Path) -> Result<()> {
    let mut random = Random::new(1);
    let zipf = Zipf::new(1_000_000, 1.0, &mut random);
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for block in zipf.draw(4_000_000, &mut random) {
        writeln!(file, "R,{},4096", u64::from(block) * 4096)?;
    }
    drop(file.into_inner()?);
    Ok(())
}
