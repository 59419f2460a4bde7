//! Results of actions, as the pages show them.

use std::time::Duration;

/// The result of an action.
#[derive(Clone)]
pub(crate) struct Notice {
    pub(crate) volume: String,
    pub(crate) text: String,
    pub(crate) is_good: bool,
    /// When it ended, since the process began.
    pub(crate) at: Duration,
}
