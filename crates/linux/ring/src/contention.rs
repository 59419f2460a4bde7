//! Detects a shortage of processors for this lane: polling would then take processor time from
//! waiting threads.
//!
//! Reads from the kernel at intervals: the time that this thread was runnable and waited
//! (`/proc/thread-self/schedstat`), and the number of times that a quota has stopped its control
//! groups (`nr_throttled` in `cpu.stat`).

use host::own_groups;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Interval between two readings, in nanoseconds.
const READING_INTERVAL_NS: u64 = 10_000_000;
/// Waiting for more than one in this number of nanoseconds is contention.
const WAITED_PART: u64 = 20;

/// The kernel's counts.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Reading {
    at_ns: u64,
    waited_ns: u64,
    throttled: u64,
}

/// State of a lane's thread.
pub(crate) struct Contention {
    /// None: the kernel does not provide it; then the thread never counts as calm.
    thread: Option<OwnedFd>,
    groups: Vec<OwnedFd>,
    before: Option<Reading>,
    is_calm: bool,
}

fn open(path: impl AsRef<Path>) -> Option<OwnedFd> {
    rustix::fs::open(path.as_ref(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn read<T>(file: &OwnedFd, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; 1024];
    let length = rustix::io::pread(file, &mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// Parses the waiting time of `RAN WAITED SLICES`, in nanoseconds.
fn waited(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn throttled(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
}

fn is_calm(before: &Reading, now: &Reading) -> bool {
    let waited_ns = now.waited_ns.saturating_sub(before.waited_ns);
    let elapsed_ns = now.at_ns.saturating_sub(before.at_ns);
    waited_ns <= elapsed_ns / WAITED_PART && now.throttled == before.throttled
}

impl Contention {
    /// Opens the files. Call it on the lane's thread.
    pub(crate) fn open() -> Contention {
        let groups = own_groups("cpu");
        Contention {
            thread: open("/proc/thread-self/schedstat"),
            groups: groups.iter().filter_map(|group| open(group.path.join("cpu.stat"))).collect(),
            before: None,
            is_calm: false,
        }
    }

    fn reading(&self, at_ns: u64) -> Option<Reading> {
        let waited_ns = read(self.thread.as_ref()?, waited)?;
        // The outermost group has no quota, and no such line.
        let throttled = self.groups.iter().filter_map(|group| read(group, throttled)).sum();
        Some(Reading { at_ns, waited_ns, throttled })
    }

    /// Returns whether processors were available recently; false on the first call. Makes a few
    /// system calls at most every 10 ms.
    pub(crate) fn is_calm(&mut self, now_ns: u64) -> bool {
        let is_due = self.before.is_none_or(|before| now_ns >= before.at_ns + READING_INTERVAL_NS);
        if is_due {
            let now = self.reading(now_ns);
            let both = self.before.as_ref().zip(now.as_ref());
            self.is_calm = both.is_some_and(|(before, now)| is_calm(before, now));
            self.before = now;
        }
        self.is_calm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(waited("2714338 43 1\n"), Some(43));
        assert_eq!(waited(""), None);
        let text = "nr_periods 10\nnr_throttled 3\nthrottled_usec 99\n";
        assert_eq!(throttled(text), Some(3));
        assert_eq!(throttled("usage_usec 5\n"), None);
    }

    #[test]
    fn waits_of_its_own_and_a_quota_are_contention() {
        let before = Reading { at_ns: 0, waited_ns: 500, throttled: 3 };
        let after = |waited_ns, throttled| Reading { at_ns: 1000, waited_ns, throttled };
        assert!(is_calm(&before, &after(550, 3)));
        assert!(!is_calm(&before, &after(551, 3)));
        assert!(!is_calm(&before, &after(500, 4)));
    }

    #[test]
    fn readings_are_made_at_intervals_and_the_first_is_not_calm() {
        let mut contention = Contention::open();
        assert!(!contention.is_calm(0), "nothing to compare with");
        let first = contention.before;
        contention.is_calm(READING_INTERVAL_NS - 1);
        assert_eq!(contention.before, first, "it does not look again so soon");
        // A thread cannot have waited for a twentieth of a million seconds.
        assert_eq!(contention.is_calm(1_000_000_000_000_000), first.is_some());
    }
}
