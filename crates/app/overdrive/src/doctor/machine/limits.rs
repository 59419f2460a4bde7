//! Checks the limits of the control groups of this process.

use super::{Finding, Machine};
use block::Size;
use host::{Generation, Group, own_groups_in};
use std::fs;

/// Judges the limits of all groups around this process: first those that were hit.
pub(super) fn limits(machine: &Machine) -> Vec<Finding> {
    let groups = |controller| own_groups_in(&machine.root, controller);
    let mut found: Vec<Finding> = groups("memory").iter().filter_map(memory).collect();
    found.extend(groups("cpu").iter().filter_map(processors));
    found.extend(groups("io").iter().filter_map(io));
    if found.is_empty() {
        found.push(Finding::ok("no limit of doctor's own group has been reached"));
    }
    found
}

fn text(group: &Group, file: &str) -> Option<String> {
    Some(fs::read_to_string(group.path.join(file)).ok()?.trim().to_owned())
}

/// Returns a number of a file with lines of a key and a number.
fn keyed(group: &Group, file: &str, key: &str) -> Option<u64> {
    let text = text(group, file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

fn memory(group: &Group) -> Option<Finding> {
    let place = group.path.display();
    let (limit, hits, file) = match group.generation {
        Generation::First => {
            let hits = text(group, "memory.failcnt")?.parse().ok()?;
            (text(group, "memory.limit_in_bytes")?, hits, "memory.limit_in_bytes")
        }
        Generation::Second => {
            let hits = |key| keyed(group, "memory.events", key).unwrap_or(0);
            match hits("max") {
                0 => (text(group, "memory.high")?, hits("high"), "memory.high"),
                max => (text(group, "memory.max")?, max, "memory.max"),
            }
        }
    };
    let bytes: u64 = limit.parse().ok()?;
    (hits > 0).then(|| {
        Finding::costs(
            format!("memory of {place} is limited to {}, reached {hits} times", Size(bytes)),
            format!(
                "at each of the {hits} times, the program that needed memory had to free some itself \
                 first (counted on this machine; direct reclaim in the kernel's \
                 Documentation/admin-guide/cgroup-v2.rst, memory.events)"
            ),
            format!("as root: echo {} > {place}/{file}, or a smaller --memory", bytes * 2),
        )
    })
}

fn processors(group: &Group) -> Option<Finding> {
    let periods = keyed(group, "cpu.stat", "nr_periods")?;
    let throttled = keyed(group, "cpu.stat", "nr_throttled").filter(|count| *count > 0)?;
    let ns = match group.generation {
        Generation::First => keyed(group, "cpu.stat", "throttled_time")?,
        Generation::Second => keyed(group, "cpu.stat", "throttled_usec")? * 1000,
    };
    let (file, value) = match group.generation {
        Generation::First => ("cpu.cfs_quota_us", "-1"),
        Generation::Second => ("cpu.max", "max"),
    };
    let place = group.path.display();
    Some(Finding::costs(
        format!("processors of {place} are limited"),
        format!(
            "stopped in {throttled} of {periods} periods, {:.1} s in all: requests wait up to a \
             period, usually 100 ms (measured on this machine)",
            ns as f64 / 1e9
        ),
        format!("as root: echo {value} > {place}/{file}"),
    ))
}

fn io(group: &Group) -> Option<Finding> {
    let limits = text(group, "io.max").filter(|text| !text.is_empty())?;
    let place = group.path.display();
    let device = limits.split_whitespace().next().unwrap_or_default().to_owned();
    let finding = Finding::costs(
        format!("I/O of {place} is limited: {}", limits.replace('\n', "; ")),
        "requests beyond it are delayed: misses and writeback; hits do not count (the kernel's \
         Documentation/admin-guide/cgroup-v2.rst, io.max)",
        format!(
            "as root: echo \"{device} rbps=max wbps=max riops=max wiops=max\" > {place}/io.max"
        ),
    );
    Some(finding.limited())
}
