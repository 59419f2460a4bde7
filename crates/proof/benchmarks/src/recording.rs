//! The recorder of a served volume: hits at depth 32 with a recorder, compared with none, and its
//! memory; and a recording that is replayed with its times on the same volume, which is recorded
//! again.
//!
//! ```text
//!   fio ------------------ overdrive, --memory 0, --delay      recorded: service times 1
//!   trace replay --------- overdrive, --memory 0, --delay      recorded: service times 2
//! ```

use crate::client::VOLUME;
use crate::fio::{Load, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::{Processors, pinned};
use crate::program::{Program, ProgramOptions, TemporaryPath, pause_ms};
use crate::sides::{Pairs, Side, in_turns, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Parts: rate, replay.
    #[arg(long, value_delimiter = ',', default_value = "rate,replay")]
    parts: Vec<String>,
    /// Pairs of runs, with a recorder and without.
    #[arg(long, default_value_t = 8)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u32,
    /// Requests per second of the recorded load.
    #[arg(long, default_value_t = 2000)]
    rate: u32,
}

/// Minimum rate with a recorder, relative to none.
const RATE_MIN: f64 = 0.99;
/// Maximum memory of a recorder, in the daemon and in its own process, in MB.
const MEMORY_MAX_MB: f64 = 64.0;
/// Maximum difference of the mean service times, and of their distributions.
const MEAN_MAX: f64 = 0.05;
const DISTANCE_MAX: f64 = 0.1;
/// The part of the volume that is read, and its cache.
const HOT_BYTES: u64 = 32 << 20;
const MEMORY: &str = "64M";
/// A disk of a replay: like an SSD.
const DELAY: &str = "read=150us,write=60us,flush=200us,servers=8";

/// A recorder in a process of its own.
struct Recorder {
    child: Child,
    output: PathBuf,
}

impl Recorder {
    /// Starts one on these processors, and waits until it records.
    fn start(
        arguments: &Arguments,
        overdrive: &Overdrive,
        on: &str,
        output: &Path,
    ) -> Result<Recorder> {
        let mut command = pinned(arguments.program_options.overdrive()?, on);
        command.args(["trace", "record", VOLUME]).arg(output).arg("--json");
        command.env("XDG_RUNTIME_DIR", overdrive.directory()).stdout(Stdio::piped());
        let child = command.spawn().context("taskset")?;
        let mut recorder = Recorder { child, output: output.to_owned() };
        let end_ns = wall_ns() + 20_000_000_000;
        // The file is created after the recorder is switched on.
        while !recorder.output.exists() {
            ensure!(recorder.child.try_wait()?.is_none(), "the recorder has ended");
            ensure!(wall_ns() < end_ns, "the recorder does not start");
            pause_ms(5);
        }
        Ok(recorder)
    }

    /// Ends it as Ctrl-C does. Returns its report.
    fn end(self) -> Result<Value> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let ended = self.child.wait_with_output()?;
        ensure!(ended.status.success(), "the recorder ended, {}", ended.status);
        Ok(serde_json::from_slice(&ended.stdout)?)
    }
}

/// Returns a memory size of a process, in MB.
fn memory_mb(process: u32, key: &str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)).context("no such size")?;
    let kib: f64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let has = |part: &str| arguments.parts.iter().any(|it| it == part);
    if has("rate") {
        rate(arguments, &overdrive)?;
    }
    if has("replay") {
        replay(arguments, &overdrive)?;
    }
    Ok(())
}

/// Compares hits at depth 32 with a recorder and without.
fn rate(arguments: &Arguments, overdrive: &Overdrive) -> Result<()> {
    let processors = Processors::split()?;
    let more = ["--no-holder", "--guard", "off", "--memory", MEMORY];
    let server = overdrive.serve(&processors.of_servers(), "rate", "ram:1G", &more)?;
    let load = Load { bytes: Some(HOT_BYTES), ..Load::new("randread", 32) };
    fio_load(&server, &processors.of_client(), &load, 2000)?;
    let before_mb = memory_mb(server.id(), "VmRSS")?;
    let (mut daemon_mb, mut recorder_mb, mut dropped) = (0f64, 0f64, 0);
    let found = in_turns(arguments.pairs, |side| {
        let load = || fio_load(&server, &processors.of_client(), &load, arguments.run_ms);
        if side == Side::B {
            return load();
        }
        let output = output(arguments, "rate");
        let on = processors.of_servers();
        let recorder = Recorder::start(arguments, overdrive, &on, output.path())?;
        let run = load()?;
        daemon_mb = daemon_mb.max(memory_mb(server.id(), "VmRSS")? - before_mb);
        recorder_mb = recorder_mb.max(memory_mb(recorder.child.id(), "VmHWM")?);
        let report = recorder.end()?;
        dropped += report["dropped"].as_u64().context("a number")?;
        ensure!(report["requests"].as_f64() >= Some(run.requests * 0.5), "{report}");
        Ok(run)
    })?;
    server.stop()?;
    let periods = Pairs::of(&found, |run| run.period_ns);
    let used = Pairs::of(&found, |run| run.used_ns);
    println!("hits of 4 KiB at depth 32, recorded to a compressed file, against not recorded");
    println!(
        "  {:.0} against {:.0} per second  ratio {}  target {RATE_MIN}: {}; {dropped} dropped",
        1e9 / periods.a(),
        1e9 / periods.b(),
        periods.speed_words(),
        periods.level(RATE_MIN),
    );
    // The recorder shares the server's processors.
    println!(
        "  {:.0} against {:.0} ns of the daemon's processor per request, {}",
        used.a(),
        used.b(),
        used.cost_words()
    );
    let sum_mb = daemon_mb + recorder_mb;
    println!(
        "  memory: {daemon_mb:.1} MB more in the daemon, {recorder_mb:.1} MB in the recorder  \
         target {MEMORY_MAX_MB} MB together: {}",
        verdict(sum_mb <= MEMORY_MAX_MB)
    );
    Ok(())
}

fn output(arguments: &Arguments, name: &str) -> TemporaryPath {
    // The name of an image, but compressed.
    let file = arguments.program_options.file(name);
    TemporaryPath::of(file.path().with_extension("trace.zst"))
}

/// Compares the service times of a load with those of its replay on the same volume.
fn replay(arguments: &Arguments, overdrive: &Overdrive) -> Result<()> {
    let processors = Processors::split()?;
    let (on, client) = (processors.of_servers(), processors.of_client());
    let more = ["--no-holder", "--memory", "0", "--delay", DELAY];
    let server = overdrive.serve(&on, "replay", "ram:256M", &more)?;
    let [first, second] = ["first", "second"].map(|name| output(arguments, name));
    let recorder = Recorder::start(arguments, overdrive, &on, first.path())?;
    paced(&server, &client, arguments)?;
    recorder.end()?;
    let recorder = Recorder::start(arguments, overdrive, &on, second.path())?;
    let trace = first.path().display().to_string();
    let uri = server.uri();
    let options = ["trace", "replay", &trace, &uri, "--destroy", "--state", "fresh", "--json"];
    // On one processor a replay would not get real-time priority.
    let replayed: Value = serde_json::from_str(&overdrive.well(&options)?)?;
    recorder.end()?;
    let first = times(overdrive, first.path())?;
    let mut second = times(overdrive, second.path())?;
    server.stop()?;
    // The replay writes the range of the trace before; those requests are the first ones.
    let others = second.len().saturating_sub(first.len());
    second.drain(..others);
    ensure!(first.len() > 1000 && second.len() == first.len(), "{} requests", second.len());
    compare(first, second);
    println!(
        "  lateness of the replay's starts: p99 {:.1} us, {} of its requests waited",
        replayed["lateness_p99_ns"].as_f64().unwrap_or(0.0) / 1e3,
        replayed["waited"]
    );
    Ok(())
}

/// Runs a load of requests at random times.
fn paced(server: &Program, on: &str, arguments: &Arguments) -> Result<()> {
    let output = pinned("fio", on)
        .args(["--name=paced", "--ioengine=nbd", "--bs=4k", "--rw=randrw", "--rwmixread=70"])
        .args(["--randrepeat=0", "--thread=1", "--norandommap", "--time_based", "--iodepth=32"])
        .args(["--rate_process=poisson", "--runtime=10s"])
        .arg(format!("--rate_iops={0},{0}", arguments.rate / 2))
        .arg(format!("--uri={}", server.uri()))
        .output()
        .context("fio")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio (apt-get install fio): {said}");
    Ok(())
}

/// Returns the service times of a recording's reads and writes, in the order of their arrivals.
fn times(overdrive: &Overdrive, recording: &Path) -> Result<Vec<f64>> {
    let path = recording.display().to_string();
    let csv = overdrive.well(&["trace", "convert", &path, "-", "--to", "csv"])?;
    let of_data = csv.lines().filter(|line| line.starts_with('R') || line.starts_with('W'));
    let took = |line: &str| line.split(',').nth(4).and_then(|field| field.parse().ok());
    of_data.map(|line| took(line).with_context(|| line.to_owned())).collect()
}

/// Prints the difference of the means, and the largest distance of the distributions (Kolmogorov
/// and Smirnov).
fn compare(mut first: Vec<f64>, mut second: Vec<f64>) {
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let (one, other) = (mean(&first), mean(&second));
    [&mut first, &mut second].iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let share = |sorted: &[f64], ns: f64| {
        sorted.partition_point(|it| *it <= ns) as f64 / sorted.len() as f64
    };
    let apart = |ns: &f64| (share(&first, *ns) - share(&second, *ns)).abs();
    let distance = first.iter().chain(&second).map(apart).fold(0.0, f64::max);
    println!("{} requests replayed with their times on the same volume", first.len());
    println!(
        "  mean service time {:.1} us against {:.1} us recorded: {:+.1} %  target {:.0} %: {}",
        other / 1e3,
        one / 1e3,
        (other / one - 1.0) * 100.0,
        MEAN_MAX * 100.0,
        verdict((other / one - 1.0).abs() <= MEAN_MAX)
    );
    println!(
        "  Kolmogorov-Smirnov distance {distance:.3}  target {DISTANCE_MAX}: {}",
        verdict(distance <= DISTANCE_MAX)
    );
}
