//! The clock that measures other programs, which run on no lane.

use anyhow::Context;
use rustix::process::{Pid, WaitId, WaitIdOptions};
use std::fmt;
use std::process::Child;
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

/// Waits until a child has ended, but leaves its status to `Child::wait`. Returns the processor
/// time of the child and of the processes that it has waited for.
///
/// # Errors
/// The child was waited for already.
pub(crate) fn processor_of_ended(child: &Child) -> anyhow::Result<Duration> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(Pid::from_child(child)), options)
        .context("cannot wait for a child")?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    Ok(duration(ticks(&stat, UTIME, 4)))
}

/// Processor time of the children that this process has waited for, and of their children.
fn children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    duration(ticks(&stat, CUTIME, 2))
}

fn duration(ticks: Option<u64>) -> Duration {
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
    Duration::from_secs(ticks.unwrap_or(0)) / per_second
}

/// Fields of proc_pid_stat(5), counted from the third: utime, stime, cutime, cstime. The third is
/// the first behind the last parenthesis; the second may contain any characters.
const UTIME: usize = 11;
const CUTIME: usize = 13;

/// Returns the sum of these fields.
fn ticks(stat: &str, first: usize, count: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().skip(first).take(count).collect();
    (fields.len() == count).then(|| fields.iter().map(|field| field.parse::<u64>().ok()).sum())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_processor_time_are_found_behind_any_name() {
        let stat = "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 130 14 15 16";
        assert_eq!(ticks(stat, CUTIME, 2), Some(130 + 14));
        assert_eq!(ticks(stat, UTIME, 4), Some(11 + 12 + 130 + 14));
        assert_eq!(ticks("7 (a) S 1", CUTIME, 2), None);
    }

    #[test]
    fn what_a_child_spends_is_measured() -> std::io::Result<()> {
        let watch = Watch::start();
        let spins = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        assert!(std::process::Command::new("sh").args(["-c", spins]).status()?.success());
        let cost = watch.cost();
        assert!(cost.processor > Duration::ZERO, "{cost}");
        let mut one = std::process::Command::new("sh").args(["-c", spins]).spawn()?;
        let processor = processor_of_ended(&one).expect("it was not waited for");
        assert!(processor > Duration::ZERO && one.wait()?.success());
        Ok(())
    }
}
