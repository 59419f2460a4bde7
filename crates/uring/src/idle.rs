//! What a lane does with a wait: it sleeps in the kernel, or, if it is told to, looks for work until
//! it has found none for so long.
//!
//! Sleeping and being woken costs several microseconds of every answer, most where processors are
//! virtual; looking costs a processor. A short look before every sleep (up to 20 us while recent
//! sleeps were shorter than that) was tried, too: measured against `fio` at queue depths 1 and 32 it
//! did not reliably save both time and processor, so it was left out.
//!
//! A loop that looks has its receivers ask their sockets themselves, once a round. By way of the
//! ring, what comes takes three calls: to hand in the receive, which finds nothing and is put on the
//! socket's list, to let the kernel finish it once it has come, and the next one's beginning.

use crate::clock::now_ns;
use lane::{Event, Lane};
use std::cell::Cell;
use std::time::Duration;

/// Looks for news between two looks at the clock, which cost more.
const LOOKS: u32 = 16;

/// Sockets that are asked directly at most. Each takes a call to the kernel a round, whether
/// anything has come or not.
const ASKERS_MAX: usize = 4;

/// How a ring waits.
#[derive(Default)]
pub(crate) struct Idle {
    /// How long it looks before it sleeps; 0: not at all.
    poll_ns: Cell<u64>,
    /// Something has come from outside since the last look. A timer is no such thing, and no reason
    /// to look any longer: a server's own go off several times a second as long as it lives.
    news: Cell<bool>,
    /// When that was seen.
    news_ns: Cell<u64>,
    spent_ns: Cell<u64>,
    /// Receivers that ask their sockets themselves while the loop looks.
    askers: Cell<usize>,
    /// They may ask once more.
    round: Event,
    /// When that was allowed last.
    round_ns: Cell<u64>,
    /// The time of looking has passed: they hand their sockets to the ring.
    over: Cell<bool>,
}

/// What a loop does that has nothing to do.
pub(crate) enum Next {
    /// It sleeps.
    Sleep,
    /// It goes on: a deadline has come, or receivers are to hand their sockets to the ring.
    GoOn,
    /// It looks for work.
    Look(Look),
}

/// A time of looking for work.
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
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        let askers = &self.idle.askers;
        askers.set(askers.get() - 1);
    }
}

impl Idle {
    /// Lets a receiver ask its socket itself, while the loop looks for work. None: it does not, or
    /// enough do so already.
    pub(crate) fn ask<'a>(&'a self, lane: &'a Lane) -> Option<Asker<'a>> {
        let (limit_ns, askers) = (self.poll_ns.get(), self.askers.get());
        if limit_ns == 0 || self.over.get() || askers == ASKERS_MAX {
            return None;
        }
        self.askers.set(askers + 1);
        Some(Asker { idle: self, lane, end_ns: lane.now().saturating_add(limit_ns) })
    }

    /// Whether a loop with nothing to do looks for work, and until when.
    pub(crate) fn next(&self, lane: &Lane) -> Next {
        let limit_ns = self.poll_ns.get();
        if limit_ns == 0 {
            return Next::Sleep;
        }
        let start_ns = now_ns();
        let had_news = self.news.take();
        if had_news {
            self.news_ns.set(start_ns);
        }
        let deadline_ns = lane.next_deadline().unwrap_or(u64::MAX);
        let end_ns = self.news_ns.get().saturating_add(limit_ns).min(deadline_ns);
        if start_ns < end_ns {
            return Next::Look(Look { start_ns, end_ns, deadline_ns, had_news });
        }
        if start_ns >= deadline_ns || self.end() { Next::GoOn } else { Next::Sleep }
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
        self.spent_ns.set(self.spent_ns.get() + (now - look.start_ns));
        found
    }

    /// Whether receivers ask their sockets themselves.
    pub(crate) fn has_askers(&self) -> bool {
        self.askers.get() > 0
    }

    pub(crate) fn set_poll(&self, idle: Option<Duration>) {
        let idle_ns = idle.map_or(0, |idle| idle.as_nanos().try_into().unwrap_or(u64::MAX));
        self.poll_ns.set(idle_ns);
    }

    /// Something has come from outside: a completion, a wake from another thread.
    #[inline]
    pub(crate) fn note_news(&self) {
        self.news.set(true);
        self.over.set(false);
    }

    /// Looking is over. Whether receivers that ask their sockets have something to do about that.
    fn end(&self) -> bool {
        self.over.set(true);
        self.round.notify();
        self.has_askers()
    }

    /// The receivers that ask their sockets do so once more. The time since the last round was spent in looking, if
    /// nothing has come of it.
    pub(crate) fn begin_round(&self, look: &Look) {
        if !look.had_news {
            let since = self.round_ns.get().max(self.news_ns.get());
            self.spent_ns.set(self.spent_ns.get() + (look.start_ns - since));
        }
        self.round_ns.set(look.start_ns);
        self.round.notify();
    }

    pub(crate) fn spent_ns(&self) -> u64 {
        self.spent_ns.get()
    }
}
