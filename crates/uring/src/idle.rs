//! What a lane does with a wait: it sleeps in the kernel, or, if it is told to, looks for work until
//! it has found none for so long.
//!
//! Sleeping and being woken costs several microseconds of every answer, most where processors are
//! virtual; looking costs a processor. A short look before every sleep (up to 20 us while recent
//! sleeps were shorter than that) was tried, too: measured against `fio` at queue depths 1 and 32 it
//! did not reliably save both time and processor, so it was left out.

use crate::clock::now_ns;
use crate::ring::Inner;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// Looks for news between two looks at the clock, which cost more.
const LOOKS: u32 = 16;

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
        if self.idle.news.take() {
            self.idle.news_ns.set(start);
        }
        let deadline = self.lane.next_deadline().unwrap_or(u64::MAX);
        let end = self.idle.news_ns.get().saturating_add(limit_ns).min(deadline);
        if start >= end {
            return Ok(false);
        }
        self.submit()?;
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
