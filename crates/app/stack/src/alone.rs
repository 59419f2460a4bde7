//! A lane for work before any volume is served.

use crate::failure::{Exit, Failure};
use lane::Lane;
use ring::Ring;

/// A lane and its ring; the calling thread waits for the work.
pub(crate) struct Alone {
    lane: Lane,
    ring: Ring,
}

fn broken(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("io_uring: {error}"))
}

impl Alone {
    /// # Errors
    /// The kernel refuses a ring.
    pub(crate) fn new() -> Result<Alone, Failure> {
        let lane = Lane::new();
        let ring = Ring::new(&lane).map_err(broken)?;
        Ok(Alone { lane, ring })
    }

    /// Runs a future to completion.
    pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(&Ring) -> F,
    ) -> Result<T, Failure> {
        self.ring.block_on(work(&self.ring)).map_err(broken)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.lane.abandon();
    }
}
