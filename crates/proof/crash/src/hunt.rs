//! Hunts: threads that run histories until their time is up, or their number is reached, or a
//! promise is broken.
//!
//! The histories of a hunt, and the order in which they begin, follow from its base alone: the
//! speed of the machine decides how far it gets, not which failure it finds first.

use crate::drive::{Failure, history, seed_of};
use crate::setup::Scale;
use crate::stamp::mix;
use crate::subject::Subject;
use crate::tally::Tally;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Duration, number of threads, and start of a hunt.
#[derive(Clone, Copy, Debug)]
pub struct HuntOptions {
    /// Time limit; without one, only `histories_max` ends the hunt.
    pub time: Option<Duration>,
    /// The number of the history to begin with.
    pub first: u64,
    /// Maximum number of histories, including those before the first.
    pub histories_max: u64,
    /// Threads.
    pub threads: u32,
    /// The seed from which all seeds follow.
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
    /// Duration, in seconds.
    pub seconds: f64,
    /// The sum of the traces of all histories, each with its seed: equal for equal work,
    /// independent of the number of threads.
    pub traces: u64,
    /// The failure; if several histories have one, that of the history that began first.
    pub failure: Option<Failure>,
    /// The number of that history.
    #[serde(skip)]
    pub found_by: Option<u64>,
}

impl Hunt {
    /// Returns the distinct states of swarms per second of processor time.
    pub fn swarm_rate(&self) -> f64 {
        self.swarm.states() as f64 / self.swarm_seconds.max(1e-9)
    }

    /// Returns the distinct states of exhaustive histories per second of processor time.
    pub fn exhaustive_rate(&self) -> f64 {
        self.exhaustive.states() as f64 / self.exhaustive_seconds.max(1e-9)
    }
}

/// One of this many histories has every crash state tested, which takes about a quarter of the
/// time.
const EXHAUSTIVE_ONE_IN: u64 = 8;

/// Returns the kind of the history with this number.
fn scale_of(number: u64) -> Scale {
    match number % EXHAUSTIVE_ONE_IN {
        0 => Scale::Exhaustive,
        _ => Scale::Swarm,
    }
}

struct Shared<'a> {
    subject: &'a dyn Subject,
    options: HuntOptions,
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
        let late = self.options.time.is_some_and(|time| self.begun.elapsed() >= time);
        late || self.stops.load(Ordering::Relaxed)
    }

    /// Returns the number of the history to run next. After a failure, histories that have begun
    /// run to their end: one of them may have a smaller number.
    fn next(&self) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.options.histories_max).then_some(number)
    }
}

/// Runs histories on every thread until the hunt is over or a promise is broken. `watch` is called
/// about five times per second with the present result.
pub fn hunt(subject: &dyn Subject, options: HuntOptions, mut watch: impl FnMut(&Hunt)) -> Hunt {
    let shared = Shared {
        subject,
        options,
        begun: now(),
        next: AtomicU64::new(options.first),
        stops: AtomicBool::new(false),
        hunt: Mutex::new(Hunt::default()),
    };
    thread::scope(|scope| {
        let mut threads: Vec<_> =
            (0..options.threads).map(|_| scope.spawn(|| worker(&shared))).collect();
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

/// Returns the processor time of this thread, in seconds, which excludes other load on the machine.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs one thread. A history that panics ends it, because the thread's state is unreliable; the
/// hunt is then over anyway.
fn worker(shared: &Shared<'_>) {
    while let Some(number) = shared.next() {
        let scale = scale_of(number);
        let seed = seed_of(shared.options.base, number);
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
