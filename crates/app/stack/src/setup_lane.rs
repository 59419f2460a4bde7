//! A lane for work before any volume is served.

use crate::failure::{Exit, Failure};
use lane::Lane;
use ring::Ring;

/// A lane and its ring. The calling thread runs the work and waits for it.
pub(crate) struct SetupLane {
    lane: Lane,
    ring: Ring,
}

pub(crate) fn ring_failure(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("io_uring: {error}"))
}

impl SetupLane {
    /// # Errors
    /// The kernel refuses a ring.
    pub(crate) fn new() -> Result<SetupLane, Failure> {
        let lane = Lane::new();
        let ring = Ring::new(&lane).map_err(ring_failure)?;
        Ok(SetupLane { lane, ring })
    }

    /// Runs a future to completion.
    pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(&Ring) -> F,
    ) -> Result<T, Failure> {
        self.ring.block_on(work(&self.ring)).map_err(ring_failure)
    }
}

impl Drop for SetupLane {
    fn drop(&mut self) {
        self.lane.abandon();
    }
}
