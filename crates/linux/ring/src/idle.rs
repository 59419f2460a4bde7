//! What a lane does with a wait: it sleeps in the kernel, or it polls, that is, looks for work without
//! sleeping, for a fixed time or as long as that has paid lately.
//!
//! Sleeping and being woken costs several microseconds of every answer, most where processors are
//! virtual; polling costs a processor. One at a time over a unix socket a wait on the ring makes some percent
//! fewer round trips than a receive that blocks on the bare socket (`cargo xtask bench poll --parts wait`).
//! That is no work of ours: nearly all of a round trip is its two wake-ups. A blocked receiver is woken by
//! mistake as soon as the client reads the answer before, since room to send and bytes to receive share a list
//! of sleepers, and so wakes up while the client prepares its next request; what the ring and poll(2) put on
//! that list is woken by the request only. Waiting by poll(2), receives that poll first, registered rings and no
//! deadline were tried, and make no difference that can be told.
//!
//! A loop that polls has its receivers ask their sockets themselves, once a round. By way of the
//! ring, what comes takes three calls: to hand in the receive, which finds nothing and is put on the
//! socket's list, to let the kernel finish it once it has come, and the next one's beginning.

use crate::contention::Contention;
use crate::halt_poll::{Arrival, HaltPoll};
use crate::polling::{Polled, Polling};
use crate::spare::{Permit, SPARE, most_here};
use host::now_ns;
use lane::{Event, Lane};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Looks for news between two looks at the clock, which cost more.
const LOOKS: u32 = 16;

/// Sockets that are asked directly at most. Each takes a call to the kernel a round, whether
/// anything has come or not.
const ASKERS_MAX: usize = 4;
/// So long a receiver may ask at least, however short a poll is to be, in nanoseconds: the poll itself begins
/// only when everything else is done.
const ASKING_MIN_NS: u64 = 1_000_000;

/// How a ring waits.
#[derive(Default)]
pub(crate) struct Idle {
    polling: Cell<Polling>,
    /// How long it polls before it sleeps; 0: not at all.
    limit_ns: Cell<u64>,
    adaptive: RefCell<Adaptive>,
    /// Something has come from outside since the last look. A timer is no such thing, and no reason
    /// to poll any longer: a server's own go off several times a second as long as it lives.
    news: Cell<bool>,
    /// When that was seen.
    news_ns: Cell<u64>,
    polled: Arc<Polled>,
    /// What had been spent when news came last.
    spent_before_ns: Cell<u64>,
    /// Times that it has slept.
    sleeps: Cell<u64>,
    /// Receivers that ask their sockets themselves while the loop polls.
    askers: Cell<usize>,
    /// What they poll by, where polling is adaptive.
    permit: RefCell<Option<Permit<'static>>>,
    /// How many lanes may poll, as it was found when a trial began.
    lanes_max: Cell<usize>,
    /// They may ask once more.
    round: Event,
    /// When that was allowed last.
    round_ns: Cell<u64>,
    /// The time of polling has passed: they hand their sockets to the ring.
    over: Cell<bool>,
}

/// What adaptive polling knows.
#[derive(Default)]
struct Adaptive {
    poll: HaltPoll,
    /// None where polling is not adaptive.
    contention: Option<Contention>,
    /// What had been spent when the last request came, and the socket it came from.
    spent_ns: u64,
    socket: RawFd,
}

/// What a loop does that has nothing to do.
pub(crate) enum Next {
    /// It sleeps.
    Sleep,
    /// It goes on: a deadline has come, or receivers are to hand their sockets to the ring.
    GoOn,
    /// It polls.
    Look(Look),
}

/// A time of polling.
pub(crate) struct Look {
    start_ns: u64,
    end_ns: u64,
    /// When the lane has something to do in any case.
    deadline_ns: u64,
    had_news: bool,
}

/// A receiver that asks its socket itself.
pub(crate) struct Asker<'a> {
    idle: &'a Idle,
    lane: &'a Lane,
    /// When it goes to the ring in any case: others may be busy without end.
    end_ns: u64,
}

impl Asker<'_> {
    /// Waits for the next round. False: there will be none.
    pub(crate) async fn next(&self) -> bool {
        let seen = self.idle.round.seen();
        if self.idle.over.get() || self.lane.now() >= self.end_ns {
            return false;
        }
        self.idle.round.after(seen).await;
        true
    }

    /// Something had come. The time since the round before was spent in polling, too.
    pub(crate) fn found(&self) {
        self.idle.spend_until(self.lane.now());
        self.idle.note_news();
    }
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        let askers = &self.idle.askers;
        askers.set(askers.get() - 1);
        if askers.get() == 0 {
            // While this lane works or sleeps, another may poll.
            *self.idle.permit.borrow_mut() = None;
        }
    }
}

impl Adaptive {
    fn is_contended(&mut self, now_ns: u64) -> bool {
        self.contention.as_mut().is_none_or(|contention| !contention.is_calm(now_ns))
    }

    /// How many lanes of the process may poll, if a trial begins.
    fn arrived(&mut self, arrival: &Arrival) -> Option<usize> {
        if !self.poll.arrived(arrival) {
            if self.poll.limit_ns() > 0 && self.is_contended(arrival.now_ns) {
                self.poll.fail();
            }
            return None;
        }
        if self.is_contended(arrival.now_ns) {
            return None;
        }
        let lanes_max = most_here();
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

    /// Times that the loop has slept.
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps.get()
    }

    /// The loop will now sleep.
    pub(crate) fn note_sleep(&self) {
        self.sleeps.set(self.sleeps.get() + 1);
    }

    /// A request has come from this socket; `sleeps` is what [`Idle::sleeps`] was when it began to be waited
    /// for. What is learnt from it is how long to poll next time.
    pub(crate) fn arrived(&self, lane: &Lane, socket: RawFd, sleeps: u64) {
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
        if let Some(lanes_max) = adaptive.arrived(&arrival) {
            self.lanes_max.set(lanes_max);
        }
        self.limit_ns.set(adaptive.poll.limit_ns());
    }

    /// Lets a receiver ask its socket itself, while the loop polls. None: it does not, or
    /// enough do so already.
    pub(crate) fn ask<'a>(&'a self, lane: &'a Lane) -> Option<Asker<'a>> {
        let (limit_ns, askers) = (self.limit_ns.get(), self.askers.get());
        if limit_ns == 0 || self.over.get() || askers == ASKERS_MAX {
            return None;
        }
        if askers == 0 && self.polling.get() == Polling::Adaptive {
            *self.permit.borrow_mut() = Some(SPARE.take(self.lanes_max.get())?);
        }
        self.askers.set(askers + 1);
        let end_ns = lane.now().saturating_add(limit_ns.max(ASKING_MIN_NS));
        Some(Asker { idle: self, lane, end_ns })
    }

    /// Whether a loop with nothing to do polls, and until when. Adaptive polling is for clients only: it needs
    /// a receiver that asks.
    pub(crate) fn next(&self, lane: &Lane) -> Next {
        let limit_ns = self.limit_ns.get();
        let is_fixed = matches!(self.polling.get(), Polling::Fixed(_)) && limit_ns > 0;
        if !is_fixed && !self.has_askers() {
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
            return Next::Look(Look { start_ns, end_ns, deadline_ns, had_news });
        }
        if start_ns >= deadline_ns || self.end(start_ns) { Next::GoOn } else { Next::Sleep }
    }

    /// Looks, as `has_news` does, until something has come or the time is over. True: there is something
    /// to do.
    pub(crate) fn look(&self, look: &Look, has_news: impl Fn() -> bool) -> bool {
        let mut now = look.start_ns;
        let found = loop {
            if (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                has_news()
            }) {
                self.note_news();
                break true;
            }
            now = now_ns();
            if now >= look.end_ns {
                break now >= look.deadline_ns;
            }
        };
        self.polled.spend(now - look.start_ns);
        self.round_ns.set(now);
        if !found {
            self.end(now);
        }
        found
    }

    /// Whether receivers ask their sockets themselves.
    pub(crate) fn has_askers(&self) -> bool {
        self.askers.get() > 0
    }

    /// Something has come from outside: a completion, a wake from another thread.
    #[inline]
    pub(crate) fn note_news(&self) {
        self.news.set(true);
        self.over.set(false);
    }

    /// Polling is over. Whether receivers that ask their sockets have something to do about that.
    fn end(&self, now_ns: u64) -> bool {
        if self.has_askers() {
            self.spend_until(now_ns);
        }
        let spent_ns = self.polled.spent_ns();
        self.polled.waste(spent_ns - self.spent_before_ns.replace(spent_ns));
        self.over.set(true);
        self.round.notify();
        self.has_askers()
    }

    /// The receivers that ask their sockets do so once more. The time since the last round was spent in polling, if
    /// nothing has come of it.
    pub(crate) fn begin_round(&self, look: &Look) {
        if !look.had_news {
            self.spend_until(look.start_ns);
        }
        self.round_ns.set(look.start_ns);
        self.round.notify();
    }

    /// The time since the last round was spent in polling.
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
    fn adaptive_polling_needs_a_receiver_that_asks() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Adaptive);
        assert!(idle.ask(&lane).is_none(), "nothing is known yet");
        idle.limit_ns.set(1_000_000_000);
        assert!(idle.ask(&lane).is_none(), "no lane may poll");
        // Other tests' rings may poll beside this.
        idle.lanes_max.set(1000);
        idle.note_news();
        assert!(matches!(idle.next(&lane), Next::Sleep));
        let asker = idle.ask(&lane).expect("it polls");
        assert!(matches!(idle.next(&lane), Next::Look(_)));
        assert!(idle.permit.borrow().is_some());
        drop(asker);
        assert!(idle.permit.borrow().is_none(), "another lane may poll");
        assert!(matches!(idle.next(&lane), Next::Sleep));
    }

    #[test]
    fn a_receiver_that_asks_goes_to_the_ring_before_the_loop_sleeps() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Fixed(Duration::from_secs(1)));
        let asker = idle.ask(&lane).expect("it polls");
        idle.limit_ns.set(0);
        assert!(matches!(idle.next(&lane), Next::GoOn), "its socket is on no list yet");
        assert!(idle.over.get());
        drop(asker);
        assert!(matches!(idle.next(&lane), Next::Sleep));
    }

    #[test]
    fn what_was_polled_since_the_last_news_was_in_vain_if_nothing_came() {
        let (idle, lane) = (Idle::default(), Lane::new());
        idle.set_polling(Polling::Fixed(Duration::from_millis(1)));
        idle.note_news();
        let Next::Look(look) = idle.next(&lane) else { panic!("it polls") };
        assert!(idle.look(&look, || true));
        assert_eq!(idle.polled.vain_ns(), 0);
        let Next::Look(look) = idle.next(&lane) else { panic!("there was news") };
        let before = idle.polled.spent_ns();
        assert!(!idle.look(&look, || false));
        let vain = idle.polled.spent_ns() - before;
        assert!(vain > 0);
        assert_eq!(idle.polled.vain_ns(), vain);
    }
}
