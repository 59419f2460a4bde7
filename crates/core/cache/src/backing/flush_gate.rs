//! Flushes of the backing, one at a time.
//!
//! Two flushes that overlap cannot both be believed: if one fails, the other may have found nothing
//! left to do and succeed over data that is lost. So every task that needs a flush waits for one
//! that begins after it asked; the first to find none running leads it, the others share it.

/// The flushes of a volume, by number.
#[derive(Debug, Default)]
pub(crate) struct FlushGate {
    running: bool,
    /// Flushes that have ended.
    ended: u64,
    /// Which of the last 64 have failed, the latest in the lowest bit.
    failed: u64,
}

/// What a task that needs a flush does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// Nothing: it is over, and good or not.
    Over(bool),
    Wait,
    /// Flush the backing, then report.
    Lead,
}

impl FlushGate {
    /// The number of the first flush that begins after now.
    pub(crate) fn target(&self) -> u64 {
        self.ended + 1 + u64::from(self.running)
    }

    /// What to do to have the flush with this number.
    pub(crate) fn step(&mut self, target: u64) -> Pass {
        if self.ended >= target {
            let age = self.ended - target;
            // A task that comes so late that its flush is forgotten is told the worst.
            return Pass::Over(age < 64 && self.failed >> age & 1 == 0);
        }
        if self.running {
            return Pass::Wait;
        }
        self.running = true;
        Pass::Lead
    }

    /// Lets no flush begin from now on. False: one is under way.
    pub(crate) fn hold(&mut self) -> bool {
        let is_free = !self.running;
        self.running = true;
        is_free
    }

    /// Flushes may begin again, after [`FlushGate::hold`].
    pub(crate) fn release(&mut self) {
        self.running = false;
    }

    /// The flush that was led is over.
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
        assert_eq!(flush_gate.step(first), Pass::Lead);
        let second = flush_gate.target();
        assert_eq!(flush_gate.step(second), Pass::Wait);
        flush_gate.report(false);
        assert_eq!(flush_gate.step(second), Pass::Lead);
        flush_gate.report(true);
        assert_eq!(flush_gate.step(first), Pass::Over(false));
        assert_eq!(flush_gate.step(second), Pass::Over(true));
        for _ in 0..64 {
            let next = flush_gate.target();
            assert_eq!(flush_gate.step(next), Pass::Lead);
            flush_gate.report(true);
        }
        assert_eq!(flush_gate.step(second), Pass::Over(false), "forgotten, so not promised");
    }

    #[test]
    fn none_begins_while_the_gate_is_held_and_it_is_held_while_none_is_under_way() {
        let mut flush_gate = FlushGate::default();
        assert!(flush_gate.hold());
        let target = flush_gate.target();
        assert_eq!(flush_gate.step(target), Pass::Wait);
        flush_gate.release();
        assert_eq!(flush_gate.step(flush_gate.target()), Pass::Lead);
        assert!(!flush_gate.hold(), "one is under way");
        flush_gate.report(true);
        assert!(flush_gate.hold());
    }
}
