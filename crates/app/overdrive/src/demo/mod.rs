//! `overdrive demo`: the main purpose, in one minute on a new machine.
//!
//! ```text
//!   image.rs      a disk with a file system full of this machine's files, and a database's space
//!   server.rs     `overdrive serve` over it, slowed down: bare, or with the cache
//!   page_cache.rs the bare one as a block device, its page cache limited (cgroup.rs)
//!   database.rs   fio: benefits from a cache         bench.rs   each on each side, verified
//!   bench.rs      nbdcopy: must not get slower       report.rs  side by side
//! ```

mod bench;
mod cgroup;
mod children;
mod database;
mod image;
mod page_cache;
mod report;
mod scale;
mod server;
mod verify;

use crate::terminal;
use crate::tools::{self, Need, TOOLS};
use bench::{Bench, Side, now_ns};
use block::Size;
use children::Children;
use page_cache::PageCache;
use report::Report;
use scale::{ROUNDS_END_NS, ROUNDS_MIN, Scale};
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Measure on this machine, in about a minute, where the cache helps and where it does not.
///
/// Makes a disk image with real files in it, serves it over a simulated slow drive (0.5 ms per
/// operation, four at a time), and runs two real clients: fio as a database, which a cache helps,
/// and nbdcopy as a backup, which it must not slow down. Each runs bare, cached by Overdrive, and
/// with the same memory as the host's page cache. Every byte is verified. Only the column of the
/// page cache needs root; no device is needed.
///
/// Exit status: 0 the demo ran, whatever it measured; 1 it could not run; 7 data differs from the
/// written data.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Directory of the image, which is removed at the end [default: TMPDIR, or /var/tmp].
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,

    /// Use a small image and few operations, to test whether it works, not how fast it is.
    #[arg(long)]
    quick: bool,

    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

/// Progress: a line on stderr for every step, with the time since the start.
struct Steps(u64);

impl Steps {
    fn say(&self, what: &str) {
        let seconds = (now_ns() - self.0) as f64 / 1e9;
        daemon::tell!("[{seconds:5.1} s] {what}");
    }
}

/// Runs the command.
///
/// # Errors
/// A program is missing, the demo was interrupted, or data differs from the data that was
/// written.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let steps = Steps(now_ns());
    let scale = if arguments.quick { Scale::QUICK } else { Scale::FULL };
    look_for_tools()?;
    let place = tempfile::Builder::new()
        .prefix("overdrive-demo-")
        .tempdir_in(directory(arguments))
        .map_err(|error| unusable(&directory(arguments), &error.to_string()))?;
    let place = place.path().canonicalize().map(|path| (path, place));
    let (path, _place) = place.map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    look_for_space(&path, &scale)?;
    let children = Children::new(&path)?;
    let report = measure(&path, &children, scale, &steps)?;
    if arguments.json {
        daemon::say!("{}", report.json(now_ns() - steps.0));
    } else {
        terminal::print_text(&report.text(), 4, &report::VERDICTS);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(
    path: &Path,
    children: &Children,
    scale: Scale,
    steps: &Steps,
) -> Result<Report, Failure> {
    steps.say("making the image");
    let (disk, gathered) = image::make(path, &scale, children)?;
    verify::file_system(children, "the image", &disk)?;
    let page_cache = PageCache::find(scale.memory_bytes);
    let mut bench = Bench { children, directory: path, disk, scale, page_cache };
    bench.try_page_cache()?;
    let files = format!(
        "{} with {} real files, and {} for a database; cache memory: {}",
        Size(scale.files_bytes),
        gathered.files,
        Size(scale.database_bytes),
        Size(scale.memory_bytes)
    );
    steps.say(&format!("the disk: {files}"));
    if let Err(why) = &bench.page_cache {
        steps.say(&format!("no page cache column: {why}"));
    }
    steps.say("database: on a plain file, for reference");
    bench.reference()?;
    let mut report = Report::new(scale, gathered.files, bench.page_cache.as_ref().err().cloned());
    for (index, side) in Side::ALL.into_iter().enumerate().filter(|(_, side)| bench.has(*side)) {
        steps.say(&format!("database: {}", side.name()));
        report.database[index] = Some(bench.database(side)?);
    }
    for round in 0..scale.rounds {
        if round >= ROUNDS_MIN && now_ns() - steps.0 > ROUNDS_END_NS {
            break;
        }
        steps.say(&format!("copy of the whole disk: round {} of {}", round + 1, scale.rounds));
        for (index, side) in order(round).into_iter().filter(|(_, side)| bench.has(*side)) {
            report.copies[index].push(bench.copy(side)?);
        }
    }
    steps.say("verified: all bytes are right");
    Ok(report)
}

/// Returns the copies of a round, with the number of the column: alternately forwards and
/// backwards, so that a drift of the machine affects all.
fn order(round: usize) -> Vec<(usize, Side)> {
    let mut sides: Vec<_> = Side::ALL.into_iter().enumerate().collect();
    if round % 2 == 1 {
        sides.reverse();
    }
    sides
}

fn directory(arguments: &Arguments) -> PathBuf {
    let chosen = arguments.dir.clone();
    let chosen = chosen.or_else(|| std::env::var_os("TMPDIR").map(PathBuf::from));
    // Not /tmp, which is often memory and thus no disk.
    let usual = || Some(PathBuf::from("/var/tmp")).filter(|path| path.is_dir());
    chosen.or_else(usual).unwrap_or_else(std::env::temp_dir)
}

fn unusable(directory: &Path, why: &str) -> Failure {
    let message = format!(
        "{}: {why}; name a directory that you can write to with --dir",
        directory.display()
    );
    Failure::new(Exit::Usage, message)
}

fn look_for_space(directory: &Path, scale: &Scale) -> Result<(), Failure> {
    let free = rustix::fs::statvfs(directory).map(|found| found.f_bavail * found.f_frsize);
    match free {
        Ok(free) if free < scale.space_bytes() => {
            let (free, need) = (Size(free), Size(scale.space_bytes()));
            Err(unusable(directory, &format!("{free} are free, but the demo needs {need}")))
        }
        _ => Ok(()),
    }
}

fn look_for_tools() -> Result<(), Failure> {
    let absent = |tool: &&tools::Tool| tool.need == Need::Demo && tools::find(tool.name).is_none();
    let missing: Vec<_> = TOOLS.iter().filter(absent).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|tool| tool.name).collect();
        let packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
        let (names, line) = (names.join(", "), tools::install(&packages));
        let message = format!("the demo needs {names}; install with: {line}");
        return Err(Failure::new(Exit::Negative, message));
    }
    let fio = Command::new("fio").arg("--enghelp").output();
    let engines = fio.map(|output| output.stdout).unwrap_or_default();
    if String::from_utf8_lossy(&engines).split_whitespace().any(|engine| engine == "nbd") {
        return Ok(());
    }
    let message = "this fio was built without its nbd engine; install the distribution's package";
    Err(Failure::new(Exit::Negative, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_at_going_first() {
        assert_eq!(order(0)[0], (0, Side::Bare));
        assert_eq!(order(1)[0], (2, Side::PageCache));
    }

    #[test]
    fn a_place_without_room_is_refused_with_a_mend() {
        let scale = Scale { files_bytes: 1 << 60, ..Scale::QUICK };
        let failure = look_for_space(Path::new("/"), &scale).expect_err("no disk has that");
        assert!(failure.message.contains("--dir"), "{failure}");
    }
}
