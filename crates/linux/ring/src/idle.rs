//! Idle lanes: a lane sleeps in the kernel, or it polls (checks for work without sleeping) for a
//! fixed time, or as long as recent polls had a benefit.
//!
//! Sleeping and waking adds several microseconds to each answer, most with virtual processors;
//! polling uses a whole processor. With one request at a time over a unix socket, a wait on the
//! ring has a few percent fewer round trips per second than a blocking receive on the bare socket
//! (`cargo xtask bench poll --parts wait`). The cause is in the kernel: nearly all of a round trip
//! is its two wake-ups. In a unix socket, threads that wait for room to send and threads that wait
//! for data share one wait queue. So a blocked receiver is already woken when the client reads the
//! previous answer, while the client prepares its next request. A sleeper of the ring or of poll(2)
//! is woken only by the request. Waiting with poll(2), receives that poll first, registered rings
//! and waits without a deadline make no measurable difference.
//!
//! While a loop polls, its receivers check their sockets directly, once per round. Through the
//! ring, each request would need three calls: to submit the receive, which finds no data and joins
//! the socket's list; to let the kernel finish it when data has arrived; and to start the next one.

use crate::contention::Contention;
use crate::halt_poll::{Arrival, HaltPoll};
use crate::polling::{Polled, Polling};
use crate::spare::{POLLING_LANES, Permit, polling_lanes_max};
use host::now_ns;
use lane::{Event, Lane};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Number of checks for news between two readings of the clock, which are slower.
const CHECKS_PER_READING: u32 = 16;

/// Maximum number of sockets that are checked directly. Each takes a system call per round, whether
/// data has arrived or not.
const DIRECT_RECEIVERS_MAX: usize = 4;
/// Minimum time for which a receiver checks directly, however short the poll is, in nanoseconds:
/// the poll itself begins only when all other work is done.
const DIRECT_MIN_NS: u64 = 1_000_000;

/// Idle state of a ring.
#[derive(Default)]
pub(crate) struct Idle {
    polling: Cell<Polling>,
    /// Time to poll before sleeping; 0: do not poll.
    limit_ns: Cell<u64>,
    adaptive: RefCell<Adaptive>,
    /// Whether something has arrived from outside since the last check. A timer does not count, and
    /// does not prolong polling: the server's own timers fire several times per second.
    news: Cell<bool>,
    /// Time at which that was detected.
    news_ns: Cell<u64>,
    polled: Arc<Polled>,
    /// Total polling time when the last news was detected.
    spent_before_ns: Cell<u64>,
    /// Number of sleeps.
    sleeps: Cell<u64>,
    /// Number of receivers that check their sockets directly while the loop polls.
    direct_receivers: Cell<usize>,
    /// Their permit to poll, if polling is adaptive.
    permit: RefCell<Option<Permit<'static>>>,
    /// Maximum number of polling lanes, determined when a trial began.
    lanes_max: Cell<usize>,
    /// Starts the next round of checks.
    round: Event,
    /// Time of the last round.
    round_ns: Cell<u64>,
    /// Whether the polling time has passed: the receivers then submit to the ring.
    is_over: Cell<bool>,
}

/// State of adaptive polling.
#[derive(Default)]
struct Adaptive {
    poll: HaltPoll,
    /// None if polling is not adaptive.
    contention: Option<Contention>,
    /// Total polling time at the last request, and the socket of that request.
    spent_ns: u64,
    socket: RawFd,
}

/// The next action of a loop that has nothing to do.
pub(crate) enum Next {
    /// Sleep.
    Sleep,
    /// Continue: a deadline has passed, or receivers must submit to the ring.
    Continue,
    /// Poll.
    Poll(Poll),
}

/// A period of polling.
pub(crate) struct Poll {
    start_ns: u64,
    end_ns: u64,
    /// Time at which the lane has something to do in any case.
    deadline_ns: u64,
    had_news: bool,
}

/// A receiver that checks its socket directly.
pub(crate) struct DirectReceiver<'a> {
    idle: &'a Idle,
    lane: &'a Lane,
    /// Time at which it submits to the ring in any case: other tasks may be busy without end.
    end_ns: u64,
}

impl DirectReceiver<'_> {
    /// Waits for the next round. Returns false if there is none.
    pub(crate) async fn next(&self) -> bool {
        let seen = self.idle.round.seen();
        if self.idle.is_over.get() || self.lane.now() >= self.end_ns {
            return false;
        }
        self.idle.round.after(seen).await;
        true
    }

    /// Records the arrival of data. The time since the previous round counts as polling too.
    pub(crate) fn record_arrival(&self) {
        self.idle.spend_until(self.lane.now());
        self.idle.note_news();
    }
}

impl Drop for DirectReceiver<'_> {
    fn drop(&mut self) {
        let direct_receivers = &self.idle.direct_receivers;
        direct_receivers.set(direct_receivers.get() - 1);
        if direct_receivers.get() == 0 {
            // While this lane works or sleeps, another may poll.
            *self.idle.permit.borrow_mut() = None;
        }
    }
}

impl Adaptive {
    fn is_contended(&mut self, now_ns: u64) -> bool {
        self.contention.as_mut().is_none_or(|contention| !contention.is_calm(now_ns))
    }

    /// Records an arrival. Returns the number of lanes of the process that may poll, if a trial
    /// begins.
    fn record_arrival(&mut self, arrival: &Arrival) -> Option<usize> {
        if !self.poll.record_arrival(arrival) {
            if self.poll.limit_ns() > 0 && self.is_contended(arrival.now_ns) {
                self.poll.fail();
            }
            return None;
        }
        if self.is_contended(arrival.now_ns) {
            return None;
        }
        let lanes_max = polling_lanes_max();
        if lanes_max > 0 {
            self.poll.begin();
        }
        Some(lanes_max)
    }
}

impl Idle {
    pub(crate) fn set_polling(&self, polling: Polling) {
        self.polling.set(polling);
        let is_adaptive = polling == Polling::Adaptive;
        let contention = is_adaptive.then(Contention::open);
        *self.adaptive.borrow_mut() = Adaptive { contention, ..Adaptive::default() };
        self.limit_ns.set(match polling {
            Polling::Off | Polling::Adaptive => 0,
            Polling::Fixed(time) => time.as_nanos().try_into().unwrap_or(u64::MAX),
        });
    }

    pub(crate) fn polled(&self) -> &Arc<Polled> {
        &self.polled
    }

    /// Returns the number of sleeps of the loop.
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps.get()
    }

    /// Records that the loop will now sleep.
    pub(crate) fn note_sleep(&self) {
        self.sleeps.set(self.sleeps.get() + 1);
    }

    /// Records the arrival of a request from this socket, and adapts the polling time. `sleeps` is
    /// the value of [`Idle::sleeps`] when the wait for the request began.
    pub(crate) fn record_arrival(&self, lane: &Lane, socket: RawFd, sleeps: u64) {
        if self.polling.get() != Polling::Adaptive {
            return;
        }
        let mut adaptive = self.adaptive.borrow_mut();
        let spent_ns = self.polled.spent_ns();
        let polled_ns = spent_ns - std::mem::replace(&mut adaptive.spent_ns, spent_ns);
        let is_same = std::mem::replace(&mut adaptive.socket, socket) == socket;
        let has_slept = self.sleeps.get() != sleeps;
        let has_waited = has_slept || polled_ns > 0;
        let is_alone = is_same && has_waited && lane.is_lockstep();
        let arrival = Arrival { now_ns: lane.now(), polled_ns, has_slept, is_alone };
        if let Some(lanes_max) = adaptive.record_arrival(&arrival) {
            self.lanes_max.set(lanes_max);
        }
        self.limit_ns.set(adaptive.poll.limit_ns());
    }

    /// Lets a receiver check its socket directly while the loop polls. None: the loop does not
    /// poll, or the maximum is reached.
    pub(crate) fn begin_direct<'a>(&'a self, lane: &'a Lane) -> Option<DirectReceiver<'a>> {
        let (limit_ns, direct_receivers) = (self.limit_ns.get(), self.direct_receivers.get());
        if limit_ns == 0 || self.is_over.get() || direct_receivers == DIRECT_RECEIVERS_MAX {
            return None;
        }
        if direct_receivers == 0 && self.polling.get() == Polling::Adaptive {
            *self.permit.borrow_mut() = Some(POLLING_LANES.take(self.lanes_max.get())?);
        }
        self.direct_receivers.set(direct_receivers + 1);
        let end_ns = lane.now().saturating_add(limit_ns.max(DIRECT_MIN_NS));
        Some(DirectReceiver { idle: self, lane, end_ns })
    }

    /// Decides whether a loop with nothing to do polls, and until when. Adaptive polling requires a
    /// receiver that checks its socket, because it is only for clients' requests.
    pub(crate) fn next(&self, lane: &Lane) -> Next {
        let limit_ns = self.limit_ns.get();
        let is_fixed = matches!(self.polling.get(), Polling::Fixed(_)) && limit_ns > 0;
        if !is_fixed && !self.has_direct_receivers() {
            return Next::Sleep;
        }
        let start_ns = now_ns();
        let had_news = self.news.take();
        if had_news {
            self.news_ns.set(start_ns);
            self.spent_before_ns.set(self.polled.spent_ns());
        }
        let deadline_ns = lane.next_deadline().unwrap_or(u64::MAX);
        let end_ns = self.news_ns.get().saturating_add(limit_ns).min(deadline_ns);
        if start_ns < end_ns {
            return Next::Poll(Poll { start_ns, end_ns, deadline_ns, had_news });
        }
        if start_ns >= deadline_ns || self.end(start_ns) { Next::Continue } else { Next::Sleep }
    }

    /// Checks `has_news` repeatedly until something has arrived or the time is over. Returns true
    /// if there is something to do.
    pub(crate) fn poll(&self, period: &Poll, has_news: impl Fn() -> bool) -> bool {
        let mut now = period.start_ns;
        let found = loop {
            if (0..CHECKS_PER_READING).any(|_| {
                std::hint::spin_loop();
                has_news()
            }) {
                self.note_news();
                break true;
            }
            now = now_ns();
            if now >= period.end_ns {
                break now >= period.deadline_ns;
            }
        };
        self.polled.spend(now - period.start_ns);
        self.round_ns.set(now);
        if !found {
            self.end(now);
        }
        found
    }

    /// Whether receivers check their sockets directly.
    pub(crate) fn has_direct_receivers(&self) -> bool {
        self.direct_receivers.get() > 0
    }

    /// Records that something has arrived from outside: a completion, or a wake-up from another
    /// thread.
    #[inline]
    pub(crate) fn note_news(&self) {
        self.news.set(true);
        self.is_over.set(false);
    }

    /// Ends polling. Returns whether receivers that check their sockets must now submit to the
    /// ring.
    fn end(&self, now_ns: u64) -> bool {
        if self.has_direct_receivers() {
            self.spend_until(now_ns);
        }
        let spent_ns = self.polled.spent_ns();
        self.polled.waste(spent_ns - self.spent_before_ns.replace(spent_ns));
        self.is_over.set(true);
        self.round.notify();
        self.has_direct_receivers()
    }

    /// Lets the receivers check their sockets once more. The time since the last round counts as
    /// polling, if nothing has arrived.
    pub(crate) fn begin_round(&self, period: &Poll) {
        if !period.had_news {
            self.spend_until(period.start_ns);
        }
        self.round_ns.set(period.start_ns);
        self.round.notify();
    }

    /// Counts the time since the last round as polling.
    fn spend_until(&self, now_ns: u64) {
        let since_ns = self.round_ns.get().max(self.news_ns.get());
        self.polled.spend(now_ns.saturating_sub(since_ns));
        self.round_ns.set(now_ns.max(since_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn adaptive_polling_requires_a_direct_receiver() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Adaptive);
        assert!(idle.begin_direct(&lane).is_none(), "nothing is known yet");
        idle.limit_ns.set(1_000_000_000);
        assert!(idle.begin_direct(&lane).is_none(), "no lane may poll");
        // Rings of other tests may poll at the same time.
        idle.lanes_max.set(1000);
        idle.note_news();
        assert!(matches!(idle.next(&lane), Next::Sleep));
        let receiver = idle.begin_direct(&lane).expect("it polls");
        assert!(matches!(idle.next(&lane), Next::Poll(_)));
        assert!(idle.permit.borrow().is_some());
        drop(receiver);
        assert!(idle.permit.borrow().is_none(), "another lane may poll");
        assert!(matches!(idle.next(&lane), Next::Sleep));
    }

    #[test]
    fn a_direct_receiver_submits_to_the_ring_before_the_loop_sleeps() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Fixed(Duration::from_secs(1)));
        let receiver = idle.begin_direct(&lane).expect("it polls");
        idle.limit_ns.set(0);
        assert!(matches!(idle.next(&lane), Next::Continue), "its socket is on no list yet");
        assert!(idle.is_over.get());
        drop(receiver);
        assert!(matches!(idle.next(&lane), Next::Sleep));
    }

    #[test]
    fn polling_without_news_counts_as_vain() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Fixed(Duration::from_millis(1)));
        idle.note_news();
        let Next::Poll(look) = idle.next(&lane) else { panic!("it polls") };
        assert!(idle.poll(&look, || true));
        assert_eq!(idle.polled.vain_ns(), 0);
        let Next::Poll(look) = idle.next(&lane) else { panic!("there was news") };
        let before = idle.polled.spent_ns();
        assert!(!idle.poll(&look, || false));
        let vain = idle.polled.spent_ns() - before;
        assert!(vain > 0);
        assert_eq!(idle.polled.vain_ns(), vain);
    }
}
