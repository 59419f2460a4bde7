//! `serve --threads`: several threads compared with one, over hits, with a pipelining client for
//! each thread.

use crate::client::{Client, Waiting, Window};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, fill};
use crate::sides::{Pairs, Side, in_turns, verdict};
use anyhow::{Context, Result};
use lane::Random;
use std::thread;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The volume's size, in MiB; all of it is cached.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Threads of the first server, and clients of both.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Reads that each client has under way.
    #[arg(long, default_value_t = 32)]
    window: usize,
    /// Pairs of runs.
    #[arg(long, default_value_t = 12)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 1000)]
    run_ms: u64,
}

/// Maximum processor time of a request, relative to one thread.
const COST_MAX: f64 = 1.1;
/// Minimum rate relative to one thread, if clients and threads have a processor each.
const RATE_MIN: f64 = 1.7;

/// A server with its clients.
struct Contestant {
    program: Program,
    clients: Vec<Client>,
}

/// A run: nanoseconds between answers of any client, and the server's nanoseconds per request.
struct Found {
    period_ns: f64,
    used_ns: f64,
}

impl Contestant {
    fn start(
        overdrive: &Overdrive,
        threads: usize,
        arguments: &Arguments,
        file: &str,
    ) -> Result<Contestant> {
        let memory = format!("{}M", arguments.mib * 2);
        let count = threads.to_string();
        let options = [
            "--read-only",
            "--no-holder",
            "--guard",
            "off",
            "--memory",
            &memory,
            "--threads",
            &count,
        ];
        let all: Vec<String> = Processors::all()?.iter().map(usize::to_string).collect();
        let program =
            overdrive.serve(&all.join(","), &format!("threads-{threads}"), file, &options)?;
        program.connect()?.read_all()?;
        let clients = (0..arguments.threads).map(|_| program.connect()).collect::<Result<_>>()?;
        Ok(Contestant { program, clients })
    }

    /// Runs all clients in parallel, each with its window full.
    fn run(&mut self, arguments: &Arguments) -> Result<Found> {
        let before = self.program.used_ns()?;
        let window = || Window {
            reads: arguments.window,
            waiting: Waiting::Blocked,
            run_ms: arguments.run_ms,
        };
        let requests = thread::scope(|scope| -> Result<u64> {
            let started: Vec<_> = (1..)
                .zip(&mut self.clients)
                .map(|(seed, client)| {
                    scope.spawn(move || -> Result<u64> {
                        let (blocks, mut random) = (client.blocks(), Random::new(seed));
                        Ok(client.reads(window(), || random.below(blocks), |_| ())?.requests)
                    })
                })
                .collect();
            let ended = started
                .into_iter()
                .map(|client| client.join().ok().context("a client has ended")?);
            ended.sum()
        })?;
        let used = self.program.used_ns()? - before;
        let requests = requests.max(1) as f64;
        Ok(Found {
            period_ns: arguments.run_ms as f64 * 1e6 / requests,
            used_ns: used as f64 / requests,
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let file = arguments.program_options.file("threads");
    fill(file.path(), arguments.mib << 20)?;
    let backing = file.path().display().to_string();
    let start = |threads| Contestant::start(&overdrive, threads, arguments, &backing);
    let (mut several, mut one) = (start(arguments.threads)?, start(1)?);
    let processors = Processors::all()?.len();
    println!(
        "4 KiB reads of {} MiB, all hits, by {} clients with {} under way each, on {processors} processors: {} \
         threads against one",
        arguments.mib, arguments.threads, arguments.window, arguments.threads
    );
    let found = in_turns(arguments.pairs, |side| match side {
        Side::A => several.run(arguments),
        Side::B => one.run(arguments),
    })?;
    let used = Pairs::of(&found, |found| found.used_ns);
    let (_, middle, _) = used.speed();
    println!(
        "{:.0} against {:.0} ns of the server's processor time a request  ratio {}  target at most {COST_MAX}: {}",
        used.a(),
        used.b(),
        used.cost_words(),
        verdict(1.0 / middle <= COST_MAX)
    );
    let rates = Pairs::of(&found, |found| found.period_ns);
    let (_, middle, _) = rates.speed();
    let verdict = match processors >= 2 * arguments.threads {
        true => format!("target at least {RATE_MIN}: {}", verdict(middle >= RATE_MIN)),
        false => format!(
            "no target: {} clients and as many threads would need {} processors",
            arguments.threads,
            2 * arguments.threads
        ),
    };
    println!(
        "{:.0} against {:.0} a second  ratio {}  {verdict}",
        1e9 / rates.a(),
        1e9 / rates.b(),
        rates.speed_words()
    );
    Ok(())
}
