//! A missing device.

use block::{Block, Error, Kind, Limits, Request, Result};

/// Replaces a missing device: every request fails.
pub struct MissingDevice {
    limits: Limits,
    error: Error,
}

impl MissingDevice {
    /// Replaces a member; `limits` are another member's.
    pub fn new(limits: Limits) -> MissingDevice {
        MissingDevice::with(
            limits,
            Error::new(Kind::Io, "use a member of the pool that is missing"),
        )
    }

    /// Replaces another device with these limits; every request fails with this error.
    pub fn with(limits: Limits, error: Error) -> MissingDevice {
        MissingDevice { limits, error }
    }
}

impl Block for MissingDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, _: Request) -> Result {
        Err(self.error)
    }
}
