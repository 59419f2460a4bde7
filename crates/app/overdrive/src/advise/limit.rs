//! The end of watching: its time, a signal, a disk that vanishes, a process that ends.

use super::family::Family;
use std::process::Child;
use std::time::Duration;

/// Why watching ended.
pub(super) enum Until {
    Time,
    Signal,
    /// A disk of this name vanished.
    Gone(String),
    /// The process or command ended.
    Ended,
}

/// The end of watching, and how long it took.
pub(super) struct Ended {
    pub(super) until: Until,
    pub(super) ns: u64,
}

impl Ended {
    /// Returns a sentence, unless it is the usual end.
    pub(super) fn reason(&self) -> Option<String> {
        let seconds = self.ns as f64 / 1e9;
        match &self.until {
            Until::Time | Until::Ended => None,
            Until::Signal => Some(format!("Ended by a signal after {seconds:.1} s.")),
            Until::Gone(name) => Some(format!("/dev/{name} vanished after {seconds:.1} s.")),
        }
    }

    /// Whether a disk vanished.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.until, Until::Gone(_))
    }
}

/// Ends watching.
pub(super) struct Limit<'a> {
    /// The longest time. None: until the process or command ends.
    pub(super) time_ns: Option<u64>,
    /// The command that is watched.
    pub(super) child: Option<&'a mut Child>,
    pub(super) watch: &'a mut dyn simulator::Watch,
}

impl Limit<'_> {
    /// Pauses, and returns the reason if watching has ended.
    #[expect(clippy::disallowed_methods, reason = "no lane: a command's own thread")]
    pub(super) fn wait(
        &mut self,
        pause: Duration,
        seen_ns: u64,
        family: Option<&Family>,
    ) -> Option<Until> {
        let share = self.time_ns.map_or(0.0, |all| seen_ns as f64 / all.max(1) as f64);
        if !self.watch.look("watching", share.min(1.0)) {
            return Some(Until::Signal);
        }
        let left_ns = self.time_ns.map_or(u64::MAX, |all| all.saturating_sub(seen_ns));
        if left_ns == 0 {
            return Some(Until::Time);
        }
        if let Some(child) = &mut self.child {
            return match child.try_wait() {
                Ok(None) => {
                    std::thread::sleep(pause.min(Duration::from_nanos(left_ns)));
                    None
                }
                _ => Some(Until::Ended),
            };
        }
        if family.is_some_and(|family| !family.is_alive()) {
            return Some(Until::Ended);
        }
        std::thread::sleep(pause.min(Duration::from_nanos(left_ns)));
        None
    }
}
