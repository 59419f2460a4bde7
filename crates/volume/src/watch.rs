//! Tells the operator at once what clients see as errors only.

use cache::{Counters, Shared};
use lane::{Event, Lane};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Between two looks, in nanoseconds.
const PERIOD_NS: u64 = 250_000_000;

/// Looks at a cache's counters from time to time while it is served.
#[derive(Clone)]
pub(crate) struct Watch {
    lane: Lane,
    shared: Arc<Shared>,
    stop: Rc<(Cell<bool>, Event)>,
}

/// What has been told.
#[derive(Default)]
struct Told {
    reads: u64,
    writes: u64,
    trouble: bool,
    failed: bool,
}

impl Watch {
    pub(crate) fn new(lane: &Lane, shared: &Arc<Shared>) -> Watch {
        Watch { lane: lane.clone(), shared: shared.clone(), stop: Rc::default() }
    }

    /// Ends the task.
    pub(crate) fn stop(&self) {
        self.stop.0.set(true);
        self.stop.1.notify();
    }

    /// Runs until it is stopped.
    pub(crate) async fn run(self) {
        let mut told = Told::default();
        loop {
            let seen = self.stop.1.seen();
            let stopped = self.stop.0.get();
            let counters = self.shared.counters(self.lane.now());
            if let Some(news) = told.news(&counters) {
                eprintln!("overdrive: {news}");
            }
            // Only now: what happened last is told as well.
            if stopped {
                return;
            }
            let pause = self.lane.sleep_until(self.lane.now() + PERIOD_NS);
            first(self.stop.1.after(seen), pause).await;
        }
    }
}

impl Told {
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
                 writes and flushes get errors from now on, reads go on; mend the backing and \
                 check what it holds"
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

/// Waits for either of two waits that may be dropped at any time.
async fn first(one: impl Future<Output = ()>, two: impl Future<Output = ()>) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    std::future::poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() || two.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
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
