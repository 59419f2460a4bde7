//! The clock that measures other programs, which run on no lane.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::time::{Duration, Instant, SystemTime};

/// The current time.
#[allow(clippy::disallowed_methods, reason = "no lane here: this times other programs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Number of days since 1970-01-01, in UTC.
pub(crate) fn day() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / 86_400)
}

/// Cost of a command.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    /// Processor time, user and system, of all processors together. Unlike the elapsed time, it
    /// hardly grows on a busy machine.
    pub(crate) processor: Duration,
}

impl fmt::Display for Cost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:>7.1} s {:>7.1} s", self.time.as_secs_f64(), self.processor.as_secs_f64())
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { time: self.time + other.time, processor: self.processor + other.processor }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Self::add)
    }
}

/// Measures the cost of programs that this process starts and waits for.
pub(crate) struct Watch {
    start: Instant,
    before: Duration,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self { start: now(), before: children() }
    }

    /// Returns the cost since the start.
    pub(crate) fn cost(&self) -> Cost {
        let processor = children().saturating_sub(self.before);
        Cost { time: self.start.elapsed(), processor }
    }
}

/// Processor time of the children that this process has waited for, and of their children.
fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = ticks_of_children(&stat).unwrap_or(0);
    Duration::from_secs(ticks)
        / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100)
}

/// Parses the fields cutime and cstime of proc_pid_stat(5). The second field may contain any
/// characters, but ends with the last parenthesis.
fn ticks_of_children(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_children_are_found_behind_any_name() {
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 130 14 15 16";
        assert_eq!(ticks_of_children(stat), Some(130 + 14));
        assert_eq!(ticks_of_children("7 (a) S 1"), None);
    }

    #[test]
    fn what_a_child_spends_is_measured() -> std::io::Result<()> {
        let watch = Watch::start();
        let spins = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        assert!(std::process::Command::new("sh").args(["-c", spins]).status()?.success());
        let cost = watch.cost();
        assert!(cost.processor > Duration::ZERO, "{cost}");
        assert_eq!([cost, Cost::default()].into_iter().sum::<Cost>(), cost);
        Ok(())
    }
}
