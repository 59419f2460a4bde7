//! The crash laboratory as a command: `cargo xtask crash` runs it.

#![forbid(unsafe_code)]

use clap::Parser;
use crash::{Bug, Failure, Hunt, HuntOptions, Outcome, Scale, Subject, Tally};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// Every state is recovered by a new engine, which would spend a seventh of the time in malloc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status if a promise was broken, or a planted bug was not found.
const EXIT_INTEGRITY: u8 = 7;
/// Exit status for wrong usage.
const EXIT_USAGE: u8 = 2;

/// Crashes the engine on a simulated disk in every way, and judges the remaining state.
#[derive(Parser)]
#[command(name = "crash-laboratory")]
struct Arguments {
    /// Run for this many seconds on each thread.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Run this number of histories, without a time limit: the same work on every machine.
    #[arg(long, value_name = "N", conflicts_with_all = ["seconds", "seed", "bugs"])]
    histories: Option<u64>,
    /// With `--seconds`, `--bug` over time or `--bugs`: the seed from which all others follow.
    #[arg(long, value_parser = number, default_value = "0x0dd5", value_name = "N")]
    base: u64,
    /// Run only the history of this seed, and print every event.
    #[arg(long, value_parser = number, value_name = "N")]
    seed: Option<u64>,
    /// With `--seed`: it is a history of the exhaustive kind.
    #[arg(long)]
    exhaustive: bool,
    /// Test this planted bug instead of the honest engine.
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
    /// Test every planted bug until it is found, in at most 40,000 histories each.
    #[arg(long)]
    bugs: bool,
    /// With `--bugs`: begin each hunt with a history that has shown the bug before.
    #[arg(long, requires = "bugs", conflicts_with_all = ["base", "rounds"])]
    known: bool,
    /// With `--bugs`: test each from this many seeds.
    #[arg(long, default_value_t = 1, value_name = "N")]
    rounds: u64,
    /// Test the honest engine over a disk that is the export of a server, behind a link.
    #[arg(long, conflicts_with_all = ["bug", "bugs"])]
    link: bool,
    /// Threads; 0: one per core.
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number; write it like 7 or 0x7f"))
}

impl Arguments {
    fn threads(&self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        if self.threads == 0 { cores } else { self.threads }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.bugs {
        return try_bugs(&arguments);
    }
    let subject = match &arguments.bug {
        None if arguments.link => crash::honest_over_link(),
        None => crash::honest(),
        Some(name) => match crash::by_name(name) {
            Some(subject) => subject,
            None => return unknown_bug(name),
        },
    };
    match arguments.seed {
        Some(seed) => show(&arguments, subject.as_ref(), seed),
        None => run(&arguments, subject.as_ref()),
    }
}

fn unknown_bug(name: &str) -> ExitCode {
    let names: Vec<String> = crash::bugs().into_iter().map(|bug| bug.name).collect();
    eprintln!("crash-laboratory: no bug is called '{name}'; there are {}", names.join(", "));
    ExitCode::from(EXIT_USAGE)
}

/// Repeats one history, with its events on standard output.
fn show(arguments: &Arguments, subject: &dyn Subject, seed: u64) -> ExitCode {
    let scale = if arguments.exhaustive { Scale::Exhaustive } else { Scale::Swarm };
    let outcome = crash::history(subject, seed, scale, !arguments.json);
    let Outcome { tally, trace, failure, .. } = &outcome;
    if arguments.json {
        let object = serde_json::json!({
            "schema": "overdrive.crash/1",
            "seed": seed,
            "exhaustive": arguments.exhaustive,
            "trace": format!("{trace:#018x}"),
            "states": tally.states(),
            "tally": tally,
            "violations": failure.iter().count(),
            "failures": failure.iter().collect::<Vec<_>>(),
        });
        println!("{object:#}");
    } else {
        println!("trace {trace:#018x}, {} distinct states", tally.states());
        report_failures(arguments, failure.as_slice());
    }
    status(failure.is_none())
}

fn status(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INTEGRITY) }
}

fn report_failures(arguments: &Arguments, failures: &[Failure]) {
    for failure in failures {
        println!("VIOLATION {}", failure.finding);
        let link = if arguments.link { " --link" } else { "" };
        println!("  again with: {}{link}", failure.reproduction(arguments.bug.as_deref()));
    }
}

/// Runs swarms and exhaustive histories until the time is up.
fn run(arguments: &Arguments, subject: &dyn Subject) -> ExitCode {
    let options = HuntOptions {
        time: arguments.histories.is_none().then(|| Duration::from_secs(arguments.seconds)),
        first: 0,
        histories_max: arguments.histories.unwrap_or(u64::MAX),
        threads: arguments.threads(),
        base: arguments.base,
    };
    let shows = std::io::stderr().is_terminal() && arguments.seconds > 2;
    let hunt = crash::hunt(subject, options, |hunt| {
        if shows {
            let states = hunt.swarm.states() + hunt.exhaustive.states();
            eprint!("\r{states} states, {} violations   ", usize::from(hunt.failure.is_some()));
        }
    });
    if shows {
        eprint!("\r{:60}\r", "");
    }
    if arguments.json {
        println!("{:#}", as_json(&hunt, options));
    } else {
        print_hunt(&hunt, options);
        report_failures(arguments, hunt.failure.as_slice());
    }
    status(hunt.failure.is_none())
}

fn print_hunt(hunt: &Hunt, options: HuntOptions) {
    let line = |name: &str, tally: &Tally, rate: f64| {
        println!(
            "{name:11} {:8} histories {:12} distinct states {:9.0} a second a core",
            tally.histories,
            tally.states(),
            rate
        );
        println!(
            "            {:8} crash points: {} power cut, {} kill, {} kill in a section, {} nested, \
             {} damaged memory; {} images of power cuts repeat, {} with all that was \
             promised; {} compressed blocks were found, and {} read",
            tally.crash_points,
            tally.power_states,
            tally.kill_states,
            tally.midway_states,
            tally.nested_states,
            tally.damaged_states,
            tally.repeated_images,
            tally.repeated_states,
            tally.objects_found,
            tally.objects_read
        );
    };
    line("swarm", &hunt.swarm, hunt.swarm_rate());
    line("exhaustive", &hunt.exhaustive, hunt.exhaustive_rate());
    println!(
        "{} violations in {:.1} s on {} threads, traces {:#018x}",
        usize::from(hunt.failure.is_some()),
        hunt.seconds,
        options.threads,
        hunt.traces
    );
}

fn as_json(hunt: &Hunt, options: HuntOptions) -> serde_json::Value {
    serde_json::json!({
        "schema": "overdrive.crash/1",
        "seed": options.base,
        "threads": options.threads,
        "seconds": hunt.seconds,
        "histories": hunt.swarm.histories + hunt.exhaustive.histories,
        "states": hunt.swarm.states() + hunt.exhaustive.states(),
        "states_per_second_per_core": hunt.swarm_rate(),
        "swarm": hunt.swarm,
        "swarm_seconds": hunt.swarm_seconds,
        "exhaustive": hunt.exhaustive,
        "exhaustive_seconds": hunt.exhaustive_seconds,
        "exhaustive_states_per_second_per_core": hunt.exhaustive_rate(),
        "traces": format!("{:#018x}", hunt.traces),
        "violations": usize::from(hunt.failure.is_some()),
        "failures": hunt.failure.as_slice(),
    })
}

/// Number of histories after which a planted bug counts as not found. The history that finds it is
/// the same on every machine; the rarest bugs need some thousands.
const BUG_HISTORIES_MAX: u64 = 40_000;

/// Tests every planted bug until it is found.
fn try_bugs(arguments: &Arguments) -> ExitCode {
    let mut rows = Vec::new();
    let mut missed = 0;
    for bug in crash::bugs() {
        for round in 0..arguments.rounds {
            let base = crash::seed_of(arguments.base, round);
            let options = HuntOptions {
                time: None,
                first: if arguments.known { bug.known_history() } else { 0 },
                histories_max: BUG_HISTORIES_MAX,
                threads: arguments.threads(),
                base,
            };
            let hunt = crash::hunt(bug.subject.as_ref(), options, |_| ());
            missed += usize::from(hunt.failure.is_none());
            report_bug(arguments, &bug, &hunt);
            rows.push(bug_as_json(&bug, base, &hunt));
        }
    }
    if arguments.json {
        let object = serde_json::json!({
            "schema": "overdrive.crash/1",
            "seed": arguments.base,
            "bugs": rows,
            "missed": missed,
        });
        println!("{object:#}");
    } else {
        println!("{} hunts, {missed} bugs not found", rows.len());
    }
    status(missed == 0)
}

fn report_bug(arguments: &Arguments, bug: &Bug, hunt: &Hunt) {
    if arguments.json {
        return;
    }
    let Hunt { seconds, .. } = hunt;
    match hunt.failure.as_ref().zip(hunt.found_by) {
        Some((failure, number)) => {
            let histories = number + 1;
            println!("{:24} {seconds:6.2} s {histories:6}  {}", bug.name, failure.finding);
            println!("{:41}{}", "", failure.reproduction(Some(&bug.name)));
        }
        None => println!("{:24} {seconds:6.2} s {BUG_HISTORIES_MAX:6}  NOT FOUND", bug.name),
    }
}

fn bug_as_json(bug: &Bug, base: u64, hunt: &Hunt) -> serde_json::Value {
    let failure = hunt.failure.as_ref();
    serde_json::json!({
        "bug": bug.name,
        "base": base,
        "found": failure.is_some(),
        "seconds": hunt.seconds,
        "histories": hunt.found_by.map_or(BUG_HISTORIES_MAX, |number| number + 1),
        "seed": failure.map(|failure| failure.seed),
        "clause": failure.map(|failure| &failure.finding.clause),
        "reproduction": failure.map(|failure| failure.reproduction(Some(&bug.name))),
    })
}
