//! Hits over TLS, compared with nbdkit's disk in memory over TLS: the same cipher, client, and
//! processors, in one run.

use crate::client::{EncryptedClient, Waiting, Window};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, fill};
use crate::rivals;
use crate::sides::{Pairs, Side, in_turns, verdict};
use anyhow::{Result, ensure};
use authority::{Authority, VALID};
use lane::Random;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The volume's size, in MiB; all of it is cached.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Reads under way.
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Pairs of runs.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u64,
}

/// Minimum rate, relative to nbdkit.
const RATE_MIN: f64 = 0.8;

/// The cost of the requests of one run.
struct Cost {
    /// Time between two answers.
    period_ns: f64,
    /// The server's processor time per request.
    processor_ns: f64,
}

/// A server with a client over TLS.
struct Encrypted {
    program: Program,
    client: EncryptedClient,
    random: Random,
}

impl Encrypted {
    fn new(program: Program, certificates: &Path) -> Result<Encrypted> {
        let client = EncryptedClient::connect(program.socket(), certificates)?;
        Ok(Encrypted { program, client, random: Random::new(1) })
    }

    fn reads(&mut self, window: Window) -> Result<Cost> {
        let before = self.program.used_ns()?;
        let (blocks, random) = (self.client.blocks(), &mut self.random);
        let run = self.client.reads(window, || random.below(blocks))?;
        let used = self.program.used_ns()? - before;
        let processor_ns = used as f64 / run.requests.max(1) as f64;
        Ok(Cost { period_ns: run.period_ns(), processor_ns })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let certificates = overdrive.directory().join("certificates");
    issue(&certificates)?;
    let file = arguments.program_options.file("tls");
    fill(file.path(), arguments.mib << 20)?;
    let ours = serve(&overdrive, &processors, file.path(), &certificates, arguments.mib)?;
    let on = processors.of_servers();
    let socket = overdrive.directory().join("nbdkit");
    let theirs = rivals::nbdkit_memory_tls(&on, &socket, arguments.mib << 20, &certificates)?;
    let mut ours = Encrypted::new(ours, &certificates)?;
    let mut theirs = Encrypted::new(theirs, &certificates)?;
    let (cipher, other) = (ours.client.cipher(), theirs.client.cipher());
    ensure!(cipher == other, "the servers use different ciphers: {cipher} and {other}");
    processors.take_clients()?;
    println!(
        "4 KiB reads of {} MiB over TLS, all hits, {} under way, {cipher}; servers on processors \
         {on}, client on {}",
        arguments.mib,
        arguments.depth,
        processors.of_client()
    );
    let before = overdrive.counted()?;
    let window =
        Window { reads: arguments.depth, waiting: Waiting::Blocked, run_ms: arguments.run_ms };
    let found = in_turns(arguments.pairs, |side| match side {
        Side::A => ours.reads(window),
        Side::B => theirs.reads(window),
    })?;
    let misses = overdrive.counted()?.since(&before, "read_misses");
    ensure!(misses == 0, "not all of it was in memory");
    print(&found);
    Ok(())
}

fn print(found: &[(Cost, Cost)]) {
    let periods = Pairs::of(found, |cost| cost.period_ns);
    let used = Pairs::of(found, |cost| cost.processor_ns);
    println!(
        "  {:.0} against {:.0} a second  ratio {}  target at least {RATE_MIN}: {}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        periods.speed_words(),
        verdict(periods.speed().1 >= RATE_MIN)
    );
    println!(
        "  {:.0} against {:.0} ns of processor a request  ratio {}",
        used.a(),
        used.b(),
        used.cost_words()
    );
}

/// Makes certificates that both servers and the client use.
fn issue(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let authority = Authority::new("figures");
    authority.trust(directory);
    authority.issue(directory, authority::Side::Server, &["localhost"], VALID, 1);
    Ok(())
}

/// Serves the file, all of which is then in memory. TLS is offered and not required: the first
/// reads are made without it.
fn serve(
    overdrive: &Overdrive,
    processors: &Processors,
    file: &Path,
    certificates: &Path,
    mib: u64,
) -> Result<Program> {
    let memory = format!("{}M", mib * 2);
    let certificates = certificates.display().to_string();
    let tls = ["--tls", "on", "--tls-certificates", &certificates];
    // Without `--guard off`, a first pass over a fast file would not be cached.
    let hot = ["--read-only", "--no-holder", "--guard", "off", "--memory", &memory];
    let backing = file.display().to_string();
    let options = [&tls[..], &hot].concat();
    let program = overdrive.serve(&processors.of_servers(), "overdrive", &backing, &options)?;
    program.connect()?.read_all()?;
    Ok(program)
}
