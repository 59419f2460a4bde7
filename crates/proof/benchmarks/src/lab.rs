//! The lab's load compared with fio's: the same jobs, over NBD to a server that stores nothing, and
//! to a file.
//!
//! The job file is the output of `bench --export-fio`. The differences between two runs of fio are
//! measured in the same way: only a larger difference, and more than 5 % of the rate or 10 % of a
//! latency, is a difference between the lab and fio. If the server is not the limit, the rate is
//! the program's own, and the lab's must be higher.

use crate::overdrive::Overdrive;
use crate::processors::{Processors, pinned};
use crate::program::{ProgramOptions, fill};
use crate::sides::{Pairs, Side, in_turns, median, verdict};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Targets: null (an export of a server that stores nothing), file.
    #[arg(long, value_delimiter = ',', default_value = "null,file")]
    targets: Vec<String>,
    /// Bytes in use, in MiB.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 6)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u64,
}

/// A job of both programs: reads in percent, queue depth, and starts per second.
struct Job {
    name: &'static str,
    reads: &'static str,
    depth: &'static str,
    rate: Option<&'static str>,
    /// The programs limit the rate, and not the target.
    is_ceiling: bool,
}

/// Minimum of the lab's ceiling, relative to fio's rate.
const CEILING_MIN: f64 = 1.5;

/// Number of attempts for runs that the machine disturbs.
const TRIES: usize = 8;

const fn job(
    name: &'static str,
    reads: &'static str,
    depth: &'static str,
    rate: Option<&'static str>,
    is_ceiling: bool,
) -> Job {
    Job { name, reads, depth, rate, is_ceiling }
}

const OF_NULL: [Job; 4] = [
    job("reads, depth 1", "100", "1", None, false),
    job("reads, 10,000 a second", "100", "32", Some("10000"), false),
    job("reads, depth 32", "100", "32", None, true),
    job("writes, depth 32", "0", "32", None, true),
];

const OF_FILE: [Job; 4] = [
    job("reads, depth 1", "100", "1", None, false),
    job("reads, depth 32", "100", "32", None, false),
    job("writes, depth 1", "0", "1", None, false),
    job("writes, depth 32", "0", "32", None, false),
];

/// The result of a run.
#[derive(Clone, Copy)]
struct Found {
    per_second: f64,
    p50_ns: f64,
    p99_ns: f64,
}

/// A compared figure: its name, its value, and the minimum of a difference.
type Figure = (&'static str, fn(&Found) -> f64, f64);

const FIGURES: [Figure; 3] = [
    ("requests a second", |found| 1e9 / found.per_second, 0.05),
    ("p50", |found| found.p50_ns, 0.10),
    ("p99", |found| found.p99_ns, 0.10),
];

/// Both programs, on the client's processor.
struct Programs<'a> {
    overdrive: &'a Overdrive,
    processors: Processors,
    target: &'a str,
    arguments: &'a Arguments,
}

impl Programs<'_> {
    fn words<'w>(&'w self, job: &'w Job, span: &'w str, time: &'w str) -> Vec<&'w str> {
        let mut words = vec!["bench", "custom", self.target, "--destroy", "--prepare", "fresh"];
        words.extend(["--block", "4K", "--reads", job.reads, "--depth", job.depth]);
        words.extend(["--span", span, "--time", time]);
        words.extend(job.rate.iter().flat_map(|rate| ["--rate", rate]));
        words
    }

    fn lab(&self, job: &Job) -> Result<Found> {
        let (span, time) = self.sizes();
        let mut words = self.words(job, &span, &time);
        words.extend(["--json", "--no-history"]);
        for _ in 0..TRIES {
            let said = self.overdrive.pinned(&self.processors.of_client(), &words)?;
            let result: Value = serde_json::from_str(&said).context(said)?;
            let row = &result["rows"][0];
            if row["valid"] != false {
                return found(&row["value"], &row["p50_ns"], &row["p99_ns"]);
            }
            println!("    INVALID, once more: starts late by {} ns at p99", row["lateness_p99_ns"]);
        }
        bail!("the lab started too late {TRIES} times: this machine is too busy for {}", job.name)
    }

    fn sizes(&self) -> (String, String) {
        (format!("{}M", self.arguments.mib), format!("{}ms", self.arguments.run_ms))
    }

    /// Writes the job as fio's file.
    fn export(&self, job: &Job, file: &Path) -> Result<()> {
        let (span, time) = self.sizes();
        let name = file.display().to_string();
        let mut words = self.words(job, &span, &time);
        words.extend(["--export-fio", &name]);
        self.overdrive.well(&words).map(drop)
    }

    fn fio(&self, file: &Path) -> Result<Found> {
        let output = pinned("fio", &self.processors.of_client())
            .arg("--output-format=json")
            .arg(file)
            .output()
            .context("cannot start taskset (util-linux)")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "fio (apt-get install fio): {said}");
        // fio may print text before its report.
        let start = output.stdout.iter().position(|&byte| byte == b'{').unwrap_or(0);
        let report: Value = serde_json::from_slice(&output.stdout[start..])
            .with_context(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
        let job = &report["jobs"][0];
        let side = if job["read"]["total_ios"] != 0 { &job["read"] } else { &job["write"] };
        let percentiles = &side["lat_ns"]["percentile"];
        found(&side["iops"], &percentiles["50.000000"], &percentiles["99.000000"])
    }
}

fn found(rate: &Value, p50: &Value, p99: &Value) -> Result<Found> {
    let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
    let (rate, p50, p99) = (number(rate), number(p50), number(p99));
    let (Some(per_second), Some(p50_ns), Some(p99_ns)) = (rate, p50, p99) else {
        bail!("a run found nothing: {rate:?} a second, {p50:?} and {p99:?} ns");
    };
    Ok(Found { per_second, p50_ns, p99_ns })
}

/// Returns the typical difference of two runs, in either direction: the median over the pairs of
/// |ln(a / b)|.
fn apart(pairs: &Pairs) -> f64 {
    median(pairs.ratios().iter().map(|ratio| ratio.ln().abs()).collect())
}

fn compare(programs: &Programs, job: &Job, file: &Path) -> Result<()> {
    programs.export(job, file)?;
    let pairs = programs.arguments.pairs;
    let with_lab = in_turns(pairs, |side| match side {
        Side::A => programs.lab(job),
        Side::B => programs.fio(file),
    })?;
    let alone = in_turns(pairs, |_| programs.fio(file))?;
    println!("  {}", job.name);
    for (name, figure, limit) in FIGURES {
        let (both, alone) = (Pairs::of(&with_lab, figure), Pairs::of(&alone, figure));
        let is_rate = name.starts_with("requests");
        let value = |ns: f64| match is_rate {
            true => format!("{:.0}", 1e9 / ns),
            false => format!("{:.1} us", ns / 1e3),
        };
        let (differs, fio_differs) = (apart(&both), apart(&alone));
        let words = if is_rate { both.speed_words() } else { both.cost_words() };
        let said = match job.is_ceiling {
            true if is_rate => {
                format!("at least {CEILING_MIN}: {}", verdict(both.speed().1 >= CEILING_MIN))
            }
            true => "the program's own".to_owned(),
            false => format!(
                "apart {:.1} %, fio from fio {:.1} %, at most that or {:.0} %: {}",
                100.0 * differs.exp_m1(),
                100.0 * fio_differs.exp_m1(),
                100.0 * limit,
                verdict(differs <= fio_differs.max(limit.ln_1p()))
            ),
        };
        println!(
            "    {name:<18} {:>10} against fio's {:>10}  ratio {words}; {said}",
            value(both.a()),
            value(both.b())
        );
    }
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let (image, jobs) =
        (arguments.program_options.file("lab"), arguments.program_options.file("lab-fio"));
    let compare_all = |target: &str, list: &[Job]| -> Result<()> {
        let processors = processors.clone();
        let programs = Programs { overdrive: &overdrive, processors, target, arguments };
        println!("{target}: 4 KiB at random over {} MiB, the lab against fio", arguments.mib);
        list.iter().try_for_each(|job| compare(&programs, job, jobs.path()))
    };
    for target in &arguments.targets {
        match target.as_str() {
            "null" => {
                let options = ["--no-holder", "--write", "none"];
                let server =
                    overdrive.serve(&processors.of_servers(), "lab", "null:8G", &options)?;
                compare_all(&server.uri(), &OF_NULL)?;
            }
            "file" => {
                fill(image.path(), arguments.mib << 20)?;
                compare_all(&image.path().display().to_string(), &OF_FILE)?;
            }
            other => bail!("--targets {other}: null, file"),
        }
    }
    Ok(())
}
