//! Runs a suite on drives, two at the same time.

use super::{Options, incomplete, report};
use crate::progress::Stages;
use crate::watch::Watch;
use serde_json::{Value, json};
use stack::Failure;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use suites::{Halt, Modelled};

/// Drives that are tested at the same time: a drive's tables take memory, and the machine has other
/// work.
const WORKERS_MAX: usize = 2;
/// Time between two looks at the signals.
const LOOK: Duration = Duration::from_millis(50);

/// How the runs ended.
pub(super) struct Ran {
    /// Models that cannot run the suite, and the reason.
    pub(super) failed: Vec<(String, String)>,
    pub(super) is_interrupted: bool,
}

/// State that the workers share.
struct Shared<'a> {
    options: &'a Options,
    names: Vec<&'a String>,
    next: AtomicUsize,
    /// Number of drives that are complete.
    done: AtomicUsize,
    is_stopped: AtomicBool,
    results: Mutex<Vec<(usize, Result<Value, String>)>>,
}

/// The watch of a worker's suite, which stops it.
struct Worker<'a>(&'a AtomicBool);

impl suites::Watch for Worker<'_> {
    fn look(&mut self, _: &str, _: f64) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Runs the suite on the drives that are not found yet, and adds them in the order of the names.
///
/// # Errors
/// Signals cannot be received.
pub(super) fn all(
    options: &Options,
    names: &[String],
    found: &mut Vec<Value>,
) -> Result<Ran, Failure> {
    let is_new = |name: &&String| !found.iter().any(|drive| drive["model"] == name.as_str());
    let shared = Shared {
        options,
        names: names.iter().filter(is_new).collect(),
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
        results: Mutex::new(Vec::new()),
    };
    // Before the workers start, so that none of them receives the signals.
    let mut watch = Watch::new(Stages::with_time_left())?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS_MAX).map(|_| scope.spawn(|| work(&shared))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            let (stage, share) = progress(&shared);
            if !suites::Watch::look(&mut watch, &stage, share) {
                shared.is_stopped.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(LOOK);
        }
    });
    watch.finish();
    let is_interrupted = shared.is_stopped.load(Ordering::Relaxed);
    let mut results = shared.results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(index, _)| *index);
    let mut failed = Vec::new();
    for (index, result) in results {
        match result {
            Ok(drive) => found.push(drive),
            Err(why) => failed.push((shared.names[index].clone(), why)),
        }
    }
    let position = |drive: &Value| names.iter().position(|name| drive["model"] == name.as_str());
    found.sort_by_key(position);
    Ok(Ran { failed, is_interrupted })
}

/// Returns the number of complete drives in words, and their share of all. Shares within a drive
/// are of the stages of its suite, and cannot be added.
fn progress(shared: &Shared<'_>) -> (String, f64) {
    let (done, all) = (shared.done.load(Ordering::Relaxed), shared.names.len());
    (format!("{done} of {all} drives"), done as f64 / all.max(1) as f64)
}

/// Tests one drive after the other until none is left.
fn work(shared: &Shared<'_>) {
    loop {
        let index = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(name) = shared.names.get(index) else { return };
        let Some(result) = one(shared, name) else { return };
        shared.done.fetch_add(1, Ordering::Relaxed);
        let mut results = shared.results.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        results.push((index, result));
    }
}

/// Tests a drive. None: it was interrupted.
fn one(shared: &Shared<'_>, name: &str) -> Option<Result<Value, String>> {
    let rig = shared.options.plan(name).and_then(|plan| {
        let rig = Modelled::new(&plan.target, plan.prices)?;
        Ok((plan, rig))
    });
    let (plan, rig) = match rig {
        Ok(both) => both,
        Err(why) => return Some(Err(why)),
    };
    let mut worker = Worker(&shared.is_stopped);
    let (mut outcome, ended) = suites::run_on(Box::new(rig), &plan, &mut worker);
    match ended {
        Err(Halt::Interrupted | Halt::Unanswered) => return None,
        Err(halt) => return Some(Err(incomplete::failure(&plan, &halt).to_string())),
        Ok(()) => {}
    }
    suites::published::mark_doubts(&mut outcome);
    Some(Ok(drive(name, plan.target.title(), &report::json(&outcome))))
}

/// Keys of a row that are kept: its distribution and its samples would make a large file.
const KEYS: [&str; 13] = [
    "test",
    "unit",
    "value",
    "requests",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "max_ns",
    "shortened",
    "doubt",
];

/// Returns a drive with its figures.
fn drive(name: &str, title: &str, result: &Value) -> Value {
    let row = |row: &Value| -> Value {
        let kept = KEYS.iter().filter(|key| !row[**key].is_null());
        kept.map(|key| ((*key).to_owned(), row[*key].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let rows = result["rows"].as_array().into_iter().flatten();
    json!({
        "model": name,
        "title": title,
        "headline": result["headline"],
        "rows": rows.map(row).collect::<Vec<_>>(),
    })
}
