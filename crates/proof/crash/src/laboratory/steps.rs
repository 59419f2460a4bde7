//! A run from its first step to its last, with its crashes.

use super::Laboratory;
use crate::finding::Finding;
use crate::life::Life;
use crate::run::Run;

/// Number of steps after which a run counts as endless.
const STEPS_MAX: u64 = 400_000;

impl Laboratory<'_> {
    /// Runs to the end, with every crash.
    pub(super) fn run_history(&mut self, run: &mut Run) -> Result<(), Finding> {
        while run.book.borrow().clients > 0 {
            if !self.step(run)? {
                let state = run.life.process.describe();
                let text = format!("nothing moves, and a client has no answer:{state}");
                return Err(Finding::new("hang", text));
            }
            if run.world.steps() > STEPS_MAX {
                let state = run.life.process.describe();
                let now_ns = run.world.now();
                let text = format!(
                    "clients have no answer after {STEPS_MAX} steps, at {now_ns} ns:{state}"
                );
                return Err(Finding::new("hang", text));
            }
            // A kill during a flush, for histories about flushes that end late.
            let late_flush = run.setup.faults.late_flush;
            let is_early = |flushed: bool| run.setup.kills_after_flush && !flushed;
            let in_flush = late_flush
                && run.disk.with(|disk| disk.flushes_asked > 0 && !is_early(disk.flushed));
            let one_in = if in_flush { 8 } else { run.setup.takeover_one_in };
            if run.takeovers > 0 && run.random.one_in(u64::from(one_in)) {
                self.take_over(run)?;
            }
        }
        run.check_errors()?;
        self.quieten(run)?;
        run.check_errors()
    }

    /// Runs one step, with the crashes that can follow it and those in its middle. False: nothing
    /// moves.
    fn step(&mut self, run: &mut Run) -> Result<bool, Finding> {
        let moved = run.step(self.subject);
        self.kills_midway(run)?;
        if moved {
            self.check_after_step(run)?;
        }
        Ok(moved)
    }

    fn check_after_step(&mut self, run: &mut Run) -> Result<(), Finding> {
        run.check_step()?;
        let changed = run.has_changed();
        if changed || !run.admitted.is_empty() {
            self.crash(run, changed)?;
        }
        Ok(())
    }

    /// Kills the process for good, and continues the run with the one that takes over.
    fn take_over(&mut self, run: &mut Run) -> Result<(), Finding> {
        run.takeovers -= 1;
        if run.owner_before.is_some() || self.is_lost(run) {
            return Ok(());
        }
        run.check_errors()?;
        let again = run.take_over(self.subject)?;
        self.kills_midway(run)?;
        run.go_on(&again);
        Ok(())
    }

    /// Checks C6: without requests, dirty data is written back by its age.
    fn quieten(&mut self, run: &mut Run) -> Result<(), Finding> {
        if !run.life.process.buffers() {
            return Ok(());
        }
        let model = &run.setup.model;
        let age_ns = run.book.borrow().operator.dirty_age_ns_max();
        // The last event of a link may come yet, and be followed by a hold.
        let link_ns = if run.setup.link.is_some() { 3_600_000_000_000 } else { 0 };
        let patience = 4 * age_ns + 200 * model.latency_ns + 10_000_000 + link_ns;
        let deadline = run.world.now() + patience;
        let steps = run.world.steps() + STEPS_MAX;
        let rests = |life: &Life| life.process.dirty_blocks() + life.process.closed_epochs() == 0;
        while !rests(&run.life) && run.world.now() < deadline {
            if !self.step(run)? || run.world.steps() > steps {
                break;
            }
        }
        run.life.process.check();
        let may_fail = run.book.borrow().may_have_failed();
        if run.life.process.has_failed() && may_fail || run.disk.with(|disk| disk.errors) != [0; 3]
        {
            return Ok(());
        }
        if !rests(&run.life) {
            let text = format!(
                "{} blocks are dirty and {} epochs closed {patience} ns after the last answer, with \
                 an age limit of {} ns",
                run.life.process.dirty_blocks(),
                run.life.process.closed_epochs(),
                age_ns
            );
            return Err(Finding::new("C6", text));
        }
        let book = run.book.borrow();
        run.disk.with(|disk| book.oracle.check_flushed(disk))
    }
}
