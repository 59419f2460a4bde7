//! `cargo xtask mutants`: small changes to the engine, each of which a test or the laboratory must
//! detect.
//!
//! Cargo-mutants lists the changes. By itself it would build the engine and the laboratory again
//! for each, about a minute; here all are woven into one copy of the engine (`weave.rs`), which is
//! built once (`build.rs`), and an environment variable selects the active one. Each mutant then
//! goes through the unit tests, the tests of the engine and the laboratory, until one of them fails
//! (`trial.rs`).

mod build;
mod list;
mod report;
mod trial;
mod weave;

use crate::clock::now;
use anyhow::{Context, ensure};
use build::Built;
use list::Mutant;
use report::{Explained, Fate};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use trial::{End, Trial};

/// Groups of files of the engine and its policy.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "epochs",
        &[
            "cache/src/epochs/mod.rs",
            "cache/src/handle.rs",
            "cache/src/request/flush.rs",
            "cache/src/backing/flush_gate.rs",
            "cache/src/writeback/mod.rs",
            "cache/src/tasks/worker.rs",
            "cache/src/tasks/flusher.rs",
            "cache/src/tasks/commit.rs",
            "cache/src/backing/health.rs",
            "cache/src/backing/retry.rs",
        ],
    ),
    (
        "write-back",
        &[
            "cache/src/request/write.rs",
            "cache/src/request/write_through.rs",
            "cache/src/dirty/decision.rs",
            "cache/src/shard/write.rs",
            "cache/src/shard/writeback.rs",
            "cache/src/shard/early_writeback.rs",
            "cache/src/shard/write_through.rs",
            "cache/src/shard/zero_ranges.rs",
            "cache/src/shard/zero_writeback.rs",
            "cache/src/shard/write_through_queue.rs",
        ],
    ),
    (
        "pacing",
        &[
            "cache/src/writeback/estimator/mod.rs",
            "cache/src/dirty/limits.rs",
            "cache/src/dirty/level.rs",
            "cache/src/dirty/throttle/mod.rs",
            "cache/src/operator/reconfigure.rs",
        ],
    ),
    (
        "recovery",
        &[
            "cache/src/recovery/mod.rs",
            "cache/src/geometry.rs",
            "cache/src/spread.rs",
            "cache/src/arena/layout.rs",
            "cache/src/shard/rebuild.rs",
            "cache/src/arena/superblock/mod.rs",
            "cache/src/arena/mod.rs",
            "cache/src/operator/discard_dirty.rs",
            "cache/src/shard/discard_dirty.rs",
            "cache/src/rescue/mod.rs",
            "cache/src/rescue/items.rs",
            "cache/src/rescue/mapfile.rs",
        ],
    ),
    (
        "policy",
        &[
            "policy/src/expectation.rs",
            "policy/src/lists.rs",
            "policy/src/lru.rs",
            "policy/src/policy.rs",
            "policy/src/sieve.rs",
        ],
    ),
];

/// Minimum share of mutants that must be killed.
const SHARE: f64 = 0.95;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these: epochs, write-back, pacing, recovery, policy, or files below crates/core/, such
    /// as cache/src/shard/read.rs. Several with commas.
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    only: Vec<String>,
    /// Time of the laboratory for a mutant that has passed all other tests.
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Results of earlier runs (the output of `--json`): mutants that were killed then are not
    /// tried again.
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    again: Vec<PathBuf>,
    /// Number of mutants tried at a time; 0: one for each core.
    #[arg(long, default_value_t = 0, value_name = "N")]
    jobs: usize,
    /// Print one JSON object on standard output, the rest on standard error.
    #[arg(long)]
    json: bool,
}

/// The command `mutants`.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let explained = Explained::load()?;
    let mutants = list::mutants(&files(&options.only)?)?;
    ensure!(!mutants.is_empty(), "--only {}: no mutants there", options.only.join(","));
    let mut known = BTreeMap::new();
    for path in &options.again {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        known.extend(report::earlier(&text).with_context(|| path.display().to_string())?);
    }
    let (old, new): (Vec<Mutant>, Vec<Mutant>) =
        mutants.into_iter().partition(|mutant| known.contains_key(&mutant.key));
    let mut fates: Vec<(&Mutant, Fate)> =
        old.iter().map(|mutant| (mutant, known[&mutant.key].clone())).collect();
    if !new.is_empty() {
        let built = build::build(&new)?;
        let plan = trial::plan(&built, options.seconds)?;
        fates.extend(all(&new, &built, &plan, options.jobs)?);
    }
    fates.sort_by_key(|(mutant, _)| mutant.id);
    if options.json {
        println!("{:#}", report::as_json(&fates, &explained));
    }
    Ok(print_result(options, &explained, &fates))
}

/// Returns the selected files, each once.
fn files(only: &[String]) -> anyhow::Result<Vec<String>> {
    let every = || GROUPS.iter().flat_map(|(_, files)| files.iter().copied());
    let mut files: Vec<String> = Vec::new();
    for name in only {
        let group = GROUPS.iter().find(|(group, _)| group == name);
        match group {
            Some((_, group)) => files.extend(group.iter().map(|&file| file.to_owned())),
            None => {
                let path = crate::cargo::root().join(list::SOURCES).join(name);
                ensure!(
                    name.ends_with(".rs") && path.is_file(),
                    "--only {name}: neither a group (epochs, write-back, pacing, recovery, policy) nor a \
                     file below {}",
                    list::SOURCES
                );
                files.push(name.clone());
            }
        }
    }
    if only.is_empty() {
        files.extend(every().map(str::to_owned));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Tries all mutants, `jobs` at a time.
fn all<'a>(
    mutants: &'a [Mutant],
    built: &Built,
    plan: &[Trial],
    jobs: usize,
) -> anyhow::Result<Vec<(&'a Mutant, Fate)>> {
    let jobs = match jobs {
        0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        jobs => jobs,
    };
    let begun = now();
    let next = AtomicUsize::new(0);
    let fates: Mutex<Vec<Option<Fate>>> = Mutex::new(vec![None; mutants.len()]);
    let work = || -> anyhow::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(number) else { return Ok(()) };
            let fate = one(mutant, built, plan)?;
            if fate == Fate::Survived {
                eprintln!("survived: {}", mutant.title());
            }
            let mut fates = fates.lock().unwrap_or_else(PoisonError::into_inner);
            fates[number] = Some(fate);
            let done = fates.iter().flatten().count();
            if done.is_multiple_of(50) {
                let seconds = begun.elapsed().as_secs();
                eprintln!("[try] {done} of {} in {seconds} s", mutants.len());
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        ends.collect::<anyhow::Result<Vec<()>>>()
    })?;
    let fates = fates.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(mutants.iter().zip(fates.into_iter().flatten()).collect())
}

fn one(mutant: &Mutant, built: &Built, plan: &[Trial]) -> anyhow::Result<Fate> {
    if built.unviable.contains(&mutant.id) {
        return Ok(Fate::Unviable);
    }
    if built.untried.contains(&mutant.id) {
        return Ok(Fate::Untried);
    }
    if built.planted.contains(&mutant.id) {
        return Ok(Fate::Planted);
    }
    for trial in plan {
        match trial.run(&built.home, mutant.id)? {
            End::Passed => {}
            End::Failed => return Ok(Fate::Killed(trial.name.clone())),
            End::TimedOut => return Ok(Fate::TimedOut(trial.name.clone())),
        }
    }
    Ok(Fate::Survived)
}

/// Prints the result. Returns success if it meets the requirements.
fn print_result(options: &Options, explained: &Explained, fates: &[(&Mutant, Fate)]) -> ExitCode {
    let (mut text, sum) = report::table(fates);
    let judged = explained.judge(fates);
    for (title, key) in &judged.unexplained {
        text += &format!("survived: {title}\n          {key}\n");
    }
    for void in &judged.void {
        text += &format!("xtask/mutants.toml explains what did not survive: {void}\n");
    }
    text += &format!(
        "{:.1} % killed (to reach: {:.0}); survivors: {} explained, {} not\n",
        sum.share() * 100.0,
        SHARE * 100.0,
        judged.explained,
        judged.unexplained.len()
    );
    if options.json {
        eprint!("{text}");
    } else {
        print!("{text}");
    }
    ExitCode::from(u8::from(sum.share() < SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_files_are_understood() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            files(&only)
        };
        let all = names(&[]).expect("every group");
        for file in &all {
            assert!(crate::cargo::root().join(list::SOURCES).join(file).is_file(), "{file}");
        }
        assert_eq!(
            names(&[
                "cache/src/epochs/mod.rs",
                "cache/src/backing/flush_gate.rs",
                "cache/src/epochs/mod.rs"
            ])
            .unwrap(),
            ["cache/src/backing/flush_gate.rs", "cache/src/epochs/mod.rs"]
        );
        assert_eq!(names(&["epochs", "cache/src/backing/flush_gate.rs"]).unwrap().len(), 10);
        assert!(names(&["epoch"]).is_err());
        assert!(names(&["no_such.rs"]).is_err());
    }
}
