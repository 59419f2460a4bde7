//! Flushes of the backing, one at a time.
//!
//! The results of two overlapping flushes cannot both be trusted: if one fails, the other may have
//! found nothing left to flush, and succeed although data is lost. So every task that needs a flush
//! waits for one that begins after its request; the first task that finds none running leads it,
//! the others share it.

use block::{Error, Kind, Result};
use lane::{Event, Lane, Lock};

pub(crate) const LOST: Error =
    Error::new(Kind::Io, "flush: another request's flush of the backing failed");

/// The flushes of a volume's backing.
#[derive(Default)]
pub(crate) struct Flushes {
    gate: Lock<FlushGate>,
    /// Notified when a flush has ended.
    changed: Event,
}

impl Flushes {
    /// Waits for a flush that begins after this call, and returns its result. Leads flushes by
    /// `send` if no other task does.
    pub(crate) async fn run(&self, lane: &Lane, mut send: impl AsyncFnMut() -> Result) -> Result {
        lane.turn().await;
        let target = self.gate.with(|gate| gate.target());
        let mut error = LOST;
        loop {
            lane.turn().await;
            let seen = self.changed.seen();
            match self.gate.with(|gate| gate.step(target)) {
                FlushStep::Done(good) => return if good { Ok(()) } else { Err(error) },
                FlushStep::Wait => self.changed.after(seen).await,
                FlushStep::Lead => {
                    let result = send().await;
                    error = result.err().unwrap_or(error);
                    lane.turn().await;
                    self.gate.with(|gate| gate.report(result.is_ok()));
                    self.changed.notify();
                }
            }
        }
    }

    /// Waits until no flush is in progress, and prevents new ones.
    pub(crate) async fn hold(&self, lane: &Lane) {
        loop {
            lane.turn().await;
            let seen = self.changed.seen();
            if self.gate.with(|gate| gate.hold()) {
                return;
            }
            self.changed.after(seen).await;
        }
    }

    /// Allows flushes again, after [`Flushes::hold`].
    pub(crate) async fn release(&self, lane: &Lane) {
        lane.turn().await;
        self.gate.with(|gate| gate.release());
        self.changed.notify();
    }
}

/// The flushes of a volume, by number.
#[derive(Debug, Default)]
struct FlushGate {
    running: bool,
    /// Flushes that have ended.
    ended: u64,
    /// The failed ones among the last 64 flushes, the latest in the lowest bit.
    failed: u64,
}

/// The next step of a task that needs a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlushStep {
    /// Nothing: the flush is over; true if it succeeded.
    Done(bool),
    Wait,
    /// Flush the backing, then report.
    Lead,
}

impl FlushGate {
    /// Returns the number of the first flush that begins after now.
    fn target(&self) -> u64 {
        self.ended + 1 + u64::from(self.running)
    }

    /// Returns the next step towards the flush with this number.
    fn step(&mut self, target: u64) -> FlushStep {
        if self.ended >= target {
            let age = self.ended - target;
            // For a task that comes too late, the result of its flush is no longer stored: it
            // counts as failed.
            return FlushStep::Done(age < 64 && self.failed >> age & 1 == 0);
        }
        if self.running {
            return FlushStep::Wait;
        }
        self.running = true;
        FlushStep::Lead
    }

    /// Prevents new flushes from now on. Returns false if one is in progress.
    fn hold(&mut self) -> bool {
        let is_free = !self.running;
        self.running = true;
        is_free
    }

    /// Allows flushes again, after [`FlushGate::hold`].
    fn release(&mut self) {
        self.running = false;
    }

    /// Records the end of the flush that was led.
    fn report(&mut self, good: bool) {
        self.running = false;
        self.ended += 1;
        self.failed = self.failed << 1 | u64::from(!good);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_during_a_flush_gets_the_next_one_and_its_own_result() {
        let mut flush_gate = FlushGate::default();
        let first = flush_gate.target();
        assert_eq!(flush_gate.step(first), FlushStep::Lead);
        let second = flush_gate.target();
        assert_eq!(flush_gate.step(second), FlushStep::Wait);
        flush_gate.report(false);
        assert_eq!(flush_gate.step(second), FlushStep::Lead);
        flush_gate.report(true);
        assert_eq!(flush_gate.step(first), FlushStep::Done(false));
        assert_eq!(flush_gate.step(second), FlushStep::Done(true));
        for _ in 0..64 {
            let next = flush_gate.target();
            assert_eq!(flush_gate.step(next), FlushStep::Lead);
            flush_gate.report(true);
        }
        assert_eq!(flush_gate.step(second), FlushStep::Done(false), "forgotten, so not promised");
    }

    #[test]
    fn none_begins_while_the_gate_is_held_and_it_is_held_while_none_is_under_way() {
        let mut flush_gate = FlushGate::default();
        assert!(flush_gate.hold());
        let target = flush_gate.target();
        assert_eq!(flush_gate.step(target), FlushStep::Wait);
        flush_gate.release();
        assert_eq!(flush_gate.step(flush_gate.target()), FlushStep::Lead);
        assert!(!flush_gate.hold(), "one is under way");
        flush_gate.report(true);
        assert!(flush_gate.hold());
    }
}
