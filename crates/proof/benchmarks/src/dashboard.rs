//! The dashboard with many volumes and two weeks of history: sizes and times of its pages, and the
//! processor time of the daemon for its statistics.

use crate::program::{ProgramOptions, TemporaryPath, pause_ms};
use crate::sides::{median, verdict, wall_ns};
use anyhow::{Context, Result, bail, ensure};
use history::{Figures, MINUTES_KEPT_S, SECONDS_KEPT_S, Samples, VolumeSample};
use lane::Random;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Volumes of the daemon, each with a history.
    #[arg(long, default_value_t = 20)]
    volumes: usize,
    /// Times that each page is loaded.
    #[arg(long, default_value_t = 20)]
    loads: usize,
    /// Seconds for which the daemon's processor time is measured, with a page open and without.
    #[arg(long, default_value_t = 20)]
    watch_s: u64,
}

/// Maximum size of the first page with its style, script and picture, in bytes.
const BYTES_MAX: usize = 150_000;
/// Maximum time of the first page, in milliseconds.
const TIME_MAX_MS: f64 = 1000.0;
/// Maximum share of a processor for statistics each second, in percent.
const SHARE_MAX: f64 = 1.0;
/// Samples that are recorded at a time.
const BATCH: usize = 20_000;
/// Clock ticks per second of the kernel's processor times.
const TICKS: f64 = 100.0;

/// A process that is killed at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts a command, and returns its first line.
    fn start(mut command: Command) -> Result<(Process, String)> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {command:?}"))?;
        let stdout = child.stdout.take().context("a pipe")?;
        let process = Process(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(!line.trim().is_empty(), "{command:?} printed nothing");
        Ok((process, line.trim().to_owned()))
    }

    /// Returns its processor time in seconds.
    fn used_s(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
        Ok(ticks.sum::<f64>() / TICKS)
    }
}

fn name(number: usize) -> String {
    format!("guest-{number:03}-disk-0")
}

/// Records two weeks of minutes, and an hour of seconds, of all volumes.
fn record(file: &Path, volumes: usize) -> Result<()> {
    let mut samples = Samples::open(file).map_err(anyhow::Error::new)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().cast_signed();
    let mut random = Random::new(1);
    let minutes = (now_s - MINUTES_KEPT_S..now_s - SECONDS_KEPT_S).step_by(60);
    let times = minutes.chain(now_s - SECONDS_KEPT_S..now_s);
    let mut batch = Vec::with_capacity(BATCH);
    for at_s in times {
        for number in 0..volumes {
            let reads = 100 + random.below(900);
            let figures = Figures {
                reads,
                read_hits: reads - random.below(100),
                changes: random.below(300),
                written_bytes: random.below(64 << 20),
                written_back_bytes: random.below(32 << 20),
                saved_bytes: random.below(32 << 20),
                time_saved_ns: random.below(1_000_000_000),
                miss_p99_ns: 1_000_000 + random.below(9_000_000),
                flush_p99_ns: 1_000_000 + random.below(90_000_000),
                dirty_bytes: random.below(64 << 20),
                dirty_age_ns: random.below(5_000_000_000),
                held_bytes: 1 << 20,
                clients: 1,
                ..Figures::default()
            };
            batch.push(VolumeSample { volume: name(number), at_s, figures });
        }
        if batch.len() >= BATCH {
            samples.record_volumes(&batch).map_err(anyhow::Error::new)?;
            batch.clear();
        }
    }
    samples.record_volumes(&batch).map_err(anyhow::Error::new)?;
    samples.thin(now_s).map_err(anyhow::Error::new)
}

/// A browser without a window: it sends requests with the cookie of its session.
struct Visitor {
    host: String,
    cookie: String,
}

impl Visitor {
    /// Sends a request; returns the whole answer.
    fn send(&self, first: &str, body: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.host)?;
        let head = self.head(first, body.len());
        stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn head(&self, first: &str, length: usize) -> String {
        let Visitor { host, cookie } = self;
        format!(
            "{first} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\n\
             Content-Length: {length}\r\n"
        )
    }

    /// Logs in with a token.
    fn log_in(host: String, token: &str) -> Result<Visitor> {
        let mut visitor = Visitor { host, cookie: String::new() };
        let page = visitor.send("GET /login", "")?;
        let csrf = page.split("name=\"csrf\" value=\"").nth(1).context("a form")?;
        let csrf = csrf.split('"').next().unwrap_or_default();
        let form = format!("csrf={csrf}&token={token}");
        let answer = visitor.send("POST /login", &form)?;
        let cookie = answer.split("set-cookie: ").nth(1).context("a session")?;
        visitor.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(visitor)
    }

    /// Loads a page; returns its size in bytes without the head.
    fn load(&self, path: &str) -> Result<usize> {
        let answer = self.send(&format!("GET {path}"), "")?;
        ensure!(
            answer.starts_with("HTTP/1.1 200 "),
            "{path}: {}",
            &answer[..answer.len().min(300)]
        );
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer")?;
        Ok(body.len())
    }
}

/// Loads pages that belong together, and prints the median of their time, and their size.
fn measure(visitor: &Visitor, loads: usize, what: &str, paths: &[&str]) -> Result<(usize, f64)> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..loads.max(1) {
        let begun_ns = wall_ns();
        bytes = paths.iter().map(|path| visitor.load(path)).sum::<Result<usize>>()?;
        times.push((wall_ns() - begun_ns) as f64 / 1e6);
    }
    let (most_ms, ms) = (times.iter().copied().fold(0.0, f64::max), median(times));
    println!("{what}: {bytes} bytes, {ms:.1} ms (at most {most_ms:.1})");
    Ok((bytes, ms))
}

/// Returns the share of a processor that the daemon uses while it is observed, in percent.
fn share(daemon: &Process, seconds: u64) -> Result<f64> {
    let before_s = daemon.used_s()?;
    let begun_ns = wall_ns();
    pause_ms(seconds * 1000);
    let passed_s = (wall_ns() - begun_ns) as f64 / 1e9;
    Ok(100.0 * (daemon.used_s()? - before_s) / passed_s)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let place = TemporaryPath::runtime()?;
    let home = place.path();
    let overdrive = arguments.program_options.overdrive()?;
    let command = || {
        let mut command = Command::new(&overdrive);
        for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
            command.env(variable, home);
        }
        command
    };
    std::fs::create_dir_all(home.join("overdrive"))?;
    let file = home.join("overdrive/samples.sqlite3");
    record(&file, arguments.volumes)?;
    let mib = std::fs::metadata(&file)?.len() >> 20;
    println!("{} volumes, two weeks of history: {mib} MiB", arguments.volumes);
    let mut text = String::new();
    for number in 0..arguments.volumes {
        writeln!(
            text,
            "[volume.{}]\nbacking = 'ram:8M'\nmemory = '1M'\nholder = false",
            name(number)
        )?;
    }
    let config = home.join("many.toml");
    std::fs::write(&config, text)?;
    let mut serve = command();
    serve.args(["serve", "--config"]).arg(&config);
    let (daemon, _) = Process::start(serve)?;
    let alone = share(&daemon, arguments.watch_s)?;
    let mut dashboard = command();
    dashboard.args(["dashboard", "--listen", "127.0.0.1:0"]).stderr(Stdio::null());
    let (_dashboard, url) = Process::start(dashboard)?;
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let Some((_, port)) = host.rsplit_once(':') else { bail!("{url}: no address") };
    let token = home.join(format!("overdrive/dashboard/{port}.token"));
    let token = std::fs::read_to_string(token)?;
    let visitor = Visitor::log_in(host, token.trim())?;
    let last = name(arguments.volumes - 1);
    let end_ns = wall_ns() + 30_000_000_000;
    while !visitor.send("GET /", "")?.contains(&last) {
        ensure!(wall_ns() < end_ns, "the dashboard does not show {last}");
        pause_ms(50);
    }
    let loads = arguments.loads;
    let first = ["/", "/style.css", "/live.js", "/icon.svg"];
    let (bytes, ms) = measure(&visitor, loads, "first page with its files", &first)?;
    let reached = bytes <= BYTES_MAX && ms <= TIME_MAX_MS;
    println!("  target at most {BYTES_MAX} bytes, {TIME_MAX_MS:.0} ms: {}", verdict(reached));
    let volume = format!("/volume/{last}");
    measure(&visitor, loads, "page of a volume, with its history", &[&volume])?;
    measure(&visitor, 3, "CSV of the last two weeks", &[&format!("{volume}/fortnight.csv")])?;
    // A page that stays open, so that the statistics are read each second.
    let mut stream = TcpStream::connect(&visitor.host)?;
    stream.write_all(format!("{}\r\n", visitor.head("GET /events/overview", 0)).as_bytes())?;
    pause_ms(2000);
    let observed = share(&daemon, arguments.watch_s)?;
    drop(stream);
    let cost = observed - alone;
    println!(
        "daemon's processor time: {alone:.2} % alone, {observed:.2} % with statistics each second: \
         {cost:.2} % of a processor for {} volumes",
        arguments.volumes
    );
    println!("  target at most {SHARE_MAX} %: {}", verdict(cost <= SHARE_MAX));
    Ok(())
}
