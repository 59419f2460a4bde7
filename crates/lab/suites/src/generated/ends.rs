//! The ends of the last requests, which sequential ones continue.

/// Number of ends that are remembered, as in `trace info`.
pub(crate) const ENDS: usize = 32;

/// The ends of the last requests of a direction, in sectors, the newest first.
#[derive(Clone, Debug)]
pub(crate) struct Ends([u64; ENDS]);

impl Ends {
    /// Returns no ends.
    pub(crate) fn new() -> Ends {
        Ends([u64::MAX; ENDS])
    }

    /// Returns the newest ends.
    pub(crate) fn newest(&self, count: usize) -> &[u64] {
        &self.0[..count.min(ENDS)]
    }

    /// Whether a request that begins here continues an earlier one.
    pub(crate) fn continues(&self, first: u64) -> bool {
        self.0.contains(&first)
    }

    /// Adds a request. The end that it continues leaves, or else the oldest one. Returns whether it
    /// continues one.
    pub(crate) fn add(&mut self, first: u64, end: u64) -> bool {
        let found = self.0.iter().position(|one| *one == first);
        self.0[..=found.unwrap_or(ENDS - 1)].rotate_right(1);
        self.0[0] = end;
        found.is_some()
    }
}
