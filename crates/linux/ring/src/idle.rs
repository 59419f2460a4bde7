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
    /// Time of the last sleep, on the lane's clock.
    slept_ns: Cell<Option<u64>>,
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
    /// Total polling time at the last request, the socket of that request, and the time of the
    /// answer before it.
    spent_ns: u64,
    socket: RawFd,
    answered_ns: Option<u64>,
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

    /// Records that the loop will now sleep.
    pub(crate) fn note_sleep(&self, lane: &Lane) {
        self.slept_ns.set(Some(lane.now()));
    }

    /// Records the arrival of data from this socket, and adapts the polling time if it is a new
    /// request.
    pub(crate) fn record_arrival(&self, lane: &Lane, socket: RawFd) {
        if self.polling.get() != Polling::Adaptive {
            return;
        }
        let mut adaptive = self.adaptive.borrow_mut();
        let answered_ns = lane.lockstep_since_ns();
        let is_same = std::mem::replace(&mut adaptive.socket, socket) == socket;
        let before_ns = std::mem::replace(&mut adaptive.answered_ns, answered_ns);
        if is_same && answered_ns.is_some() && answered_ns == before_ns {
            // The rest of the same request, such as the payload of a write.
            return;
        }
        let spent_ns = self.polled.spent_ns();
        let polled_ns = spent_ns - std::mem::replace(&mut adaptive.spent_ns, spent_ns);
        let has_slept = answered_ns.is_some() && self.slept_ns.get() >= answered_ns;
        let has_waited = has_slept || polled_ns > 0;
        let is_alone = is_same && has_waited && answered_ns.is_some();
        let now_ns = lane.now();
        let answered_ns = answered_ns.unwrap_or(now_ns);
        let arrival = Arrival { now_ns, answered_ns, polled_ns, has_slept, is_alone };
        if let Some(lanes_max) = adaptive.record_arrival(&arrival) {
            self.lanes_max.set(lanes_max);
        }
        self.limit_ns.set(adaptive.poll.limit_ns());
    }

    /// Lets a receiver check its socket directly while the loop polls. None: the loop does not
    /// poll, or the maximum is reached. Adaptive polling does not begin while a request is in
    /// flight: its answer takes longer than a poll.
    pub(crate) fn begin_direct<'a>(&'a self, lane: &'a Lane) -> Option<DirectReceiver<'a>> {
        let (limit_ns, direct_receivers) = (self.limit_ns.get(), self.direct_receivers.get());
        if limit_ns == 0 || self.is_over.get() || direct_receivers == DIRECT_RECEIVERS_MAX {
            return None;
        }
        if self.polling.get() == Polling::Adaptive {
            lane.lockstep_since_ns()?;
            if direct_receivers == 0 && !self.take_permit() {
                return None;
            }
        }
        self.direct_receivers.set(direct_receivers + 1);
        let end_ns = lane.now().saturating_add(limit_ns.max(DIRECT_MIN_NS));
        Some(DirectReceiver { idle: self, lane, end_ns })
    }

    /// Lets this lane poll, if a processor is free for it.
    fn take_permit(&self) -> bool {
        let mut permit = self.permit.borrow_mut();
        if permit.is_none() {
            *permit = POLLING_LANES.take(self.lanes_max.get());
        }
        permit.is_some()
    }

    /// Decides whether a loop with nothing to do polls, and until when. Adaptive polling is only
    /// for clients: it requires a receiver that checks its socket, or an answer that was sent while
    /// the receiver waited in the ring.
    pub(crate) fn next(&self, lane: &Lane) -> Next {
        let limit_ns = self.limit_ns.get();
        let is_fixed = matches!(self.polling.get(), Polling::Fixed(_)) && limit_ns > 0;
        if !is_fixed && !self.has_direct_receivers() {
            return self.next_after_answer(lane, limit_ns);
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

    /// Decides whether the loop polls for the request that follows an answer, while the receiver
    /// waits in the ring.
    fn next_after_answer(&self, lane: &Lane, limit_ns: u64) -> Next {
        let Some(answered_ns) = lane.lockstep_since_ns().filter(|_| limit_ns > 0) else {
            return Next::Sleep;
        };
        let start_ns = now_ns();
        let deadline_ns = lane.next_deadline().unwrap_or(u64::MAX);
        let end_ns = answered_ns.saturating_add(limit_ns).min(deadline_ns);
        if start_ns >= end_ns || !self.take_permit() {
            return Next::Sleep;
        }
        let had_news = self.news.take();
        self.spent_before_ns.set(self.polled.spent_ns());
        Next::Poll(Poll { start_ns, end_ns, deadline_ns, had_news })
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
        if !self.has_direct_receivers() {
            *self.permit.borrow_mut() = None;
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
        assert!(idle.begin_direct(&lane).is_none(), "a request is in flight");
        lane.set_lockstep(true);
        let receiver = idle.begin_direct(&lane).expect("it polls");
        assert!(matches!(idle.next(&lane), Next::Poll(_)));
        assert!(idle.permit.borrow().is_some());
        drop(receiver);
        assert!(idle.permit.borrow().is_none(), "another lane may poll");
        assert!(matches!(idle.next(&lane), Next::Sleep));
    }

    #[test]
    fn requests_in_pieces_and_late_answers_are_counted_as_one_wait_each() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Adaptive);
        let after = |ns: u64| lane.set_now(lane.now() + ns);
        let counted = || idle.adaptive.borrow().poll.counted();
        after(1_000_000);
        idle.record_arrival(&lane, 7);
        for number in 1..=20 {
            lane.set_lockstep(false);
            idle.note_sleep(&lane);
            after(500_000);
            lane.set_lockstep(true);
            assert!(matches!(idle.next(&lane), Next::Sleep), "no trial has begun");
            idle.note_sleep(&lane);
            after(40_000);
            idle.record_arrival(&lane, 7);
            idle.record_arrival(&lane, 7);
            assert_eq!(counted(), number, "the payload is no request");
        }
        lane.set_lockstep(false);
        after(40_000);
        idle.record_arrival(&lane, 7);
        assert_eq!(counted(), 0, "another request was in flight");
    }

    #[test]
    fn the_loop_polls_for_a_moment_after_an_answer_while_the_receiver_waits_in_the_ring() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Adaptive);
        idle.limit_ns.set(1_000_000_000);
        idle.lanes_max.set(1000);
        lane.set_now(now_ns());
        assert!(matches!(idle.next(&lane), Next::Sleep), "a request is in flight");
        lane.set_lockstep(true);
        let Next::Poll(period) = idle.next(&lane) else { panic!("it polls") };
        assert!(idle.permit.borrow().is_some());
        assert!(idle.poll(&period, || true));
        assert!(idle.permit.borrow().is_none(), "another lane may poll");
        idle.limit_ns.set(1);
        assert!(matches!(idle.next(&lane), Next::Sleep), "the answer was sent too long ago");
    }

    #[test]
    fn a_receiver_that_asks_goes_to_the_ring_before_the_loop_sleeps() {
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
        let Next::Poll(period) = idle.next(&lane) else { panic!("it polls") };
        assert!(idle.poll(&period, || true));
        assert_eq!(idle.polled.vain_ns(), 0);
        let Next::Poll(period) = idle.next(&lane) else { panic!("there was news") };
        let before = idle.polled.spent_ns();
        assert!(!idle.poll(&period, || false));
        let vain = idle.polled.spent_ns() - before;
        assert!(vain > 0);
        assert_eq!(idle.polled.vain_ns(), vain);
    }
}
