//! Limits for clients.

use std::time::Duration;

/// Limits for clients that are slow or many.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections; a further one waits until another has ended.
    pub connections: usize,
    /// Longest time for the head of a request, and between two requests of a connection.
    pub head_time: Duration,
    /// Longest time in which a form must arrive.
    pub form_time: Duration,
    /// Longest time for which a client may not read its answer.
    pub write_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let time = Duration::from_secs(20);
        Limits {
            connections: 128,
            head_time: time,
            form_time: Duration::from_secs(10),
            write_time: time,
        }
    }
}
