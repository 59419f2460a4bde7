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
use crate::ring::{Inner, Ring};
use lane::Event;
use std::cell::Cell;
use std::io;
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

/// A receiver that asks its socket itself.
pub(crate) struct Asker {
    ring: Ring,
    /// When it goes to the ring in any case: others may be busy without end.
    end_ns: u64,
}

impl Asker {
    /// Waits for the next round. False: there will be none.
    pub(crate) async fn next(&self) -> bool {
        let idle = &self.ring.0.idle;
        let seen = idle.round.seen();
        if idle.over.get() || self.ring.lane().now() >= self.end_ns {
            return false;
        }
        idle.round.after(seen).await;
        true
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let askers = &self.ring.0.idle.askers;
        askers.set(askers.get() - 1);
    }
}

impl Ring {
    /// Lets a receiver ask its socket itself, while the loop looks for work. None: it does not, or
    /// enough do so already.
    pub(crate) fn ask(&self) -> Option<Asker> {
        let idle = &self.0.idle;
        let (limit_ns, askers) = (idle.poll_ns.get(), idle.askers.get());
        if limit_ns == 0 || idle.over.get() || askers == ASKERS_MAX {
            return None;
        }
        idle.askers.set(askers + 1);
        let end_ns = self.lane().now().saturating_add(limit_ns);
        Some(Asker { ring: self.clone(), end_ns })
    }
}

impl Idle {
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

    /// Whether those who ask sockets have something to do about it that looking is over.
    fn end(&self) -> bool {
        self.over.set(true);
        self.round.notify();
        self.askers.get() > 0
    }

    /// Those who ask sockets do so once more. The time since the last round was spent in looking, if
    /// nothing has come of it.
    fn begin_round(&self, now_ns: u64, had_news: bool) {
        if !had_news {
            let since = self.round_ns.get().max(self.news_ns.get());
            self.spent_ns.set(self.spent_ns.get() + (now_ns - since));
        }
        self.round_ns.set(now_ns);
        self.round.notify();
    }

    pub(crate) fn spent_ns(&self) -> u64 {
        self.spent_ns.get()
    }
}

impl Inner {
    /// Looks, without entering the kernel, whether there is something to do. What the kernel has put
    /// off (above all completions of sockets, which it posts only to a thread that enters) it
    /// announces by a flag in the queue's memory.
    fn has_news(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        let is_announced = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        is_announced || !uring.completion().is_empty() || self.lane.is_ready()
    }

    /// Waits by looking, where that is asked for, but not beyond the next deadline. True: there is
    /// something to do, do not sleep.
    pub(crate) fn poll(&self) -> io::Result<bool> {
        let limit_ns = self.idle.poll_ns.get();
        if limit_ns == 0 {
            return Ok(false);
        }
        let start = now_ns();
        let had_news = self.idle.news.take();
        if had_news {
            self.idle.news_ns.set(start);
        }
        let deadline = self.lane.next_deadline().unwrap_or(u64::MAX);
        let end = self.idle.news_ns.get().saturating_add(limit_ns).min(deadline);
        if start >= end {
            return Ok(start >= deadline || self.idle.end());
        }
        self.submit()?;
        if self.idle.askers.get() > 0 {
            self.reap()?;
            if self.lane.is_ready() {
                self.idle.note_news();
            }
            self.idle.begin_round(start, had_news);
            return Ok(true);
        }
        let mut now = start;
        let found = loop {
            if (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                self.has_news()
            }) {
                self.idle.note_news();
                break true;
            }
            now = now_ns();
            if now >= end {
                break now >= deadline;
            }
        };
        self.idle.spent_ns.set(self.idle.spent_ns.get() + (now - start));
        if found {
            self.submit()?;
            self.reap()?;
        }
        Ok(found)
    }
}
