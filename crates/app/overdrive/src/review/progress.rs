//! Runs the jobs of a review: those on modelled drives side by side, those on a real target one
//! after the other.

use super::jobs::{self, Found, Job};
use super::store::Store;
use super::targets::Place;
use crate::bench::{expected::duration, incomplete};
use crate::progress::Stages;
use crate::watch::Watch;
use stack::{Exit, Failure};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use suites::{Halt, Watch as _, run_passes};

/// How a review ended.
pub(super) struct Ended {
    /// Sentences about parts that were left out.
    pub(super) method: Vec<String>,
    /// Why it is not complete.
    pub(super) failure: Option<Failure>,
}

/// Time between two looks at signals.
const TICK: Duration = Duration::from_millis(100);

/// Ends a suite if the review ends.
struct Stop<'a>(&'a AtomicBool);

impl suites::Watch for Stop<'_> {
    fn look(&mut self, _stage: &str, _share: f64) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// The result of a job, or why there is none.
type Result1 = Result<Found, Failure>;

/// Runs a job, and measures its duration.
fn run_job(place: &Place, job: &Job, watch: &mut dyn suites::Watch) -> Result1 {
    let begun_ns = host::now_ns();
    let found = measure(place, job, watch)?;
    Ok(Found { elapsed_ns: host::now_ns().saturating_sub(begun_ns), ..found })
}

fn measure(place: &Place, job: &Job, watch: &mut dyn suites::Watch) -> Result1 {
    let plan = &job.passes[0].plan;
    if let Err(why) = plan.check() {
        return Ok(Found::without(job, &why));
    }
    let rig = place.rig(plan, job.is_buffered)?;
    let (mut outcomes, ended) = run_passes(rig, &job.passes, watch);
    // A warm run finds blocks of the run before.
    for (outcome, pass) in outcomes.iter_mut().zip(&job.passes) {
        if pass.keeps_cache {
            outcome.rows.iter_mut().for_each(|row| row.cold = row.cold.map(|_| false));
        }
        if jobs::target(job).model.is_some() {
            suites::published::mark_doubts(outcome);
        }
    }
    match ended {
        Ok(()) => Ok(Found::of(job, &outcomes)),
        Err(Halt::Plan(why)) => Ok(Found::without(job, &why)),
        Err(Halt::Load(why)) => Ok(Found::without(job, &why.to_string())),
        Err(halt) => Err(incomplete::failure(plan, &halt)),
    }
}

/// Runs the jobs that have no result yet; prints the expected time before.
///
/// # Errors
/// Signals cannot be noticed, or results cannot be stored.
pub(super) fn run(place: &Place, all: &[Job], store: &mut Store) -> Result<Ended, Failure> {
    let open: Vec<&Job> = all.iter().filter(|job| !store.has(&job.name)).collect();
    let threads = threads(place);
    announce(all.len(), &open, threads, place);
    let failure = match threads {
        1 => one_by_one(place, &open, store)?,
        _ => side_by_side(place, &open, store, threads)?,
    };
    let order = |name: &str| all.iter().position(|job| job.name == name).unwrap_or(usize::MAX);
    store.sort(order);
    let mut method = Vec::new();
    if place.is_virtual() {
        method.push(
            "Modelled drives: 'bare' and 'again' are two runs on one drive, 'cold' and 'warm' on \
             another of the same seed, and 'rapid' one run on a third; the drive is idle between \
             two runs as before the first."
                .to_owned(),
        );
    }
    method.push(
        "'cpu' is the share of one processor during a test: in virtual time of the cache's own work, \
         in real time of the load and the cache together; 'rapid' had 31.2 % of four processors in a \
         published test, and 13.8 % without it, the load included."
            .to_owned(),
    );
    Ok(Ended { method, failure })
}

/// Jobs on a real target would disturb one another.
fn threads(place: &Place) -> usize {
    match place.is_virtual() {
        true => std::thread::available_parallelism().map_or(1, usize::from),
        false => 1,
    }
}

fn announce(all: usize, open: &[&Job], threads: usize, place: &Place) {
    let expected_ns: u64 = open.iter().map(|job| job.expected_ns).sum();
    let expected_ns = match place.is_virtual() && !open.is_empty() {
        true => (expected_ns as f64 * jobs::machine_factor()) as u64,
        false => expected_ns,
    };
    let continued = match all - open.len() {
        0 => String::new(),
        done => format!(", continued after {done} of {all} runs"),
    };
    let amounts = if place.is_virtual() { "" } else { ", and longer on a drive below 500 MB/s" };
    daemon::tell!(
        "overdrive: review of {}: about {}{amounts}{continued}",
        place.target().text,
        duration(expected_ns / threads as u64)
    );
}

fn one_by_one(place: &Place, open: &[&Job], store: &mut Store) -> Result<Option<Failure>, Failure> {
    let mut watch = Watch::new(Stages::with_time_left())?;
    for job in open {
        match run_job(place, job, &mut watch) {
            Ok(found) => store.add(found)?,
            Err(failure) => {
                watch.finish();
                return Ok(Some(failure));
            }
        }
    }
    watch.finish();
    Ok(None)
}

fn side_by_side(
    place: &Place,
    open: &[&Job],
    store: &mut Store,
    threads: usize,
) -> Result<Option<Failure>, Failure> {
    // Before the threads are started, so that they inherit the mask of the signals.
    let mut watch = Watch::new(Stages::with_time_left())?;
    let mut longest: Vec<&Job> = open.to_vec();
    longest.sort_by_key(|job| std::cmp::Reverse(job.expected_ns));
    let (queue, stop) = (Mutex::new(VecDeque::from(longest)), AtomicBool::new(false));
    let all_ns: u64 = open.iter().map(|job| job.expected_ns).sum();
    let failure = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads {
            let sender = sender.clone();
            let (queue, stop) = (&queue, &stop);
            scope.spawn(move || work(place, queue, stop, &sender));
        }
        drop(sender);
        let (mut done_ns, mut failure) = (0, None);
        loop {
            match receiver.recv_timeout(TICK) {
                Ok((ns, Ok(found))) => {
                    done_ns += ns;
                    failure = failure.or(store.add(found).err());
                }
                Ok((_, Err(other))) => failure = failure.or(Some(other)),
                Err(RecvTimeoutError::Disconnected) => return failure,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let share = done_ns as f64 / all_ns.max(1) as f64;
            if failure.is_none() && !watch.look("review", share) {
                let message = "interrupted; the same command continues this review";
                failure = Some(Failure::new(Exit::Negative, message.to_owned()));
            }
            if failure.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    watch.finish();
    Ok(failure)
}

/// Runs jobs until none is left.
fn work(
    place: &Place,
    queue: &Mutex<VecDeque<&Job>>,
    stop: &AtomicBool,
    results: &Sender<(u64, Result1)>,
) {
    while !stop.load(Ordering::Relaxed) {
        let job = queue.lock().expect("no worker panics with it").pop_front();
        let Some(job) = job else { return };
        let result = run_job(place, job, &mut Stop(stop));
        if results.send((job.expected_ns, result)).is_err() {
            return;
        }
    }
}
