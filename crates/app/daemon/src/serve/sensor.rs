//! Makes a volume's guard decide while the volume has clients.
//!
//! The guard judges about every 50 ms. Each lane has a task for that, and the first lane to check
//! does it for all. Their timers are deferrable: while no lane has work there is nothing to judge,
//! and a daemon with an idle client sleeps.

use super::captive::either;
use super::clients::Clients;
use super::pressure::{Senses, Threads};
use cache::{BypassState, GuardStatus, Shared};
use lane::{Event, Lane};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Time between two checks, in nanoseconds.
const WINDOW_NS: u64 = 50_000_000;
/// Time between two messages, in nanoseconds.
const TELL_NS: u64 = 1_000_000_000;

/// The reported state of the guard: at most one message per second.
#[derive(Default)]
struct ReportState {
    bits: (bool, bool),
    at_ns: Option<u64>,
}

fn bits(bypass: &BypassState) -> (bool, bool) {
    (bypass.reads.is_some(), bypass.writes.is_some())
}

impl ReportState {
    fn message(&mut self, guard_status: &GuardStatus, now_ns: u64) -> Option<String> {
        let bypass = &guard_status.bypass;
        let soon = self.at_ns.is_some_and(|at| now_ns < at + TELL_NS);
        if soon || bits(bypass) == self.bits {
            return None;
        }
        (self.bits, self.at_ns) = (bits(bypass), Some(now_ns));
        let reads = bypass.reads.map(|why| format!("reads are not cached ({why})"));
        let writes = bypass.writes.map(|why| format!("writes are written through ({why})"));
        let parts: Vec<String> = reads.into_iter().chain(writes).collect();
        Some(match parts.is_empty() {
            true => format!(
                "bypass has ended; it was on {} times, for {:.1} s in all",
                guard_status.times,
                guard_status.bypass_ns as f64 / 1e9
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
    /// When the guard has judged last.
    judged_ns: AtomicU64,
    sensed: Mutex<(Senses, ReportState)>,
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
            sensed: Mutex::new((Senses::of(threads), ReportState::default())),
            has_ended: AtomicBool::new(false),
            ended: Event::new(),
        }
    }

    /// Ends its tasks.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.ended.notify();
    }

    /// Whether this lane is to judge now: one lane does in each window.
    fn is_ours(&self, now_ns: u64) -> bool {
        let judged_ns = self.judged_ns.load(Ordering::SeqCst);
        let (all, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        now_ns >= judged_ns.saturating_add(WINDOW_NS)
            && self.judged_ns.compare_exchange(judged_ns, now_ns, all, failed).is_ok()
    }

    fn judge(&self, now_ns: u64) {
        let mut sensed = self.sensed.lock().unwrap_or_else(PoisonError::into_inner);
        let (senses, reported) = &mut *sensed;
        self.shared.guard(now_ns, senses.look(now_ns));
        if let Some(news) = reported.message(&self.shared.guard_status(now_ns), now_ns)
            && !self.quiet
        {
            crate::tell!("overdrive: {}: {news}", self.name);
        }
    }

    /// Starts judging after a time without clients, which the guard ignores.
    fn begin(&self, now_ns: u64) {
        if self.is_ours(now_ns) {
            self.sensed.lock().unwrap_or_else(PoisonError::into_inner).0.look(now_ns);
        }
    }

    async fn sense(&self, lane: &Lane) {
        loop {
            let (changed, ended) = (self.clients.changed.seen(), self.ended.seen());
            if self.has_ended.load(Ordering::SeqCst) {
                return;
            }
            let guard_status = self.shared.guard_status(lane.now());
            if self.clients.count() == 0 && bits(&guard_status.bypass) == (false, false) {
                either(self.clients.changed.after(changed), self.ended.after(ended)).await;
                self.begin(lane.now());
                continue;
            }
            let next = lane.sleep_deferrable_until(lane.now() + WINDOW_NS);
            either(self.ended.after(ended), next).await;
            if self.is_ours(lane.now()) {
                self.judge(lane.now());
            }
        }
    }
}

/// Starts this lane's part of a volume's sensor. It ends with [`Sensor::end`].
pub(crate) fn start(lane: &Lane, sensor: &Arc<Sensor>) {
    let (own, sensor) = (lane.clone(), sensor.clone());
    let sensing = async move { sensor.sense(&own).await };
    lane.spawn(sensing).expect("a fresh lane has room");
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::Why;

    #[test]
    fn at_most_one_message_a_second_and_the_last_state_is_reported() {
        let mut reported = ReportState::default();
        let busy =
            BypassState { writes: Some(Why::Busy { waited: 430 }), ..BypassState::default() };
        let out = GuardStatus { on: true, bypass: busy, times: 1, bypass_ns: 0 };
        let back = GuardStatus { bypass: BypassState::default(), bypass_ns: 500_000_000, ..out };
        assert_eq!(reported.message(&back, 0), None);
        let news = reported.message(&out, 1).expect("bypass has begun");
        assert!(
            news.contains("writes are written through (processors busy: waited 43 %"),
            "{news}"
        );
        assert_eq!(reported.message(&back, 2), None, "too soon");
        assert_eq!(reported.message(&out, 3), None);
        let news = reported.message(&back, TELL_NS + 1).expect("late, but told");
        assert!(news.contains("bypass has ended") && news.contains("0.5 s"), "{news}");
    }
}
