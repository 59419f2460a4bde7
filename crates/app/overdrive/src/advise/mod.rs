//! `overdrive advise`: would a cache help a load?

mod json;
mod page;
mod text;
mod watching;

use crate::page_file::PageFile;
use crate::progress::Stages;
use crate::watch::Watch;
use advice::load::{Advice, Facts, Latency, Machine, Premises, advise, gather_trace, sizes};
use daemon::units;
use stack::{Exit, Failure};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::Format;

/// Show whether a cache would help a load, and how much memory is worth it.
///
/// TARGET is a recorded trace (a file, which may be compressed), a block device, or the directory
/// of a mounted file system. Of a trace, caches of 256 MiB to half of this machine's memory are
/// simulated. A device is watched by its counters, which have no addresses: the answer is then the
/// most that any cache could save. Memory that active files use is not recommended.
///
/// Exit status: 0 if a cache helps or may help, 1 if the answer is to leave it.
///
/// Examples:
///   overdrive advise vm.vscsi.xz --latency 500us
///   overdrive advise volume.odtrace --report advice.html
///   overdrive advise /dev/sdb --for 10m
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// A trace, a block device, or a directory.
    target: PathBuf,

    /// How long a device is watched.
    #[arg(long = "for", value_name = "TIME", default_value = "10min", value_parser = time_us)]
    watched: u64,

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
    /// Kind of the target: `trace` or `device`.
    kind: &'static str,
    /// The trace's format, or the source of counters.
    source: String,
    facts: Facts,
    premises: Premises,
    advice: Advice,
    machine: Option<Machine>,
    /// Refaults while a device was watched.
    refaults: Option<u64>,
    /// Mean compression of a sample of the device: ratio, and share of blocks that become smaller.
    compression: Option<(f64, f64)>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let target = &arguments.target;
    let report = arguments.report.as_deref();
    let inputs = std::slice::from_ref(target);
    let report = report.map(|path| PageFile::open(path, inputs)).transpose()?;
    let data = target.metadata().map_err(|error| unreadable(target, &error))?;
    let (shown, is_cut) = match data.file_type().is_block_device() || data.is_dir() {
        true => of_device(arguments, target)?,
        false => (of_trace(arguments, target)?, false),
    };
    match arguments.json {
        true => daemon::say!("{}", json::object(&shown)),
        false => crate::terminal::print(text::lines(&shown, crate::terminal::width())),
    }
    if let Some(report) = report {
        report.write(&page::page(&shown))?;
    }
    if is_cut {
        let message =
            format!("{}: watching ended early; the figures are for a part", target.display());
        return Err(Failure::new(Exit::Negative, message));
    }
    Ok(match shown.advice.leaves_it {
        true => ExitCode::from(Exit::Negative as u8),
        false => ExitCode::SUCCESS,
    })
}

fn unreadable(target: &Path, error: &std::io::Error) -> Failure {
    let exit = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Exit::Permission,
        std::io::ErrorKind::NotFound => Exit::Usage,
        _ => Exit::Io,
    };
    let message = format!(
        "{}: {error}; name a trace, a block device or a directory (of a served volume, 'overdrive \
         volume stats --explain' has the curve)",
        target.display()
    );
    Failure::new(exit, message)
}

fn of_trace(arguments: &Arguments, target: &Path) -> Result<Shown, Failure> {
    let machine = Machine::read(Path::new("/proc"));
    let memory = machine.map_or(8 << 30, |machine| machine.memory_bytes);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let gathered = gather_trace(target, arguments.format, &sizes(memory), threads);
    let (facts, format) = gathered.map_err(crate::sim::failure)?;
    let source = format!("{} trace", format.name());
    let backing = "BACKING".to_owned();
    Ok(shown(arguments, "trace", source, facts, machine, backing))
}

fn of_device(arguments: &Arguments, target: &Path) -> Result<(Shown, bool), Failure> {
    let root = Path::new("/");
    let name = watching::device_of(target)?;
    let refaults = || Machine::read(Path::new("/proc")).map_or(0, |machine| machine.refaults);
    let before = refaults();
    let mut watch = Watch::new(Stages::new_at_once())?;
    let watched = watching::watch(root, &name, arguments.watched, &mut watch);
    watch.finish();
    let watched = watched?;
    let machine = Machine::read(Path::new("/proc"));
    let node = format!("/dev/{name}");
    let source = "counters of /proc/diskstats".to_owned();
    let mut shown = shown(arguments, "device", source, watched.facts, machine, node.clone());
    shown.refaults = Some(refaults().saturating_sub(before));
    match crate::sim::compress_sample(Path::new(&node)) {
        Ok(sizes) => shown.compression = Some((sizes.ratio(), sizes.stored_share())),
        Err(error) => shown.advice.unseen.push(format!(
            "{node} cannot be read ({error}): how well its blocks compress is unknown."
        )),
    }
    if let Some(why) = &watched.ended {
        shown.advice.unseen.insert(0, why.clone());
    }
    Ok((shown, watched.ended.is_some()))
}

fn shown(
    arguments: &Arguments,
    kind: &'static str,
    source: String,
    facts: Facts,
    machine: Option<Machine>,
    backing: String,
) -> Shown {
    let given = arguments.latency.map(|us| us * 1000);
    let premises = Premises {
        latency: Latency::of(&facts, given),
        spare_bytes: machine.map(|machine| machine.spare_bytes()),
        backing,
    };
    let advice = advise(&facts, &premises);
    let target = arguments.target.display().to_string();
    let (refaults, compression) = (None, None);
    Shown { target, kind, source, facts, premises, advice, machine, refaults, compression }
}

#[cfg(test)]
mod tests {
    use super::*;
    use advice::load::Mean;

    pub(super) fn example() -> Shown {
        let mib = 1u64 << 20;
        let hit = |mib_of: u64, read_blocks| simulator::Hits {
            memory_bytes: mib_of * mib,
            read_blocks,
            write_blocks: 5,
        };
        let facts = Facts {
            reads: 1000,
            writes: 10,
            flushes: Some(3),
            duration_ns: Some(3_600_000_000_000),
            read_times: Mean { count: 1000, sum_ns: 8_000_000_000 },
            sequential_share: Some(0.25),
            overwritten_blocks: Some(2),
            accessed: simulator::Accessed { read_blocks: 1000, write_blocks: 10 },
            hits: vec![hit(256, 300), hit(512, 900)],
            sample_rate: 1.0,
            ..Facts::default()
        };
        let latency = Latency::of(&facts, None);
        let spare_bytes = Some(300 * mib);
        let premises = Premises { latency, spare_bytes, backing: "<b>".to_owned() };
        Shown {
            target: "a <trace>".to_owned(),
            kind: "trace",
            source: "recording trace".to_owned(),
            advice: advise(&facts, &premises),
            facts,
            premises,
            machine: Some(Machine { memory_bytes: 1024 * mib, ..Machine::default() }),
            refaults: None,
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
        assert!(lines.iter().all(|line| line.width() <= 80), "{printed}");
        let page = page::page(&shown);
        for part in ["<svg", "yes: 256 MiB", "&lt;trace&gt;", "<h2>Not seen", "attach &lt;b&gt;"] {
            assert!(page.contains(part), "{part}");
        }
        let raw = report::page::raw_data(&page).expect("raw data");
        assert_eq!(serde_json::from_str::<serde_json::Value>(raw).expect("an object"), object);
    }
}
