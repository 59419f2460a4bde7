//! Hunts: threads that run histories until their time is up, or there were enough of them, or something
//! is found.
//!
//! Which histories a hunt runs, and in which order they begin, follows from its base alone: the speed of
//! the machine decides how far it gets, not what it finds first.

use crate::drive::{Failure, history, seed_of};
use crate::setup::Scale;
use crate::stamp::mix;
use crate::subject::Subject;
use crate::tally::Tally;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long, how wide, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The time it may take; without one, only `histories_max` ends it.
    pub time: Option<Duration>,
    /// The number of the history to begin with.
    pub first: u64,
    /// How many histories there are at most, with those before the first.
    pub histories_max: u64,
    /// Threads.
    pub threads: u32,
    /// The seed that all seeds follow from.
    pub base: u64,
}

/// The result of a hunt.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Hunt {
    /// Histories of at least 50 operations, with crash states sampled.
    pub swarm: Tally,
    /// Small histories, with every crash state.
    pub exhaustive: Tally,
    /// Processor time spent on swarms, in seconds.
    pub swarm_seconds: f64,
    /// Processor time spent on exhaustive histories, in seconds.
    pub exhaustive_seconds: f64,
    /// The time it took, in seconds.
    pub seconds: f64,
    /// The sum of the traces of all histories, each with its seed: equal for equal work, whatever the
    /// number of threads.
    pub traces: u64,
    /// What was found: by the history that began first, where several found something.
    pub failure: Option<Failure>,
    /// The number of that history.
    #[serde(skip)]
    pub found_by: Option<u64>,
}

impl Hunt {
    /// Distinct states of swarms a second of processor time.
    pub fn swarm_rate(&self) -> f64 {
        self.swarm.states() as f64 / self.swarm_seconds.max(1e-9)
    }

    /// Distinct states of exhaustive histories a second of processor time.
    pub fn exhaustive_rate(&self) -> f64 {
        self.exhaustive.states() as f64 / self.exhaustive_seconds.max(1e-9)
    }
}

/// One history in so many has every crash state tried: about a quarter of the time goes there.
const EXHAUSTIVE_ONE_IN: u64 = 8;

/// The kind of the history with this number.
fn scale_of(number: u64) -> Scale {
    match number % EXHAUSTIVE_ONE_IN {
        0 => Scale::Exhaustive,
        _ => Scale::Swarm,
    }
}

struct Shared<'a> {
    subject: &'a dyn Subject,
    terms: Terms,
    begun: Instant,
    next: AtomicU64,
    stops: AtomicBool,
    hunt: Mutex<Hunt>,
}

impl Shared<'_> {
    fn hunt(&self) -> MutexGuard<'_, Hunt> {
        self.hunt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        let late = self.terms.time.is_some_and(|time| self.begun.elapsed() >= time);
        late || self.stops.load(Ordering::Relaxed)
    }

    /// The number of the history to run next. Once something is found, those that have begun go on to
    /// their end: one of them may have a smaller number.
    fn next(&self) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.terms.histories_max).then_some(number)
    }
}

/// Runs histories on every thread until it is over or a promise is broken. `watch` is called
/// about five times a second with the result so far.
pub fn hunt(subject: &dyn Subject, terms: Terms, mut watch: impl FnMut(&Hunt)) -> Hunt {
    let shared = Shared {
        subject,
        terms,
        begun: now(),
        next: AtomicU64::new(terms.first),
        stops: AtomicBool::new(false),
        hunt: Mutex::new(Hunt::default()),
    };
    thread::scope(|scope| {
        let mut threads: Vec<_> =
            (0..terms.threads).map(|_| scope.spawn(|| worker(&shared))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::park_timeout(Duration::from_millis(if shared.is_over() { 5 } else { 200 }));
            watch(&shared.hunt());
        }
        threads.drain(..).for_each(|thread| thread.join().expect("a worker catches panics"));
    });
    let mut hunt = shared.hunt.into_inner().unwrap_or_else(PoisonError::into_inner);
    hunt.seconds = shared.begun.elapsed().as_secs_f64();
    hunt
}

#[allow(clippy::disallowed_methods, reason = "a hunt is paced by the wall clock, not by a lane")]
fn now() -> Instant {
    Instant::now()
}

/// The processor time of this thread, in seconds: what others do on the machine does not count.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// One thread. A history that panicked ends it, because the thread's state may be odd; the hunt is
/// over then anyway.
fn worker(shared: &Shared<'_>) {
    while let Some(number) = shared.next() {
        let scale = scale_of(number);
        let seed = seed_of(shared.terms.base, number);
        let begun = cpu_seconds();
        let outcome = history(shared.subject, seed, scale, false);
        let seconds = cpu_seconds() - begun;
        let mut hunt = shared.hunt();
        hunt.traces = hunt.traces.wrapping_add(mix(seed, outcome.trace));
        match scale {
            Scale::Swarm => {
                hunt.swarm_seconds += seconds;
                hunt.swarm.add(&outcome.tally);
            }
            Scale::Exhaustive => {
                hunt.exhaustive_seconds += seconds;
                hunt.exhaustive.add(&outcome.tally);
            }
        }
        if let Some(failure) = outcome.failure {
            shared.stops.store(true, Ordering::Relaxed);
            if hunt.found_by.is_none_or(|found_by| number < found_by) {
                hunt.failure = Some(failure);
                hunt.found_by = Some(number);
            }
        }
        if outcome.panicked {
            return;
        }
    }
}
