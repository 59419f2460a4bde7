//! Tells the operator at once what clients see as errors only.

use super::captive::either;
use super::site::Site;
use cache::Counters;
use std::rc::Rc;
use uring::Ring;

/// Between two looks, in nanoseconds.
const PERIOD_NS: u64 = 250_000_000;
/// After a holder could not be started, in nanoseconds.
const HOLDER_PAUSE_NS: u64 = 5_000_000_000;

/// Looks at a volume from time to time while it is served.
#[derive(Clone)]
pub(crate) struct Watch {
    ring: Ring,
    site: Rc<Site>,
}

/// What has been told.
#[derive(Default)]
struct Told {
    reads: u64,
    writes: u64,
    trouble: bool,
    failed: bool,
    stalled: bool,
}

impl Watch {
    pub(crate) fn new(ring: &Ring, site: &Rc<Site>) -> Watch {
        Watch { ring: ring.clone(), site: site.clone() }
    }

    /// Begins; it ends with the site.
    pub(crate) fn start(self) {
        let (lane, keeping) = (self.ring.lane().clone(), self.clone());
        lane.spawn(async move { keeping.keep().await }).expect("a fresh lane has room");
        lane.spawn(async move { self.tell().await }).expect("a fresh lane has room");
    }

    /// Tells what the counters say, until it is stopped.
    async fn tell(self) {
        let lane = self.ring.lane();
        let name = &self.site.name;
        let mut told = Told::default();
        loop {
            let seen = self.site.ended.seen();
            let stopped = self.site.has_ended();
            let stalled = self.site.attached.stack.stall().is_some_and(|stall| stall.is_on());
            if stalled {
                // What waits for changes that do not end asks whether to give up.
                self.site.volume.valve().nudge();
            }
            if let Some(news) = told.of_stall(stalled) {
                crate::tell!("overdrive: {name}: {news}");
            }
            if let Some(shared) = self.site.shared()
                && let Some(news) = told.news(&shared.counters(lane.now()))
            {
                crate::tell!("overdrive: {name}: {news}");
            }
            // Only now: what happened last is told as well.
            if stopped {
                return;
            }
            either(self.site.ended.after(seen), lane.sleep_until(lane.now() + PERIOD_NS)).await;
        }
    }

    /// Sees to it that a holder keeps the volume's memory (C5), from when one has to until it is stopped.
    async fn keep(self) {
        let lane = self.ring.lane();
        loop {
            let (seen, kept) = (self.site.ended.seen(), self.site.kept.seen());
            let is_over = || self.site.has_ended() || self.site.served.stop.is_asked();
            if is_over() {
                return;
            }
            let Some(socket) = self.site.volume.keeper_socket() else {
                either(self.site.kept.after(kept), self.site.ended.after(seen)).await;
                continue;
            };
            either(self.ring.readable(&socket), self.site.ended.after(seen)).await;
            if is_over() {
                return;
            }
            let name = &self.site.name;
            match self.site.volume.keep_again() {
                Ok(()) => {
                    crate::tell!("overdrive: {name}: its holder has ended; started another one")
                }
                Err(failure) => {
                    crate::tell!("overdrive: {failure}; trying again");
                    let pause = lane.sleep_until(lane.now() + HOLDER_PAUSE_NS);
                    either(self.site.ended.after(seen), pause).await;
                }
            }
        }
    }
}

impl Told {
    /// The same of a backing that does not answer.
    fn of_stall(&mut self, stalled: bool) -> Option<&'static str> {
        match (std::mem::replace(&mut self.stalled, stalled), stalled) {
            (false, true) => Some(
                "the backing has not answered for retry_time: what needs it gets errors until it \
                 does",
            ),
            (true, false) => Some("the backing answers again"),
            _ => None,
        }
    }

    /// The sentence that is due, if one is: one for the beginning of each kind of trouble, one for
    /// its end.
    fn news(&mut self, counters: &Counters) -> Option<String> {
        let reads = counters.errors_read;
        let writes = counters.errors_write + counters.errors_flush;
        let more_reads = reads > std::mem::replace(&mut self.reads, reads);
        let more_writes = writes > std::mem::replace(&mut self.writes, writes);
        if counters.failed == 1 {
            let new = !std::mem::replace(&mut self.failed, true);
            return new.then(|| {
                "the backing does not take writes, and retry_time is over: the volume has failed; \
                 writes and flushes get errors from now on, reads go on; mend the backing, then see \
                 'overdrive volume clear-error --help'"
                    .to_owned()
            });
        }
        let was_trouble = std::mem::replace(&mut self.trouble, more_reads || more_writes);
        match (was_trouble, self.trouble) {
            (false, true) if more_writes => Some(format!(
                "the backing fails to write or flush ({writes} errors so far); it is being tried \
                 again, nothing is lost yet"
            )),
            (false, true) => Some(format!("the backing fails to read ({reads} errors so far)")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_is_told_once() {
        let mut told = Told::default();
        let mut counters = Counters::default();
        assert_eq!(told.news(&counters), None);
        counters.errors_read = 1;
        let first = told.news(&counters).expect("an error is news");
        assert!(first.contains("fails to read"), "{first}");
        counters.errors_read = 2;
        assert_eq!(told.news(&counters), None, "it goes on");
        assert_eq!(told.news(&counters), None, "it is over");
        counters.errors_flush = 1;
        let again = told.news(&counters).expect("something else is news");
        assert!(again.contains("nothing is lost"), "{again}");
        (counters.errors_flush, counters.failed) = (2, 1);
        assert!(told.news(&counters).is_some_and(|news| news.contains("has failed")));
        counters.errors_read = 3;
        assert_eq!(told.news(&counters), None, "nothing can be worse");
    }
}
