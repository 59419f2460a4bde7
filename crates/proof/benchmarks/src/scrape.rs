//! A scrape of the metrics of many volumes: its time, its size, and the daemon's processor time.
//! Hits of a daemon that is scraped each second, compared with hits without scrapes.

use crate::client::{VOLUME, Waiting, Window};
use crate::processors::{Processors, pinned};
use crate::program::{Program, ProgramOptions, TemporaryPath};
use crate::sides::{Pairs, Side, in_turns, median, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use lane::Random;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

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
    /// Pairs of runs of hits, with a scrape each second and without.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Milliseconds of each of these runs.
    #[arg(long, default_value_t = 4000)]
    run_ms: u64,
}

/// Maximum time of a compressed scrape, in milliseconds.
const TIME_MAX_MS: f64 = 20.0;
/// Maximum size of a compressed scrape, in bytes.
const BYTES_MAX: usize = 200_000;
/// Time between two scrapes by default, in seconds.
const PERIOD_S: f64 = 15.0;
/// Maximum share of a processor, in percent.
const SHARE_MAX: f64 = 0.5;
/// Maximum share of the hits that scrapes may cost, in percent.
const HITS_MAX: f64 = 0.5;
/// Reads under way of the client of these hits.
const WINDOW: usize = 32;
/// Clock ticks per second of the kernel's processor times.
const TICKS: f64 = 100.0;

/// Returns the processor time of a process in seconds, with that of threads that have ended.
fn used_s(program: &Program) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id()))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// Starts a daemon on these processors. All of its first volume fits into the cache.
fn start(arguments: &Arguments, place: &Path, processors: &str) -> Result<Program> {
    std::fs::create_dir(place)?;
    let (socket, config) = (place.join("nbd.sock"), place.join("many.toml"));
    let metrics = place.join("metrics.sock");
    let mut text = format!("nbd = '{}'\n", format_args!("unix:{}", socket.display()));
    writeln!(text, "metrics = 'unix:{}'", metrics.display())?;
    let others = (1..arguments.volumes).map(|number| format!("guest-{number:03}-disk-0"));
    for name in [VOLUME.to_owned()].into_iter().chain(others) {
        let memory = if name == VOLUME { "16M" } else { "1M" };
        writeln!(text, "[volume.{name}]\nbacking = 'ram:8M'\nmemory = '{memory}'")?;
        writeln!(text, "holder = false\nguard = 'off'")?;
    }
    std::fs::write(&config, text)?;
    let mut command = pinned(arguments.program_options.overdrive()?, processors);
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

/// Compares hits through a daemon that is scraped each second with hits through the same daemon
/// that is not. The scraping thread uses the daemon's processors, so its time counts as well.
fn overhead(arguments: &Arguments, place: &Path) -> Result<()> {
    let processors = Processors::split()?;
    let program = start(arguments, place, &processors.of_servers())?;
    let metrics = place.join("metrics.sock");
    let mut client = program.connect()?;
    client.read_all()?;
    processors.take_clients()?;
    let (blocks, mut random) = (client.blocks(), Random::new(1));
    let window = Window { reads: WINDOW, waiting: Waiting::Blocked, run_ms: arguments.run_ms };
    let found = in_turns(arguments.pairs, |side| {
        let used_before_ns = program.used_ns()?;
        let scraping = (side == Side::A).then(|| Scraping::start(&metrics, &processors));
        let run = client.reads(window, || random.below(blocks), |_| ())?;
        scraping.map_or(Ok(()), Scraping::end)?;
        let used_ns = program.used_ns()? - used_before_ns;
        Ok((run.period_ns(), used_ns as f64 / run.requests.max(1) as f64))
    })?;
    println!("hits of a daemon with {} volumes, with a scrape each second:", arguments.volumes);
    print_cost("time", &Pairs::of(&found, |(period_ns, _)| *period_ns));
    print_cost("processor time", &Pairs::of(&found, |(_, used_ns)| *used_ns));
    Ok(())
}

/// Prints the cost of scrapes in a time for each hit, and whether it is below its maximum: the
/// spread of the runs may be too large to decide.
fn print_cost(name: &str, pairs: &Pairs) {
    let cost = |speed: f64| (1.0 / speed - 1.0) * 100.0;
    let (least, most) = (cost(pairs.speed_upper_95()), cost(pairs.speed_lower_95()));
    let word = match (least <= HITS_MAX, most <= HITS_MAX) {
        (true, true) => verdict(true),
        (false, _) => verdict(false),
        (true, false) => "not decided, the runs differ too much",
    };
    println!(
        "  {name}: {:.0} ns against {:.0} ns without, {:+.2} %, 95 % interval {least:+.2} to \
         {most:+.2} %  target at most {HITS_MAX} %: {word}",
        pairs.a(),
        pairs.b(),
        cost(pairs.speed().1),
    );
}

/// A thread that scrapes a daemon each second.
struct Scraping {
    stop: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<Result<()>>,
}

impl Scraping {
    fn start(socket: &Path, processors: &Processors) -> Scraping {
        let (stop, stopped) = channel();
        let (socket, processors) = (socket.to_owned(), processors.clone());
        let thread = std::thread::spawn(move || {
            processors.take_servers()?;
            loop {
                scrape(&socket, "gzip")?;
                match stopped.recv_timeout(Duration::from_secs(1)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return Ok(()),
                }
            }
        });
        Scraping { stop, thread }
    }

    fn end(self) -> Result<()> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow::anyhow!("the scraping thread has panicked"))?
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let place = TemporaryPath::runtime()?;
    let places = (0..arguments.daemons).map(|number| place.path().join(number.to_string()));
    let places: Vec<PathBuf> = places.collect();
    let all: Vec<String> = Processors::all()?.iter().map(usize::to_string).collect();
    let start_all = places.iter().map(|at| start(arguments, at, &all.join(",")));
    let programs = start_all.collect::<Result<Vec<Program>>>()?;
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
    drop(programs);
    overhead(arguments, &place.path().join("hits"))
}
