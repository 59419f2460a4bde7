//! Suites on the files of a directory.

use super::live::SEED;
use super::{Arguments, incomplete, plan};
use crate::progress::Stages;
use crate::volumes::MapDuring;
use crate::watch::Watch;
use rigs::tree::{FileBench, LoadTime, Wanted, size_of_file_system};
use stack::{Exit, Failure};
use std::path::Path;
use suites::{Outcome, Plan, SPAN_MIN, Target};

/// Options of suites that work on files.
#[derive(clap::Args, Debug)]
pub(super) struct TreeOptions {
    /// filebench in a directory: percentage of the files to copy [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    share: Option<f64>,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.ok_or_else(|| "write a number above 0, at most 100".to_owned())
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

impl TreeOptions {
    /// Whether one of these options is given.
    pub(super) fn is_used(&self) -> bool {
        self.share.is_some()
    }
}

/// Returns the refusal of these options for a target that is not a directory.
pub(super) fn unused(arguments: &Arguments) -> Failure {
    usage(match arguments.suite().is_of_files() {
        true => {
            "--share: is for filebench in a directory; a recording is replayed unchanged".to_owned()
        }
        false => "--share: is for the suite filebench; the others have --span".to_owned(),
    })
}

/// Returns the target of a suite of files, if it is a directory. A missing path counts as a
/// directory, unless a file is to be made.
pub(super) fn directory(arguments: &Arguments) -> Option<&Path> {
    let text = arguments.target();
    let path = Path::new(text);
    let is_place = text.contains('/') && !text.contains(':');
    let is_missing = is_place && !path.exists() && !arguments.live.makes_file();
    (path.is_dir() || is_missing).then_some(path)
}

/// Refuses options that make no sense on files.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    arguments.live.check_unused_on_files()?;
    let copies = arguments.suite().profile().time_ns > 0;
    let beneath =
        "a cache serves a volume: run 'overdrive mount', and name its directory as the target";
    let own = "the file system is used unchanged";
    let refused = [
        ("--cache", arguments.cache.is_some(), beneath),
        ("--state", !arguments.state.0.is_empty(), own),
        ("--prepare", arguments.prepare.is_some(), own),
        ("--spare", arguments.spare.iter().any(|percent| *percent > 0), own),
        ("--span", arguments.span.is_some() && !copies, "the whole directory is read"),
        ("--time", arguments.time.is_some() && !copies, "the whole directory is read"),
        ("--share", arguments.tree.share.is_some() && !copies, "the whole directory is read"),
    ];
    match refused.iter().find(|(_, is_said, _)| *is_said) {
        Some((option, _, why)) => {
            Err(usage(format!("{option}: not on the files of a directory; {why}")))
        }
        None => Ok(()),
    }
}

fn plan_of(arguments: &Arguments, directory: &Path) -> Result<Plan, Failure> {
    // A file system may be smaller than the minimum of suites on devices, which does not apply to
    // files.
    let bytes = size_of_file_system(directory)?.max(SPAN_MIN);
    plan::jobs(arguments)?;
    let target = Target::of_rig(arguments.target(), bytes, SEED);
    let options = plan::options(arguments, 0);
    let usual = options.usual(arguments.suite(), target).map_err(usage)?;
    let plan = Plan {
        only: arguments.only.clone(),
        span_bytes: None,
        time_ns: options.time_ns(arguments.suite(), usual.time_ns),
        ..usual
    };
    plan.check().map_err(usage)?;
    Ok(plan)
}

/// Runs a suite on the files of a directory. Returns the outcome, and how the run ended.
///
/// # Errors
/// The directory cannot be tested so, and nothing was measured.
pub(super) fn run(
    arguments: &Arguments,
    directory: &Path,
) -> Result<(Outcome, Result<(), Failure>), Failure> {
    check(arguments)?;
    let plan = plan_of(arguments, directory)?;
    let map = MapDuring::start(directory);
    // Before the folder is made, so that it is removed after a signal.
    let mut watch = Watch::new(Stages::with_time_left())?;
    let (mut outcome, ended) = if plan.suite.time_ns > 0 {
        copy(arguments, directory, &plan, &mut watch)?
    } else {
        let (outcome, ended) = LoadTime::open(directory, &plan)?.run(&mut watch);
        (outcome, ended.map_err(|halt| incomplete::failure(&plan, &halt)))
    };
    watch.finish();
    outcome.method.extend(map.map(MapDuring::end));
    Ok((outcome, ended))
}

/// Copies file sets, and removes the files made for that.
fn copy(
    arguments: &Arguments,
    directory: &Path,
    plan: &Plan,
    watch: &mut Watch,
) -> Result<(Outcome, Result<(), Failure>), Failure> {
    let wanted = Wanted {
        share_percent: arguments.tree.share.unwrap_or(100.0),
        worn_bytes: arguments.span.map(|span| span.0),
    };
    let mut bench = FileBench::open(directory, plan, wanted)?;
    for folder in bench.left_before() {
        let (name, quoted) = (folder.display(), quoted(folder));
        daemon::tell!(
            "overdrive: {name}: an earlier run has left it behind; if you do not need its files: \
             rm -r --one-file-system -- {quoted}"
        );
    }
    let (outcome, ended) = bench.run(watch);
    let ended = ended.map_err(|halt| incomplete::failure(plan, &halt));
    Ok((outcome, both(ended, bench.remove())))
}

/// Returns a path quoted for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Returns the first failure, with the failure after it, if there is one.
fn both(first: Result<(), Failure>, then: Result<(), Failure>) -> Result<(), Failure> {
    match (first, then) {
        (Err(first), Err(then)) => {
            Err(Failure::new(first.exit, format!("{}; {}", first.message, then.message)))
        }
        (first, then) => first.and(then),
    }
}
