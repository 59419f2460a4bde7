//! A device that is not there.

use block::{Block, Error, Kind, Limits, Request, Result};

/// Stands in for a device that is gone: every request gets an error.
pub struct Gone {
    limits: Limits,
    error: Error,
}

impl Gone {
    /// In the place of a member; `limits` are another member's.
    pub fn new(limits: Limits) -> Gone {
        Gone::with(limits, Error::new(Kind::Io, "use a member of the pool that is missing"))
    }

    /// In the place of another device with these limits; every request gets this error.
    pub fn with(limits: Limits, error: Error) -> Gone {
        Gone { limits, error }
    }
}

impl Block for Gone {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, _: Request) -> Result {
        Err(self.error)
    }
}
