//! The clock by which other programs are timed: no lane is here.

use std::time::Instant;

/// What time it is.
#[allow(clippy::disallowed_methods, reason = "no lane here: this times other programs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
