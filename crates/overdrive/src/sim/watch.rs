//! What a simulation is watched by: progress on a terminal, and Ctrl-C.

use crate::progress::Stages;
use rustix::event::{PollFd, PollFlags, Timespec};
use stack::{Exit, Failure};

/// Shows progress, and notices signals that end the simulation.
pub(super) struct Watch {
    stages: Stages,
    signals: uring::File,
}

impl Watch {
    pub(super) fn new() -> Result<Watch, Failure> {
        let broken = |error| Failure::new(Exit::Io, format!("signals: {error}"));
        Ok(Watch { stages: Stages::with_time_left(), signals: uring::signals().map_err(broken)? })
    }

    pub(super) fn finish(self) {
        self.stages.finish();
    }
}

impl simulator::Watch for Watch {
    fn look(&mut self, stage: &'static str, share: f64) -> bool {
        self.stages.set(stage, share);
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1..))
    }
}
