//! `cargo xtask boot`: a Debian boots from a volume whose backing is far away, and a table shows
//! the time that its boots wait for I/O.
//!
//! ```text
//!   guest, virtio-blk -- QEMU, cache=none -- NBD -- overdrive serve --delay read=D -- image
//! ```
//!
//! The wait of a boot is the time in which at least one request of the guest was in flight, as the
//! daemon measured it (`busy_ns` in its statistics), until all of multi-user.target was started.

use super::super::debian::Kernel;
use super::image;
use super::machine::{self, Machine, Output};
use super::{EXIT_MISSING, SILENCE_MAX, prepare};
use crate::cargo;
use anyhow::{Context, bail, ensure};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

/// The line by which the guest reports that it has started.
const DONE: &str = "boot: done";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Latencies of the backing.
    #[arg(long, value_delimiter = ',', default_value = "1ms,5ms")]
    delays: Vec<String>,
    /// Boots of each kind and latency. The kinds take turns, so that a slow minute of this machine
    /// concerns all of them.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Memory of the cache.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// How QEMU executes the guest: `kvm` is quicker, but not every host has all of it.
    #[arg(long, default_value = "tcg,thread=multi")]
    accelerator: String,
    /// The program of the daemons, instead of the one that is built from this tree.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// The daemon's change before a boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    /// A daemon without a cache starts.
    Bare,
    /// A daemon without a list of hot blocks starts.
    Cold,
    /// The daemon is killed and started again.
    Kill,
    /// The daemon is replaced by `overdrive upgrade`.
    Upgrade,
    /// The daemon is stopped and started again.
    Restart,
}

/// Boots that are not shown: they write the files that each system writes once.
const FIRST_BOOTS: usize = 2;

/// The boots of a round, in their order.
const ROUND: [(&str, Before); 6] = [
    ("bare", Before::Bare),
    ("cold", Before::Cold),
    ("killed", Before::Kill),
    ("upgraded", Before::Upgrade),
    ("list", Before::Restart),
    ("second list", Before::Restart),
];

/// A measured boot.
struct Boot {
    name: &'static str,
    /// Time from the start of the machine until the system had started.
    whole_s: f64,
    /// Time of it in which a request was in flight.
    wait_s: f64,
    /// Reads and flushes that the backing has received.
    reads: u64,
    flushes: u64,
}

/// A daemon's statistics at one moment.
struct Moment {
    now_s: f64,
    busy_s: f64,
    reads: u64,
    flushes: u64,
}

/// The command `boot`.
///
/// # Errors
/// The guest does not start, or a daemon fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(cfg!(target_arch = "x86_64"), "the guest runs programs for x86-64, and these are not");
    let cache = cargo::target().join("guest");
    let Some(kernel) = prepare(&cache)? else { return Ok(ExitCode::from(EXIT_MISSING)) };
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            super::super::build(&["overdrive".to_owned()])?;
            cargo::target().join("release/overdrive")
        }
    };
    let place = cache.join("boot");
    fs::create_dir_all(&place)?;
    image::make_root(&cache, &place, &kernel)?;
    println!(
        "{:<9} {:<12} {:>8} {:>8} {:>7} {:>7}",
        "backing", "boot", "total s", "wait s", "reads", "flushes"
    );
    for delay in &options.delays {
        Bench { place: &place, kernel: &kernel, program: &program, options, delay }.run()?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Boot {
    fn print(&self, delay: &str) {
        let Boot { name, whole_s, wait_s, reads, flushes } = self;
        println!("{delay:<9} {name:<12} {whole_s:>8.2} {wait_s:>8.2} {reads:>7} {flushes:>7}");
    }
}

/// The waits of all boots of one kind, in seconds.
struct Waits(Vec<f64>);

impl Waits {
    fn of(boots: &[Boot], name: &str) -> Waits {
        let mut waits: Vec<f64> =
            boots.iter().filter(|boot| boot.name == name).map(|boot| boot.wait_s).collect();
        waits.sort_unstable_by(f64::total_cmp);
        Waits(waits)
    }

    fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        (self.0[middle] + self.0[(self.0.len() - 1) / 2]) / 2.0
    }
}

/// Prints the median wait of each kind, its extremes, and its ratio to that without a cache.
fn print_medians(delay: &str, boots: &[Boot]) {
    let bare_s = Waits::of(boots, "bare").median();
    println!(
        "{delay:<9} {:<12} {:>8} {:>8} {:>8} {:>8}",
        "median", "wait s", "least", "most", "of bare"
    );
    for (name, _) in ROUND {
        let waits = Waits::of(boots, name);
        let (least, most, median) = (waits.0[0], waits.0[waits.0.len() - 1], waits.median());
        let ratio = median / bare_s;
        println!("{delay:<9} {name:<12} {median:>8.2} {least:>8.2} {most:>8.2} {ratio:>8.3}");
    }
}

/// The boots from a backing with one latency.
struct Bench<'a> {
    place: &'a Path,
    kernel: &'a Kernel,
    program: &'a Path,
    options: &'a Options,
    delay: &'a str,
}

impl Bench<'_> {
    fn run(&self) -> anyhow::Result<()> {
        let _ = fs::remove_dir_all(self.place.join("state"));
        fs::create_dir_all(self.place.join("runtime"))?;
        let mut daemon: Option<Daemon> = None;
        for _ in 0..FIRST_BOOTS {
            daemon = Some(self.prepare(daemon.take(), Before::Bare)?);
            self.boot("first").context("the first boots")?;
        }
        let mut boots = Vec::new();
        for (name, before) in (0..self.options.rounds).flat_map(|_| ROUND) {
            daemon = Some(self.prepare(daemon.take(), before)?);
            let boot = self.boot(name).with_context(|| format!("boot '{name}'"))?;
            boot.print(self.delay);
            boots.push(boot);
        }
        print_medians(self.delay, &boots);
        daemon.context("there were boots")?.stop()
    }

    /// Returns the daemon of the next boot.
    fn prepare(&self, former: Option<Daemon>, before: Before) -> anyhow::Result<Daemon> {
        match (former, before) {
            (Some(daemon), Before::Upgrade) => {
                self.overdrive(&["upgrade"])?;
                return Ok(daemon);
            }
            (Some(daemon), Before::Kill) => daemon.kill()?,
            (Some(daemon), _) => daemon.stop()?,
            (None, _) => (),
        }
        if before == Before::Cold {
            let _ = fs::remove_dir_all(self.place.join("state"));
        }
        let memory = if before == Before::Bare { "0" } else { &self.options.memory };
        self.start(memory)
    }

    fn socket(&self) -> PathBuf {
        self.place.join("runtime/root.sock")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.env("XDG_RUNTIME_DIR", self.place.join("runtime"));
        command.env("XDG_STATE_HOME", self.place.join("state"));
        command
    }

    fn start(&self, memory: &str) -> anyhow::Result<Daemon> {
        let delay = self.delay;
        let mut command = self.command();
        command.arg("serve").arg(image::disk(self.place, "root"));
        command.args(["--name", "root", "--memory", memory]);
        let delays = format!("read={delay},write={delay},flush={delay},servers=64");
        command.args(["--delay", &delays]);
        command.arg("--nbd").arg(format!("unix:{}", self.socket().display()));
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start overdrive")?;
        let mut output = BufReader::new(child.stdout.take().context("a pipe")?);
        output.read_line(&mut String::new())?;
        ensure!(UnixStream::connect(self.socket()).is_ok(), "overdrive does not serve the root");
        Ok(Daemon { child, _output: output })
    }

    /// Runs a command of the daemon's user. Returns its output.
    fn overdrive(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command().args(arguments).output().context("cannot start overdrive")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "overdrive {arguments:?}: {}", errors.trim());
        Ok(String::from_utf8(output.stdout)?)
    }

    fn moment(&self) -> anyhow::Result<Moment> {
        let text = self.overdrive(&["volume", "stats", "root", "--json"])?;
        let stats: serde_json::Value = serde_json::from_str(&text)?;
        let number = |value: &serde_json::Value| {
            value.as_u64().context("this program does not report all statistics of a boot")
        };
        let backing = &stats["backing"];
        Ok(Moment {
            now_s: number(&stats["now_ns"])? as f64 / 1e9,
            busy_s: number(&stats["busy_ns"])? as f64 / 1e9,
            reads: number(&backing["reads"])?,
            flushes: number(&backing["flushes"])?,
        })
    }

    fn arguments(&self) -> Vec<OsString> {
        machine::booted(self.place, self.kernel, &self.options.accelerator, &self.socket())
    }

    /// Boots the guest, and waits until it is off.
    fn boot(&self, name: &'static str) -> anyhow::Result<Boot> {
        let before = self.moment()?;
        let machine = Machine::start(self.arguments())?;
        let mut after = None;
        loop {
            match machine.next_output(SILENCE_MAX) {
                Output::Line(line) if line == DONE => after = Some(self.moment()?),
                Output::Line(_) => (),
                Output::Off => break,
                Output::Late => bail!("no output for {} s", SILENCE_MAX.as_secs()),
            }
        }
        let after = after.with_context(|| {
            let console = machine::console(self.place, "boot");
            format!("the guest was off before it had started; see {}", console.display())
        })?;
        Ok(Boot {
            name,
            whole_s: after.now_s - before.now_s,
            wait_s: after.busy_s - before.busy_s,
            reads: after.reads - before.reads,
            flushes: after.flushes - before.flushes,
        })
    }
}

/// A daemon that serves the guest's disk.
struct Daemon {
    child: Child,
    /// Destination of its later output; a closed pipe would cause an error in the daemon.
    _output: BufReader<ChildStdout>,
}

impl Daemon {
    fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends the daemon as its user does: it writes everything back, and saves the list.
    fn stop(mut self) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the daemon has ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
