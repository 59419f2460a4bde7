//! Flushes of the backing, one at a time.
//!
//! The results of two overlapping flushes cannot both be trusted: if one fails, the other may have
//! found nothing left to flush, and succeed although data is lost. So every task that needs a flush
//! waits for one that begins after its request; the first task that finds none running leads it,
//! the others share it.
//! the others share it.

/// The flushes of a volume, by number.
#[derive(Debug, Default)]
pub(crate) struct FlushGate {
    running: bool,
    /// Flushes that have ended.
    ended: u64,
    /// The failed ones among the last 64 flushes, the latest in the lowest bit.
    failed: u64,
}

/// The next step of a task that needs a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlushStep {
    /// Nothing: the flush is over; true if it succeeded.
    Over(bool),
    Wait,
    /// Flush the backing, then report.
    Lead,
}

impl FlushGate {
    /// Returns the number of the first flush that begins after now.
    pub(crate) fn target(&self) -> u64 {
        self.ended + 1 + u64::from(self.running)
    }

    /// Returns the next step towards the flush with this number.
    pub(crate) fn step(&mut self, target: u64) -> FlushStep {
        if self.ended >= target {
            let age = self.ended - target;
            // For a task that comes too late, the result of its flush is no longer stored: it
            // counts as failed.
            return FlushStep::Over(age < 64 && self.failed >> age & 1 == 0);
        }
        if self.running {
            return FlushStep::Wait;
        }
        self.running = true;
        FlushStep::Lead
    }

    /// Prevents new flushes from now on. Returns false if one is in progress.
    pub(crate) fn hold(&mut self) -> bool {
        let is_free = !self.running;
        self.running = true;
        is_free
    }

    /// Allows flushes again, after [`FlushGate::hold`].
    pub(crate) fn release(&mut self) {
        self.running = false;
    }

    /// Records the end of the flush that was led.
    pub(crate) fn report(&mut self, good: bool) {
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
        assert_eq!(flush_gate.step(first), FlushStep::Over(false));
        assert_eq!(flush_gate.step(second), FlushStep::Over(true));
        for _ in 0..64 {
            let next = flush_gate.target();
            assert_eq!(flush_gate.step(next), FlushStep::Lead);
            flush_gate.report(true);
        }
        assert_eq!(flush_gate.step(second), FlushStep::Over(false), "forgotten, so not promised");
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
