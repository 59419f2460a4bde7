//! Reads bytes of either format as a trace.

use crate::malformed::Malformed;
use crate::trace::Trace;
use crate::{ascii, recording};

impl Trace {
    /// Reads a trace: a recording of this project, recognised by its first bytes, or otherwise
    /// lines of MQSim's and SSDsim's ASCII format (`ns device sector sectors 1|0`, where 1 is a
    /// read).
    ///
    /// # Errors
    /// It is not a trace, is damaged, or contains no event.
    pub fn parse(bytes: &[u8]) -> Result<Trace, Malformed> {
        let trace = match bytes.starts_with(&recording::MAGIC) {
            true => recording::read(bytes)?,
            false => Trace::new(ascii::read(bytes)?, 0, false),
        };
        match trace.events().is_empty() {
            true => Err(Malformed::new("the trace contains no request".into())),
            false => Ok(trace),
        }
    }
}
