//! Misses through the whole server: with a cache layer that cannot help, against the same server
//! without one.
//!
//! Two servers of the same program stand side by side; fio's nbd engine reads 4 KiB blocks at
//! random, from one and from the other in turns. Over `null:` the backing costs nothing, so whatever
//! the cache adds is seen in full; the file lies on the machine's disk and is read around its page
//! cache.

use crate::sides::{Pairs, median};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The overdrive program; by default the one beside this.
    #[arg(long)]
    overdrive: Option<PathBuf>,
    /// Where to make the file that is read; on a disk, not in memory.
    #[arg(long, default_value = "target")]
    place: PathBuf,
    /// The file's size, in GiB: many times the cache's.
    #[arg(long, default_value_t = 4)]
    gib: u64,
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 64)]
    memory_mib: u64,
    /// Queue depths.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    depths: Vec<u32>,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 12)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u32,
    /// Backings: null, file.
    #[arg(long, value_delimiter = ',', default_value = "null,file")]
    backings: Vec<String>,
    /// Compare the server without a cache layer with itself: what this machine cannot tell apart.
    #[arg(long)]
    control: bool,
}

/// The lower bound that the issue asks for.
const SPEED_MIN: f64 = 0.95;
/// The most extra time of the processor that a miss may cost, in nanoseconds.
const EXTRA_NS_MAX: f64 = 400.0;

/// The processor for the server and for fio, both. Left to the scheduler, the two now share one and
/// now do not, and a wake-up across processors costs ten times what is measured here. On one of
/// their own, the rate says what both spend on a request.
const PROCESSOR: &str = "0";

/// A program that runs on that processor.
fn pinned(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", PROCESSOR]).arg(program);
    command
}

struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn start(program: &Path, backing: &str, memory: &str, socket: &Path) -> Result<Server> {
        let mut child = pinned(program)
            .args(["serve", backing, "--read-only", "--quiet", "--memory", memory])
            .arg("--nbd")
            .arg(format!("unix:{}", socket.display()))
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut uri = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut uri)?;
        }
        let server = Server { child, uri: uri.trim().to_owned() };
        ensure!(!server.uri.is_empty(), "the server did not start");
        Ok(server)
    }

    /// Time of processors that all its threads have used, in nanoseconds.
    fn used_ns(&self) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut sum = 0;
        for task in std::fs::read_dir(tasks)? {
            // "running waiting slices"; a thread that has just ended has none.
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let running = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
            sum += running.unwrap_or(0);
        }
        Ok(sum)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is dirty: it is read-only.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one run of fio found.
struct Run {
    /// Nanoseconds between two answers.
    period_ns: f64,
    /// The server's time of processors for each request, in nanoseconds.
    used_ns: f64,
}

fn fio(server: &Server, depth: u32, run_ms: u32) -> Result<Run> {
    let before = server.used_ns()?;
    let output = pinned(Path::new("fio"))
        .args(["--name=misses", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--time_based"])
        .args(["--norandommap", "--randrepeat=0", "--output-format=json", "--thread=1"])
        .arg(format!("--uri={}", server.uri))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={run_ms}ms"))
        .output()
        .context("cannot start taskset (util-linux)")?;
    let used = server.used_ns()? - before;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio (apt-get install fio): {said}");
    // It may say something before its report.
    let start = output.stdout.iter().position(|&byte| byte == b'{').unwrap_or(0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout[start..])
        .with_context(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
    let read = &report["jobs"][0]["read"];
    let requests = read["total_ios"].as_f64().unwrap_or(0.0);
    let rate = read["iops"].as_f64().unwrap_or(0.0);
    ensure!(requests > 0.0 && rate > 0.0, "fio read nothing");
    Ok(Run { period_ns: 1e9 / rate, used_ns: used as f64 / requests })
}

/// Both servers in turns: A B B A ...
fn compare(a: &Server, b: &Server, depth: u32, arguments: &Arguments) -> Result<(Pairs, Pairs)> {
    let (mut periods, mut used) = (Vec::new(), Vec::new());
    for server in [a, b] {
        fio(server, depth, 1000)?;
    }
    for pair in 0..arguments.pairs {
        let run = |server| fio(server, depth, arguments.run_ms);
        let (one, two) = if pair % 2 == 0 {
            let one = run(a)?;
            (one, run(b)?)
        } else {
            let two = run(b)?;
            (run(a)?, two)
        };
        periods.push((one.period_ns, two.period_ns));
        used.push((one.used_ns, two.used_ns));
    }
    Ok((Pairs::new(periods), Pairs::new(used)))
}

fn print(what: &str, periods: &Pairs, used: &Pairs) {
    let (low, middle, high) = periods.speed();
    let bound = periods.speed_lower_95();
    let verdict = |good: bool| if good { "reached" } else { "MISSED" };
    println!(
        "{what:<10} {:>9.0} against {:>9.0} a second  ratio {middle:.3} ({low:.3} to {high:.3}), \
         lower 95 % bound {bound:.3}  target {SPEED_MIN}: {}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        verdict(bound >= SPEED_MIN),
    );
    let differences: Vec<f64> = used.differences();
    let extra = median(differences.clone());
    let (low, high) = differences
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    println!(
        "{:<10} {:>9.0} against {:>9.0} ns of processor a request  extra {extra:.0} ns ({low:.0} \
         to {high:.0})  target {EXTRA_NS_MAX:.0}: {}",
        "",
        used.a(),
        used.b(),
        verdict(extra <= EXTRA_NS_MAX),
    );
}

/// A file of blocks that the disk really holds (a sparse one would be read from nowhere).
fn fill(path: &Path, gib: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut chunk = vec![0u8; 1 << 20];
    for (index, byte) in chunk.iter_mut().enumerate() {
        *byte = (index * 31 + index / 4096) as u8;
    }
    for number in 0..gib << 10 {
        chunk[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&chunk).with_context(|| format!("{} needs {gib} GiB", path.display()))?;
    }
    file.sync_all()?;
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let beside = std::env::current_exe()?.with_file_name("overdrive");
    let program = arguments.overdrive.as_ref().unwrap_or(&beside);
    ensure!(
        program.is_file(),
        "{}: not there; build it with: cargo build --release --package overdrive",
        program.display()
    );
    let sockets = std::env::temp_dir().join(format!("overdrive-figures-{}", std::process::id()));
    let file = arguments.place.join(format!("figures-{}.img", std::process::id()));
    let result = both(arguments, program, &sockets, &file);
    // Whatever came of it; both may be missing.
    let _ = std::fs::remove_dir_all(&sockets);
    let _ = std::fs::remove_file(&file);
    result
}

fn both(arguments: &Arguments, program: &Path, sockets: &Path, file: &Path) -> Result<()> {
    let memory = match arguments.control {
        true => "0".to_owned(),
        false => format!("{}M", arguments.memory_mib),
    };
    for kind in &arguments.backings {
        let backing = match kind.as_str() {
            "null" => "null:1T".to_owned(),
            "file" => {
                fill(file, arguments.gib)?;
                file.display().to_string()
            }
            _ => bail!("--backings {kind}: null or file"),
        };
        println!("{backing}: --memory {memory} against --memory 0");
        let with = Server::start(program, &backing, &memory, &sockets.join("with"))?;
        let without = Server::start(program, &backing, "0", &sockets.join("without"))?;
        for &depth in &arguments.depths {
            let (periods, used) = compare(&with, &without, depth, arguments)?;
            print(&format!("depth {depth}"), &periods, &used);
        }
    }
    Ok(())
}
