//! Available memory: of the machine, and in the control groups of this process.
//!
//! The kernel does not refuse memory beyond a group's limit: it kills the process. So the limits
//! are checked before an allocation. Sources: the kernel's
//! Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.

use crate::groups::{Generation, Group, own_groups};
use std::fs;

/// Size of a huge page, in bytes.
pub const HUGE: usize = 2 << 20;
/// Memory that a process needs in a group besides the requested memory and an index (a 64th of it).
const OVERHEAD_BYTES: u64 = 16 << 20;

/// Returns a number from /proc/meminfo, in its own unit.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Checks that `bytes` of 2 MiB pages are free in the pool.
pub fn huge_pages_free(meminfo_text: &str, bytes: usize) -> Result<(), String> {
    let number = |name| meminfo(meminfo_text, name).unwrap_or(0);
    let free = number("HugePages_Free").saturating_sub(number("HugePages_Rsvd"));
    let needed = bytes.div_ceil(HUGE) as u64;
    if number("Hugepagesize") != HUGE as u64 / 1024 || free < needed {
        return Err(format!(
            "{needed} huge pages of 2 MiB are needed, but only {free} are free; reserve them with: \
             sysctl vm.nr_hugepages={needed}"
        ));
    }
    Ok(())
}

/// Checks that the machine, and every control group of this process, have `bytes` available.
pub fn enough_memory(meminfo_text: &str, bytes: usize) -> Result<(), String> {
    let bytes = bytes as u64;
    match meminfo(meminfo_text, "MemAvailable") {
        Some(kibibytes) if kibibytes.saturating_mul(1024) < bytes => {
            return Err(format!(
                "{} of memory are requested, but only {} are available; request less, or free some",
                mebibytes(bytes),
                mebibytes(kibibytes * 1024)
            ));
        }
        _ => {}
    }
    own_groups("memory").iter().try_for_each(|group| enough_in(group, bytes))
}

/// Checks that the machine, and every control group of this process, have `bytes` available.
///
/// # Errors
/// A sentence with the available amount.
pub fn check_memory_available(bytes: u64) -> Result<(), String> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    enough_memory(&text, usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Returns the memory of the whole machine, in bytes. None: unknown.
pub fn memory_of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    meminfo(&text, "MemTotal")?.checked_mul(1024)
}

/// Returns the memory that the control groups of this process still allow, in bytes. None: they
/// have no limit.
pub fn memory_left_in_groups() -> Option<u64> {
    own_groups("memory").iter().filter_map(left_in).map(|(_, free)| free).min()
}

/// File names of the two generations of the interface.
struct Names {
    limit: &'static str,
    used: &'static str,
    /// Page cache, which the kernel can reclaim.
    cache: [&'static str; 2],
}

const FIRST: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
};
const SECOND: Names =
    Names { limit: "memory.max", used: "memory.current", cache: ["inactive_file", "active_file"] };

fn names(generation: Generation) -> &'static Names {
    match generation {
        Generation::First => &FIRST,
        Generation::Second => &SECOND,
    }
}

/// Returns a group's limit, and the memory left below it. None: the group has no readable limit.
fn left_in(group: &Group) -> Option<(u64, u64)> {
    let read = |name| fs::read_to_string(group.path.join(name)).unwrap_or_default();
    let number = |text: String| text.trim().parse::<u64>().ok();
    let names = names(group.generation);
    let (limit, used) = (number(read(names.limit))?, number(read(names.used))?);
    let stat = read("memory.stat");
    let value = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0u64)
    };
    let cache: u64 = names.cache.iter().map(|name| value(name)).sum();
    Some((limit, limit.saturating_sub(used.saturating_sub(cache))))
}

/// Checks that a group has `bytes` available.
fn enough_in(group: &Group, bytes: u64) -> Result<(), String> {
    let Some((limit, free)) = left_in(group) else { return Ok(()) };
    let needed = bytes.saturating_add(bytes / 64).saturating_add(OVERHEAD_BYTES);
    if needed <= free {
        return Ok(());
    }
    Err(format!(
        "{} of memory are requested, but the control group {} leaves {} of its limit of {}, of \
         which the rest of the process needs {}: the kernel would kill it; request less, or raise \
         the limit (MemoryMax= in a systemd unit, --memory of a container)",
        mebibytes(bytes),
        group.path.display(),
        mebibytes(free),
        mebibytes(limit),
        mebibytes(needed - bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_cache_counts_as_available_within_the_limit_of_a_group() {
        let directory = tempfile::tempdir().expect("room");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("room");
        };
        let group = Group { path: directory.path().to_owned(), generation: Generation::Second };
        let has = |mebibytes: u64| enough_in(&group, mebibytes << 20);
        assert_eq!(has(1 << 20), Ok(()), "it tells nothing");
        write("memory.current", "125829120\n");
        write("memory.max", "max\n");
        assert_eq!(has(1 << 20), Ok(()), "no limit");
        // 200 MiB, of which 120 are used, of which 40 are page cache.
        write("memory.max", "209715200\n");
        write("memory.stat", "anon 1\ninactive_file 31457280\nactive_file 10485760\n");
        assert_eq!(has(100), Ok(()));
        let refused = has(110).expect_err("too much with what the process needs itself");
        for word in ["110 MiB", "120 MiB of its limit of 200 MiB", "MemoryMax="] {
            assert!(refused.contains(word), "no '{word}' in {refused}");
        }
    }
}
