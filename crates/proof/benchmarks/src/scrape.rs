//! A scrape of the metrics of many volumes: its time, its size, and the daemon's processor time.

use crate::client::VOLUME;
use crate::program::{Program, ProgramOptions, TemporaryPath};
use crate::sides::{median, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Volumes of each daemon.
    #[arg(long, default_value_t = 50)]
    volumes: usize,
    /// Daemons, scraped one after the other; the sums are printed.
    #[arg(long, default_value_t = 2)]
    daemons: usize,
    /// Scrapes of each kind.
    #[arg(long, default_value_t = 100)]
    scrapes: usize,
}

/// Maximum time of a compressed scrape, in milliseconds.
const TIME_MAX_MS: f64 = 20.0;
/// Maximum size of a compressed scrape, in bytes.
const BYTES_MAX: usize = 200_000;
/// Time between two scrapes by default, in seconds.
const PERIOD_S: f64 = 15.0;
/// Maximum share of a processor, in percent.
const SHARE_MAX: f64 = 0.5;
/// Clock ticks per second of the kernel's processor times.
const TICKS: f64 = 100.0;

/// Returns the processor time of a process in seconds, with that of threads that have ended.
fn used_s(program: &Program) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id()))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

fn start(arguments: &Arguments, place: &Path) -> Result<Program> {
    std::fs::create_dir(place)?;
    let (socket, config) = (place.join("nbd.sock"), place.join("many.toml"));
    let metrics = place.join("metrics.sock");
    let mut text = format!("nbd = '{}'\n", format_args!("unix:{}", socket.display()));
    writeln!(text, "metrics = 'unix:{}'", metrics.display())?;
    let others = (1..arguments.volumes).map(|number| format!("guest-{number:03}-disk-0"));
    for name in [VOLUME.to_owned()].into_iter().chain(others) {
        writeln!(text, "[volume.{name}]\nbacking = 'ram:8M'\nmemory = '1M'\nholder = false")?;
    }
    std::fs::write(&config, text)?;
    let mut command = Command::new(arguments.program_options.overdrive()?);
    command.env("XDG_RUNTIME_DIR", place).env("XDG_STATE_HOME", place);
    command.args(["serve", "--quiet", "--json", "--config"]).arg(config);
    Program::start(command, &socket)
}

/// Scrapes all daemons. Returns the sum of the times in milliseconds, and of the sizes.
fn scrape_all(sockets: &[PathBuf], encoding: &str) -> Result<(f64, usize)> {
    let mut sum = (0.0, 0);
    for socket in sockets {
        let (ms, bytes) = scrape(socket, encoding)?;
        sum = (sum.0 + ms, sum.1 + bytes);
    }
    Ok(sum)
}

/// Makes one scrape. Returns its time in milliseconds, and the size of its response.
fn scrape(socket: &Path, encoding: &str) -> Result<(f64, usize)> {
    let start_ns = wall_ns();
    let mut stream = UnixStream::connect(socket).context("the metrics' socket")?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {encoding}\r\n\r\n")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    ensure!(response.starts_with(b"HTTP/1.1 200 "), "not the metrics");
    Ok(((wall_ns() - start_ns) as f64 / 1e6, response.len()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let place = TemporaryPath::runtime()?;
    let places = (0..arguments.daemons).map(|number| place.path().join(number.to_string()));
    let places: Vec<PathBuf> = places.collect();
    let programs: Result<Vec<Program>> = places.iter().map(|at| start(arguments, at)).collect();
    let programs = programs?;
    let sockets: Vec<PathBuf> = places.iter().map(|at| at.join("metrics.sock")).collect();
    let used_s = || programs.iter().map(used_s).sum::<Result<f64>>();
    for encoding in ["gzip", "identity"] {
        let used_before_s = used_s()?;
        let all: Result<Vec<_>> =
            (0..arguments.scrapes).map(|_| scrape_all(&sockets, encoding)).collect();
        let all = all?;
        let used_ms = (used_s()? - used_before_s) * 1e3 / arguments.scrapes.max(1) as f64;
        let least_ms = all.iter().map(|(ms, _)| *ms).fold(f64::INFINITY, f64::min);
        let median_ms = median(all.iter().map(|(ms, _)| *ms).collect());
        let bytes = all.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let share = used_ms / 10.0 / PERIOD_S;
        println!(
            "{} volumes, {encoding}: {median_ms:.1} ms (at least {least_ms:.1}), {bytes} bytes, \
             {used_ms:.1} ms of processor time: {share:.3} % of a processor each {PERIOD_S} s",
            arguments.volumes * arguments.daemons
        );
        if encoding == "gzip" {
            let reached = median_ms <= TIME_MAX_MS && bytes <= BYTES_MAX && share <= SHARE_MAX;
            println!(
                "  target at most {TIME_MAX_MS} ms, {BYTES_MAX} bytes, {SHARE_MAX} %: {}",
                verdict(reached)
            );
        }
    }
    Ok(())
}
