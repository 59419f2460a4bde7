//! `overdrive advise`: would a cache help a load?
//!
//! ```text
//!   a trace                 --gather_trace-->  Facts
//!   a device, a process     --Events-->  tracepoints  -->  Facts     by requests
//!                           --/proc/diskstats--> counters  -->  Facts     without permission
//!   a served volume         --control socket-->  Statistics  --advise_volume-->  Advice
//! ```

mod counters;
mod family;
mod json;
mod limit;
mod page;
mod target;
mod text;
mod tracepoints;
mod volume;
mod watched;

use crate::page_file::PageFile;
use advice::load::{Advice, Facts, Latency, Machine, Premises, advise, gather_trace, sizes};
use daemon::units;
use stack::{Exit, Failure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use target::Target;
use trace::Format;
use watched::Watched;

/// Show whether a cache would help a load, and how much memory is worth it.
///
/// TARGET is a recorded trace (a file, which may be compressed), a block device, the directory of a
/// mounted file system, or the name of a served volume. A volume is judged by its own statistics.
/// Devices and processes are watched, by each request as root, otherwise by counters without
/// addresses: the answer is then the most that any cache could save. Caches of 256 MiB to half of
/// this machine's memory are simulated. Memory that active files use is not recommended.
///
/// Exit status: 0 if a cache helps or may help, 1 if the answer is to leave it.
///
/// Examples:
///   overdrive advise vm.vscsi.xz --latency 500us
///   overdrive advise /dev/sdb --for 10m --report advice.html
///   overdrive advise /srv --for 1h
///   overdrive advise db
///   overdrive advise --pid 4711
///   overdrive advise -- make -j8
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(group(clap::ArgGroup::new("load").required(true).args(["target", "pid", "command"])))]
pub(crate) struct Arguments {
    /// A trace, a block device, a directory, or a served volume.
    target: Option<PathBuf>,

    /// Watch the requests of a process, its threads and its children.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// How long to watch. Ctrl-C ends it earlier [default: 10m; a command: until it ends].
    #[arg(long = "for", value_name = "TIME", value_parser = time_us)]
    watched: Option<u64>,

    #[arg(long, value_name = "F", value_parser = crate::sim::format,
          help = crate::sim::format_help())]
    format: Option<Format>,

    /// Time of a request without a cache; by default the recorded one, otherwise 100us.
    #[arg(long, value_name = "TIME", value_parser = units::time_us)]
    latency: Option<u64>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with the curve, the figures and what was not seen.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Run this command, and watch its requests until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses a time; `10m` is ten minutes, too.
fn time_us(text: &str) -> Result<u64, String> {
    match text.strip_suffix('m') {
        Some(number) if number.bytes().all(|it| it.is_ascii_digit()) => {
            units::time_us(&format!("{number}min"))
        }
        _ => units::time_us(text),
    }
}

/// All that is shown.
struct Shown {
    target: String,
    /// Kind of the target: `trace`, `device`, `process`, `command` or `volume`.
    kind: &'static str,
    /// The trace's format, or the way of watching.
    source: String,
    facts: Facts,
    premises: Premises,
    advice: Advice,
    /// Mean compression of a sample of the device: ratio, and share of blocks that become smaller.
    compression: Option<(f64, f64)>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let report = arguments.report.as_deref();
    let inputs: Vec<PathBuf> = arguments.target.iter().cloned().collect();
    let report = report.map(|path| PageFile::open(path, &inputs)).transpose()?;
    let (shown, is_gone) = look(arguments)?;
    match arguments.json {
        true => daemon::say!("{}", json::object(&shown)),
        false => crate::terminal::print(text::lines(&shown, crate::terminal::width())),
    }
    if let Some(report) = report {
        report.write(&page::page(&shown))?;
    }
    if is_gone {
        let message = format!("{}: vanished; the figures are for a part", shown.target);
        return Err(Failure::new(Exit::Negative, message));
    }
    Ok(match shown.advice.leaves_it {
        true => ExitCode::from(Exit::Negative as u8),
        false => ExitCode::SUCCESS,
    })
}

/// Observes the target. Returns the answer, and whether a device vanished.
fn look(arguments: &Arguments) -> Result<(Shown, bool), Failure> {
    if let Some(pid) = arguments.pid {
        let name = format!("process {pid}");
        return watch(arguments, "process", name, |options| watched::process(pid, options));
    }
    if let Some(program) = arguments.command.first() {
        let (name, words) = (program.to_string_lossy().into_owned(), &arguments.command);
        return watch(arguments, "command", name, |options| watched::command(words, options));
    }
    let path = arguments.target.as_deref().unwrap_or(Path::new(""));
    let name = path.display().to_string();
    match target::find(path)? {
        Target::Trace(path) => Ok((of_trace(arguments, &path)?, false)),
        Target::Volume(target) => Ok((volume::advise(name, *target)?, false)),
        Target::Device(device) => {
            watch(arguments, "device", name, |options| watched::device(&device, options))
        }
    }
}

fn of_trace(arguments: &Arguments, target: &Path) -> Result<Shown, Failure> {
    let machine = machine();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let gathered = gather_trace(target, arguments.format, &sizes_of(machine), threads);
    let (facts, format) = gathered.map_err(crate::sim::failure)?;
    let latency = Latency::of(&facts, given_ns(arguments));
    let premises = Premises { latency, machine, refaults: None, backing: "BACKING".to_owned() };
    let advice = advise(&facts, &premises);
    let source = format!("{} trace", format.name());
    let (target, kind, compression) = (target.display().to_string(), "trace", None);
    Ok(Shown { target, kind, source, facts, premises, advice, compression })
}

fn watch(
    arguments: &Arguments,
    kind: &'static str,
    target: String,
    observe: impl FnOnce(&watched::Options<'_>) -> Result<Watched, Failure>,
) -> Result<(Shown, bool), Failure> {
    let before = machine();
    let sizes = sizes_of(before);
    let (time_us, is_json) = (arguments.watched, arguments.json);
    let Watched { facts, source, device, unseen, is_gone } =
        observe(&watched::Options { time_us, sizes: &sizes, is_json })?;
    let machine = machine();
    let refaulted = |machine: Machine| machine.refaults;
    let refaults = machine.map(refaulted).zip(before.map(refaulted));
    let node = format!("/dev/{device}");
    let premises = Premises {
        latency: Latency::of(&facts, given_ns(arguments)),
        machine,
        refaults: refaults.map(|(after, before)| after.saturating_sub(before)),
        backing: node.clone(),
    };
    let mut advice = advise(&facts, &premises);
    advice.unseen.splice(0..0, unseen);
    let compression = match simulator::compress::sampled(Path::new(&node)) {
        Ok(sizes) => Some((sizes.ratio(), sizes.stored_share())),
        Err(error) => {
            advice.unseen.push(format!(
                "{node} cannot be read ({error}): how well its blocks compress is unknown."
            ));
            None
        }
    };
    Ok((Shown { target, kind, source, facts, premises, advice, compression }, is_gone))
}

fn machine() -> Option<Machine> {
    Machine::read(Path::new("/proc"))
}

fn sizes_of(machine: Option<Machine>) -> Vec<u64> {
    sizes(machine.map_or(8 << 30, |machine| machine.memory_bytes))
}

fn given_ns(arguments: &Arguments) -> Option<u64> {
    arguments.latency.map(|us| us * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use advice::load::{Mean, Process};

    pub(super) fn example() -> Shown {
        let mib = 1u64 << 20;
        let part = |read_blocks| simulator::Accessed {
            read_blocks,
            write_blocks: 5,
            read_ns: read_blocks * 8_000_000,
        };
        let hit = |mib_of: u64, read_blocks| simulator::Hits {
            memory_bytes: mib_of * mib,
            read_blocks,
            write_blocks: 5,
            read_ns: read_blocks * 8_000_000,
            origins: Vec::new(),
        };
        let accessed =
            simulator::Accessed { read_blocks: 1000, write_blocks: 10, ..Default::default() };
        let process = Process {
            name: "<mysqld>".to_owned(),
            counts: true,
            reads: 1000,
            writes: 10,
            accessed,
            hits: vec![part(300), part(900)],
            ..Process::default()
        };
        let facts = Facts {
            reads: 1000,
            writes: 10,
            flushes: Some(3),
            duration_ns: Some(3_600_000_000_000),
            read_times: Mean { count: 1000, sum_ns: 8_000_000_000 },
            sequential_share: Some(0.25),
            overwritten_blocks: Some(2),
            accessed,
            processes: vec![process],
            hits: vec![hit(256, 300), hit(512, 900)],
            sample_rate: 1.0,
            ..Facts::default()
        };
        let latency = Latency::of(&facts, None);
        let machine = Some(Machine {
            memory_bytes: 1024 * mib,
            available_bytes: 400 * mib,
            active_file_bytes: 100 * mib,
            ..Machine::default()
        });
        let premises = Premises { latency, machine, refaults: Some(7), backing: "<b>".to_owned() };
        Shown {
            target: "a <trace>".to_owned(),
            kind: "trace",
            source: "recording trace".to_owned(),
            advice: advise(&facts, &premises),
            facts,
            premises,
            compression: Some((2.5, 0.75)),
        }
    }

    #[test]
    fn times_of_watching_are_parsed() {
        assert_eq!(time_us("10m"), Ok(600_000_000));
        assert_eq!((time_us("10ms"), time_us("3s")), (Ok(10_000), Ok(3_000_000)));
        assert!(time_us("m").is_err() && time_us("ten").is_err());
    }

    #[test]
    fn text_object_and_page_have_the_same_answer() {
        let shown = example();
        let object = json::object(&shown);
        assert_eq!(object["schema"], "overdrive.advise/1");
        assert_eq!(object["sizes"][1]["memory_bytes"], 512 << 20);
        assert_eq!(object["sizes"][1]["read_hit_ratio"], 0.9);
        assert_eq!(object["sizes"][1]["spare"], false);
        assert!(object["sizes"][0]["saved_ns_per_day"].as_f64().expect("known") > 0.0);
        let recommendation = "overdrive attach <b> --memory 256M";
        assert_eq!(object["recommendation"], recommendation);
        let lines = text::lines(&shown, Some(80));
        let printed: String = lines.iter().map(|line| format!("{line}\n")).collect();
        assert!(printed.starts_with("yes: 256 MiB of memory would save "), "{printed}");
        assert!(printed.contains(recommendation) && printed.contains("25.0 %"), "{printed}");
        assert!(printed.contains("<mysqld>"), "{printed}");
        assert_eq!(object["processes"][0]["name"], "<mysqld>");
        assert_eq!(object["processes"][0]["sizes"][0]["read_hit_ratio"], 0.3);
        assert_eq!(object["sizes"][1]["displaced_active_bytes"], 100 << 20);
        assert!(lines.iter().all(|line| line.width() <= 80), "{printed}");
        let page = page::page(&shown);
        for part in [
            "<svg",
            "yes: 256 MiB",
            "&lt;trace&gt;",
            "&lt;mysqld&gt;",
            "<h2>Not seen",
            "attach &lt;b&gt;",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let raw = report::page::raw_data(&page).expect("raw data");
        assert_eq!(serde_json::from_str::<serde_json::Value>(raw).expect("an object"), object);
    }
}
