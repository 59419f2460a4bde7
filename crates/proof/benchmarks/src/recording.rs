//! The recorder of a served volume: hits at depth 32 with a recorder, compared with none, and its
//! memory; and a recording that is replayed with its times on the same volume, which is recorded
//! again.
//!
//! ```text
//!   fio ------------------ overdrive, --memory 0, backing      recorded: service times 1
//!   trace replay --------- overdrive, --memory 0, backing      recorded: service times 2
//! ```

use crate::client::VOLUME;
use crate::fio::{Load, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::{Processors, pinned};
use crate::program::{Program, ProgramOptions, TemporaryPath, pause_ms};
use crate::sides::{Pairs, Side, in_turns, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
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
    /// Backings of the replay: delayed (memory whose answers wait), drive (a modelled one), file.
    #[arg(long, value_delimiter = ',', default_value = "delayed,drive,file")]
    backings: Vec<String>,
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
/// Memory like an SSD, each of whose answers takes the same time.
const DELAY: &str = "read=150us,write=60us,flush=200us,servers=8";
/// A drive whose answers differ, because its dies are busy or not.
const DRIVE: &str = "model:samsung-840-evo-250?size=256M&seed=1";
/// Time to write the volume, and for the drive to write its buffer.
const FILL_MS_MAX: u32 = 30_000;
const SETTLE_MS: u64 = 2000;
/// Size of the file of a replay.
const FILE_BYTES: u64 = 256 << 20;

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
        for backing in &arguments.backings {
            replay(arguments, &overdrive, backing)?;
        }
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
fn replay(arguments: &Arguments, overdrive: &Overdrive, backing: &str) -> Result<()> {
    let processors = Processors::split()?;
    let (on, client) = (processors.of_servers(), processors.of_client());
    let file = arguments.program_options.file("replayed");
    let (place, delay) = match backing {
        "delayed" => ("ram:256M".to_owned(), Some(["--delay", DELAY])),
        "drive" => (DRIVE.to_owned(), None),
        "file" => {
            let bytes = File::create(file.path()).context("the file")?;
            std::io::copy(&mut std::io::repeat(7).take(FILE_BYTES), &mut &bytes)?;
            bytes.sync_all()?;
            (file.path().display().to_string(), None)
        }
        other => anyhow::bail!("--backings {other}: delayed, drive or file"),
    };
    let more: Vec<&str> =
        ["--no-holder", "--memory", "0"].into_iter().chain(delay.into_iter().flatten()).collect();
    let server = overdrive.serve(&on, "replay", &place, &more)?;
    // A drive answers reads of blocks that were never written sooner.
    let whole = Load { once: true, ..Load::new("randwrite", 32) };
    fio_load(&server, &client, &whole, FILL_MS_MAX)?;
    pause_ms(SETTLE_MS);
    let [first, control, second] =
        ["first", "control", "second"].map(|name| output(arguments, name));
    for recording in [&first, &control] {
        let recorder = Recorder::start(arguments, overdrive, &on, recording.path())?;
        paced(&server, &client, arguments)?;
        recorder.end()?;
    }
    let recorder = Recorder::start(arguments, overdrive, &on, second.path())?;
    let trace = first.path().display().to_string();
    let uri = server.uri();
    let options = ["trace", "replay", &trace, &uri, "--destroy", "--state", "fresh", "--json"];
    // On one processor a replay would not get real-time priority.
    let replayed: Value = serde_json::from_str(&overdrive.well(&options)?)?;
    recorder.end()?;
    let of = |recording: &TemporaryPath| times(overdrive, recording.path());
    let (first, control, mut second) = (of(&first)?, of(&control)?, of(&second)?);
    server.stop()?;
    // The replay writes the range of the trace before; those requests are the first ones.
    let others = second.len().saturating_sub(first.len());
    second.drain(..others);
    ensure!(first.len() > 1000 && second.len() == first.len(), "{} requests", second.len());
    println!("{place}: {} requests replayed with their times on the same volume", first.len());
    let (first, control, second) = (Times::of(first), Times::of(control), Times::of(second));
    let (mean, distance) = first.compared_with(&second);
    let (mean_again, distance_again) = first.compared_with(&control);
    println!(
        "  mean service time {:.1} us against {:.1} us recorded: {:+.1} %  target {:.0} %: {}",
        second.mean_ns() / 1e3,
        first.mean_ns() / 1e3,
        mean * 100.0,
        MEAN_MAX * 100.0,
        verdict(mean.abs() <= MEAN_MAX)
    );
    println!(
        "  Kolmogorov-Smirnov distance {distance:.3}  target {DISTANCE_MAX}: {}",
        verdict(distance <= DISTANCE_MAX)
    );
    println!(
        "  the load itself once more, which shows the resolution: {:+.1} %, distance \
         {distance_again:.3}",
        mean_again * 100.0
    );
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

/// Service times in nanoseconds, sorted.
struct Times(Vec<f64>);

impl Times {
    fn of(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    fn mean_ns(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the share of requests that took at most this time.
    fn share(&self, ns: f64) -> f64 {
        self.0.partition_point(|it| *it <= ns) as f64 / self.0.len() as f64
    }

    /// Returns how much longer the other mean is, as a share, and the largest distance of the
    /// distributions (Kolmogorov and Smirnov).
    fn compared_with(&self, other: &Times) -> (f64, f64) {
        let apart = |ns: &f64| (self.share(*ns) - other.share(*ns)).abs();
        let distance = self.0.iter().chain(&other.0).map(apart).fold(0.0, f64::max);
        (other.mean_ns() / self.mean_ns() - 1.0, distance)
    }
}
