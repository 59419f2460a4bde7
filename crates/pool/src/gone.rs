//! A member that is not there.

use block::{Block, Error, Kind, Limits, Request, Result};

/// Stands in for a member that is gone: whatever it is asked, it answers with an error.
pub struct Gone(Limits);

impl Gone {
    /// In the place of a member; `limits` are another member's.
    pub fn new(limits: Limits) -> Gone {
        Gone(limits)
    }
}

impl Block for Gone {
    fn limits(&self) -> &Limits {
        &self.0
    }

    async fn run(&self, _: Request) -> Result {
        Err(Error::new(Kind::Io, "use a member of the pool that is missing"))
    }
}
