//! Never slower while processors are busy: a cache that cannot help, compared with the same server
//! without one, with a busy program on every processor.
//!
//! Two servers run at the same time; fio's nbd engine loads them in turns, with reads that all
//! miss, with writes, and with both. Then the busy programs end, while the load continues, and the
//! server reports how long its guard has bypassed the cache since. Over a slow backing a cold cache
//! may still help: `cold.rs`. Compression may cost more than it saves: `compressed.rs`.

mod cold;
mod compressed;

use crate::fio::{Load, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, TemporaryPath, fill, pause_ms};
use crate::sides::{Pairs, Side, in_turns, verdict, wall_ns};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Comparisons: fast (backings where the cache cannot help), cold (a cold cache over a slow
    /// one), compressed (`--compress auto` and off).
    #[arg(long, value_delimiter = ',', default_value = "fast,cold")]
    rows: Vec<String>,
    /// The file's size, in GiB: many times the cache's.
    #[arg(long, default_value_t = 1)]
    gib: u64,
    /// Memory of the cache, in MiB (rows fast and compressed).
    #[arg(long, default_value_t = 64)]
    memory_mib: u64,
    /// Queue depths.
    #[arg(long, value_delimiter = ',', default_value = "1,4,32")]
    pub(crate) depths: Vec<u32>,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 8)]
    pub(crate) pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    pub(crate) run_ms: u32,
    /// Backings: null, ram, file (through the page cache).
    #[arg(long, value_delimiter = ',', default_value = "null,file")]
    backings: Vec<String>,
    /// Loads: randread, randwrite, randrw (over fast backings only).
    #[arg(long, value_delimiter = ',', default_value = "randread,randwrite,randrw")]
    pub(crate) loads: Vec<String>,
    /// Time of a request to the slow backing, in microseconds.
    #[arg(long, value_delimiter = ',', default_value = "100,500")]
    pub(crate) delays_us: Vec<u32>,
    /// Busy programs on each processor (with a slow backing: always two).
    #[arg(long, default_value_t = 1)]
    busy: usize,
    /// Compare the server without a cache layer with itself, which shows the resolution of this
    /// machine.
    #[arg(long)]
    control: bool,
}

/// The required lower bound of the speed.
const SPEED_MIN: f64 = 0.97;
/// Maximum time of bypass once processors are free, in milliseconds.
const BACK_MS_MAX: u64 = 1000;
/// Duration of that measurement, in milliseconds.
const WATCH_MS: u32 = 4000;

/// Programs that keep processors busy, until this is dropped.
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts this number of programs on each of these processors.
    ///
    /// # Errors
    /// If taskset or sh is not installed.
    pub(crate) fn start(processors: &[usize], each: usize) -> Result<Hogs> {
        let mut hogs = Hogs(Vec::new());
        for processor in processors.iter().flat_map(|one| std::iter::repeat_n(one, each)) {
            let mut command = Command::new("taskset");
            command.args(["-c", &processor.to_string(), "sh", "-c", "while :; do :; done"]);
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            hogs.0.push(child.context("taskset and sh")?);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A program that has already ended needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Two servers on the same processors, and the client's processor.
struct Contest<'a> {
    overdrive: &'a Overdrive,
    client: String,
    with: Program,
    without: Program,
    arguments: &'a Arguments,
}

impl Contest<'_> {
    /// Returns the nanoseconds between two answers, and the nanoseconds of the server's processor
    /// for each.
    fn compare(&self, load: &Load) -> Result<(Pairs, Pairs)> {
        for server in [&self.with, &self.without] {
            fio_load(server, &self.client, load, 1000)?;
        }
        let found = in_turns(self.arguments.pairs, |side| {
            let server = if side == Side::A { &self.with } else { &self.without };
            fio_load(server, &self.client, load, self.arguments.run_ms)
        })?;
        Ok((Pairs::of(&found, |run| run.period_ns), Pairs::of(&found, |run| run.used_ns)))
    }

    fn guard(&self) -> Result<Value> {
        self.overdrive.guard(&self.with)
    }

    /// Ends the busy programs under a load. Returns how long the guard bypasses the cache after
    /// that, in milliseconds. None: until the end.
    fn bypass_after_busy_ms(&self, load: &Load, hogs: Hogs) -> Result<Option<u64>> {
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| fio_load(&self.with, &self.client, load, WATCH_MS));
            pause_ms(u64::from(WATCH_MS) / 2);
            drop(hogs);
            let ended_ns = wall_ns();
            let before = self.guard()?;
            let mut back_ns = None;
            while wall_ns() < ended_ns + u64::from(WATCH_MS) * 400_000 {
                let now = self.guard()?;
                let is_back = now["reads_aside"].is_null() && now["writes_aside"].is_null();
                if is_back && back_ns.is_none() {
                    back_ns = Some(wall_ns() - ended_ns);
                }
                pause_ms(50);
            }
            loading.join().expect("fio's thread")?;
            let after = self.guard()?;
            let aside = |value: &Value| value["bypass_ns"].as_u64().unwrap_or(0);
            println!(
                "    since then aside for {} ms in all; away before: reads {}, writes {}",
                (aside(&after) - aside(&before)) / 1_000_000,
                before["reads_aside"],
                before["writes_aside"],
            );
            Ok(back_ns.map(|ns| ns / 1_000_000))
        })
    }
}

fn print(what: &str, (periods, used): &(Pairs, Pairs), target: f64) {
    let (_, middle, _) = periods.speed();
    println!(
        "  {what:<22} {:>8.0} against {:>8.0} a second  ratio {}  target {target}: {}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        periods.speed_words(),
        verdict(middle >= target),
    );
    // On a shared machine, this is more significant than the rates.
    println!(
        "  {:<22} {:>8.0} against {:>8.0} ns of the server's processor a request",
        "",
        used.a(),
        used.b(),
    );
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let overdrive = Overdrive::find(&arguments.program_options)?;
    for rows in &arguments.rows {
        match rows.as_str() {
            "fast" => fast(&overdrive, arguments)?,
            "cold" => cold::run(&overdrive, arguments)?,
            "compressed" => compressed::run(&overdrive, arguments)?,
            _ => bail!("--rows {rows}: fast, cold or compressed"),
        }
    }
    Ok(())
}

fn fast(overdrive: &Overdrive, arguments: &Arguments) -> Result<()> {
    let (processors, split) = (Processors::all()?, Processors::split()?);
    let files =
        ["with", "without"].map(|name| arguments.program_options.file(&format!("guard-{name}")));
    let memory = match arguments.control {
        true => "0".to_owned(),
        false => format!("{}M", arguments.memory_mib),
    };
    for kind in &arguments.backings {
        let backing = |file: &TemporaryPath| -> Result<String> {
            Ok(match kind.as_str() {
                "null" => "null:1T".to_owned(),
                "ram" => format!("ram:{}G", arguments.gib),
                "file" => {
                    fill(file.path(), arguments.gib << 30)?;
                    file.path().display().to_string()
                }
                _ => bail!("--backings {kind}: null, ram or file"),
            })
        };
        let serve = |name: &str, file: &TemporaryPath, memory: &str| {
            let more = ["--no-holder", "--write", "back-now", "--memory", memory, "--buffered"];
            // Only a file has a page cache.
            let more = if kind == "file" { &more[..] } else { &more[..5] };
            overdrive.serve(&split.of_servers(), name, &backing(file)?, more)
        };
        println!(
            "{kind}: --memory {memory} against --memory 0, {} busy programs on {} processors",
            arguments.busy * processors.len(),
            processors.len()
        );
        let with = serve("with", &files[0], &memory)?;
        let without = serve("without", &files[1], "0")?;
        let client = split.of_client();
        let contest = Contest { overdrive, client, with, without, arguments };
        for kind in &arguments.loads {
            for &depth in &arguments.depths {
                let load = Load::new(kind, depth);
                let hogs = Hogs::start(&processors, arguments.busy)?;
                print(&format!("{kind}, depth {depth}"), &contest.compare(&load)?, SPEED_MIN);
                if arguments.control {
                    continue;
                }
                println!("    guard: {}", contest.guard()?);
                let back = contest.bypass_after_busy_ms(&load, hogs)?;
                let words = back.map_or("not back".to_owned(), |ms| format!("back after {ms} ms"));
                println!(
                    "    busy programs ended: {words}  target {BACK_MS_MAX} ms: {}",
                    verdict(back.is_some_and(|ms| ms <= BACK_MS_MAX))
                );
            }
        }
    }
    Ok(())
}
