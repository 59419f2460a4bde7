//! Runs a volume's guard while the volume has clients, or bypasses its cache.
//!
//! The guard decides about every 50 ms. Each lane has a task for this, and the first task that
//! checks runs the guard for all lanes. Their timers are deferrable: while no lane has work, there
//! is nothing to decide, and a daemon with an idle client sleeps.

use super::captive::either;
use super::clients::Clients;
use super::pressure::{PressureMeter, Threads};
use cache::{BypassState, GuardState, Shared};
use lane::{Event, Lane};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Time between two checks, in nanoseconds.
const WINDOW_NS: u64 = 50_000_000;
/// Time between two messages, in nanoseconds.
const MESSAGE_PERIOD_NS: u64 = 1_000_000_000;

/// The state of the guard that was reported last; there is at most one message per second.
#[derive(Default)]
struct ReportState {
    is_bypassing: (bool, bool),
    reported_ns: Option<u64>,
}

fn is_bypassing(bypass: &BypassState) -> (bool, bool) {
    (bypass.reads.is_some(), bypass.writes.is_some())
}

impl ReportState {
    fn message(&mut self, state: &GuardState, now_ns: u64) -> Option<String> {
        let bypass = &state.bypass;
        let soon = self.reported_ns.is_some_and(|at| now_ns < at + MESSAGE_PERIOD_NS);
        if soon || is_bypassing(bypass) == self.is_bypassing {
            return None;
        }
        (self.is_bypassing, self.reported_ns) = (is_bypassing(bypass), Some(now_ns));
        let reads = bypass.reads.map(|why| format!("reads are not cached ({why})"));
        let writes = bypass.writes.map(|why| format!("writes are written through ({why})"));
        let parts: Vec<String> = reads.into_iter().chain(writes).collect();
        Some(match parts.is_empty() {
            true => format!(
                "bypass has ended; it was on {} times, for {:.1} s in all",
                state.times,
                state.bypass_ns as f64 / 1e9
            ),
            false => format!("requests bypass the cache: {}", parts.join("; ")),
        })
    }
}

/// A volume's sensor, shared by the lanes.
pub(crate) struct Sensor {
    name: String,
    quiet: bool,
    shared: Arc<Shared>,
    clients: Arc<Clients>,
    /// Time of the guard's last decision.
    judged_ns: AtomicU64,
    state: Mutex<(PressureMeter, ReportState)>,
    has_ended: AtomicBool,
    ended: Event,
}

impl Sensor {
    /// Creates the sensor of a cache with these clients, served by these threads. `quiet`: it
    /// prints nothing.
    pub(crate) fn new(
        name: &str,
        shared: &Arc<Shared>,
        clients: &Arc<Clients>,
        threads: &Threads,
        quiet: bool,
    ) -> Sensor {
        Sensor {
            name: name.to_owned(),
            quiet,
            shared: shared.clone(),
            clients: clients.clone(),
            judged_ns: AtomicU64::new(0),
            state: Mutex::new((PressureMeter::of(threads), ReportState::default())),
            has_ended: AtomicBool::new(false),
            ended: Event::new(),
        }
    }

    /// Ends its tasks.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.ended.notify();
    }

    /// Claims the next decision for this lane. False: it is not due, or another lane has it.
    fn claim_window(&self, now_ns: u64) -> bool {
        let judged_ns = self.judged_ns.load(Ordering::SeqCst);
        let (all, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        now_ns >= judged_ns.saturating_add(WINDOW_NS)
            && self.judged_ns.compare_exchange(judged_ns, now_ns, all, failed).is_ok()
    }

    fn judge(&self, now_ns: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (meter, reported) = &mut *state;
        self.shared.guard(now_ns, meter.measure(now_ns));
        if let Some(news) = reported.message(&self.shared.guard_state(now_ns), now_ns)
            && !self.quiet
        {
            crate::tell!(volume = self.name, "overdrive: {}: {news}", self.name);
        }
    }

    /// Drops the measurements of a time without clients, so that the guard ignores that time.
    fn begin(&self, now_ns: u64) {
        if self.claim_window(now_ns) {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).0.measure(now_ns);
        }
    }

    async fn run(&self, lane: &Lane) {
        loop {
            let (changed, ended) = (self.clients.changed.seen(), self.ended.seen());
            if self.has_ended.load(Ordering::SeqCst) {
                return;
            }
            let state = self.shared.guard_state(lane.now());
            if self.clients.count() == 0 && is_bypassing(&state.bypass) == (false, false) {
                either(self.clients.changed.after(changed), self.ended.after(ended)).await;
                self.begin(lane.now());
                continue;
            }
            let next = lane.sleep_deferrable_until(lane.now() + WINDOW_NS);
            either(self.ended.after(ended), next).await;
            if self.claim_window(lane.now()) {
                self.judge(lane.now());
            }
        }
    }
}

/// Starts this lane's part of a volume's sensor. It ends with [`Sensor::end`].
pub(crate) fn start(lane: &Lane, sensor: &Arc<Sensor>) {
    let (own, sensor) = (lane.clone(), sensor.clone());
    let sensing = async move { sensor.run(&own).await };
    lane.spawn(sensing).expect("a fresh lane has room");
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::Why;

    #[test]
    fn at_most_one_message_per_second_and_the_last_state_is_reported() {
        let mut reported = ReportState::default();
        let busy =
            BypassState { writes: Some(Why::Busy { waited: 430 }), ..BypassState::default() };
        let out = GuardState { on: true, bypass: busy, times: 1, bypass_ns: 0 };
        let back = GuardState { bypass: BypassState::default(), bypass_ns: 500_000_000, ..out };
        assert_eq!(reported.message(&back, 0), None);
        let news = reported.message(&out, 1).expect("bypass has begun");
        assert!(
            news.contains(
                "writes are written through (processors are busy: tasks waited for them 43 %"
            ),
            "{news}"
        );
        assert_eq!(reported.message(&back, 2), None, "too soon");
        assert_eq!(reported.message(&out, 3), None);
        let news = reported.message(&back, MESSAGE_PERIOD_NS + 1).expect("late, but reported");
        assert!(news.contains("bypass has ended") && news.contains("0.5 s"), "{news}");
    }
}
