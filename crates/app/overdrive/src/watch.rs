//! Watches long work: progress on a terminal, and Ctrl-C.

use crate::progress::Stages;
use rustix::event::{PollFd, PollFlags, Timespec};
use stack::{Exit, Failure};

/// Shows progress, and notices signals that end the work.
pub(crate) struct Watch {
    stages: Stages,
    signals: host::File,
}

impl Watch {
    /// Starts to notice signals.
    pub(crate) fn new(stages: Stages) -> Result<Watch, Failure> {
        let broken = |error| Failure::new(Exit::Io, format!("signals: {error}"));
        Ok(Watch { stages, signals: host::signals().map_err(broken)? })
    }

    pub(crate) fn finish(self) {
        self.stages.finish();
    }

    /// Shows the completed share of a stage. False: a signal has arrived.
    fn update(&mut self, stage: &str, share: f64) -> bool {
        self.stages.set(stage, share);
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1..))
    }
}

impl suites::Watch for Watch {
    fn look(&mut self, stage: &str, share: f64) -> bool {
        self.update(stage, share)
    }
}

impl simulator::Watch for Watch {
    fn look(&mut self, stage: &'static str, share: f64) -> bool {
        self.update(stage, share)
    }
}
