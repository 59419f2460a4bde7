//! Checks memory: how much is available for a cache, and of which kind.

use super::{Check, Group, State};
use block::Size;
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Default memory of `serve`.
const USUAL: u64 = 1 << 30;
/// Minimum memory of a cache.
const LEAST: u64 = 1 << 20;

pub(super) fn checks() -> Vec<Check> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = host::memory_left_in_groups();
    vec![available(&meminfo, groups), huge_pages(&meminfo), locked(), pressure()]
}

/// Returns a line of /proc/meminfo, in its own unit.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Checks the available memory. `groups`: the limit by control groups, if there is one.
fn available(meminfo: &str, groups: Option<u64>) -> Check {
    let check = |state, found| Check::new(Group::Serve, "memory", state, found);
    let Some(kib) = field(meminfo, "MemAvailable") else {
        return check(State::Limited, "/proc/meminfo cannot be parsed".into())
            .mend("choose --memory yourself");
    };
    let machine = kib * 1024;
    let bytes = groups.map_or(machine, |left| left.min(machine));
    let whose = if bytes < machine { " in this control group" } else { "" };
    let found = format!("{} available{whose}", Size(bytes));
    if bytes < LEAST {
        return check(State::Missing, found).mend("end other programs");
    }
    if bytes < USUAL * 2 {
        let mend = format!("use serve with --memory {}M", (bytes / 4) >> 20);
        return check(State::Limited, format!("{found}; serve uses 1 GiB by default")).mend(mend);
    }
    check(State::Ok, found)
}

fn huge_pages(meminfo: &str) -> Check {
    let size = field(meminfo, "Hugepagesize").unwrap_or(0) * 1024;
    let free = field(meminfo, "HugePages_Free").unwrap_or(0) * size;
    let check = |state, found| Check::new(Group::Serve, "huge pages", state, found);
    if free >= USUAL {
        return check(State::Ok, format!("{} free", Size(free)));
    }
    let check = check(State::Limited, format!("{} free: hits take longer", Size(free)));
    if size == 0 {
        return check.mend("this kernel has none; ordinary pages are used");
    }
    let pages = (USUAL + USUAL / 64).div_ceil(size);
    check.mend(format!("as root: sysctl vm.nr_hugepages={pages} (enough for 1 GiB of cache)"))
}

fn locked() -> Check {
    let limit = getrlimit(Resource::Memlock).current.filter(|_| !host::may_lock_all());
    locked_up_to(limit)
}

/// Checks a limit of this many bytes (None: there is none).
fn locked_up_to(limit: Option<u64>) -> Check {
    let check = |state, found| Check::new(Group::Serve, "locked memory", state, found);
    let Some(bytes) = limit else {
        return check(State::Ok, "unlimited: serve locks itself and its cache".into());
    };
    let cache = match bytes >= USUAL + USUAL / 64 {
        true => "enough for 1 GiB of cache",
        false => "less than 1 GiB of cache needs",
    };
    let found = format!(
        "at most {}, {cache}; serve continues without, but unlocked memory may be swapped out, \
         and writeback may then wait for a disk",
        Size(bytes)
    );
    check(State::Limited, found)
        .mend("ulimit -l unlimited as root, or LimitMEMLOCK=infinity in a systemd unit")
}

fn pressure() -> Check {
    let readable = fs::read_to_string("/proc/pressure/memory").is_ok();
    let (state, found) = match readable {
        true => (State::Ok, "readable"),
        false => (State::Limited, "the kernel does not report it"),
    };
    let found = format!("{found}; Overdrive does not need it");
    Check::new(Group::Also, "memory pressure", state, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       4096 kB\nMemAvailable:   3145728 kB\n\
                           HugePages_Free:      600\nHugepagesize:       2048 kB\n";

    #[test]
    fn meminfo_is_read() {
        assert_eq!(field(MEMINFO, "MemAvailable"), Some(3_145_728));
        assert_eq!(field(MEMINFO, "HugePages_Free"), Some(600));
        assert_eq!(field(MEMINFO, "Mem"), None);
        assert_eq!(available(MEMINFO, None).state, State::Ok);
        assert_eq!(huge_pages(MEMINFO).state, State::Ok);
    }

    #[test]
    fn a_limit_of_locked_memory_is_reported_with_what_follows() {
        assert_eq!(locked_up_to(None).state, State::Ok);
        let little = locked_up_to(Some(8 << 20));
        assert_eq!((little.state, little.group), (State::Limited, Group::Serve));
        assert!(little.found.contains("at most 8 MiB, less than 1 GiB"), "{}", little.found);
        assert!(little.mend.expect("a mend").contains("LimitMEMLOCK"));
        assert!(locked_up_to(Some(2 << 30)).found.contains("enough for 1 GiB"));
    }

    #[test]
    fn little_memory_is_limited_and_none_is_missing() {
        let less = available("MemAvailable: 1048576 kB\n", None);
        assert_eq!(less.state, State::Limited);
        assert_eq!(less.mend.as_deref(), Some("use serve with --memory 256M"));
        assert_eq!(available("MemAvailable: 512 kB\n", None).state, State::Missing);
        assert_eq!(available("", None).state, State::Limited);
        let group = available(MEMINFO, Some(1 << 30));
        assert_eq!(group.state, State::Limited);
        assert!(group.found.contains("1 GiB available in this control group"), "{}", group.found);
        let none = huge_pages("HugePages_Free: 0\nHugepagesize: 2048 kB\n");
        assert!(none.mend.expect("a mend").contains("vm.nr_hugepages=520"));
    }
}
