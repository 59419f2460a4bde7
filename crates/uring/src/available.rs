//! How much memory there is to be had: of the machine, and in the control groups of this process.
//!
//! Memory beyond a group's limit is not refused by the kernel: it ends the process. So the limits are looked
//! at before. Sources: the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst,
//! proc_pid_mountinfo(5).

use std::fs;
use std::path::{Path, PathBuf};

/// A huge page.
pub(crate) const HUGE: usize = 2 << 20;
/// What a process needs in a group beside the memory that is asked for: an index of a 64th, and this.
const BESIDE: u64 = 16 << 20;

/// A number from /proc/meminfo, as it stands there.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    })
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Whether `bytes` of 2 MiB pages are free in the pool.
pub(crate) fn huge_pages_free(meminfo_text: &str, bytes: usize) -> Result<(), String> {
    let number = |name| meminfo(meminfo_text, name).unwrap_or(0);
    let free = number("HugePages_Free").saturating_sub(number("HugePages_Rsvd"));
    let needed = bytes.div_ceil(HUGE) as u64;
    if number("Hugepagesize") != HUGE as u64 / 1024 || free < needed {
        return Err(format!(
            "{needed} huge pages of 2 MiB are needed and {free} are free; reserve them with: \
             sysctl vm.nr_hugepages={needed}"
        ));
    }
    Ok(())
}

/// Whether the machine, and every control group that this process is in, have `bytes` to give.
pub(crate) fn enough(meminfo_text: &str, bytes: usize) -> Result<(), String> {
    let bytes = bytes as u64;
    match meminfo(meminfo_text, "MemAvailable") {
        Some(kibibytes) if kibibytes.saturating_mul(1024) < bytes => {
            return Err(format!(
                "{} of memory are asked for and {} are available; ask for less, or free some",
                mebibytes(bytes),
                mebibytes(kibibytes * 1024)
            ));
        }
        _ => {}
    }
    own_groups().iter().try_for_each(|group| enough_in(group, bytes))
}

/// The memory of the whole machine, in bytes. `None`: it cannot be told.
pub fn memory_of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    meminfo(&text, "MemTotal")?.checked_mul(1024)
}

fn own_groups() -> Vec<Group> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    groups(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// What the control groups of this process leave it, in bytes; None: they do not limit it.
pub fn memory_left_in_groups() -> Option<u64> {
    own_groups().iter().filter_map(left_in).map(|(_, free)| free).min()
}

/// The names of the two generations of the interface.
#[derive(PartialEq, Debug)]
struct Names {
    limit: &'static str,
    used: &'static str,
    /// Page cache, which gives way.
    cache: [&'static str; 2],
}

const FIRST: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
};
const SECOND: Names =
    Names { limit: "memory.max", used: "memory.current", cache: ["inactive_file", "active_file"] };

/// A control group that may limit memory.
#[derive(PartialEq, Debug)]
struct Group {
    path: PathBuf,
    names: &'static Names,
}

/// Where the groups of a generation are mounted, and which group is mounted there.
fn mounted<'a>(mounts: &'a str, names: &Names) -> Option<(&'a Path, &'a Path)> {
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let (mut front, mut back) = (front.split(' ').skip(3), back.split(' '));
        let (root, point) = (front.next()?, front.next()?);
        let (kind, options) = (back.next()?, back.nth(1)?);
        let fits = match *names == FIRST {
            true => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
            false => kind == "cgroup2",
        };
        fits.then(|| (Path::new(root), Path::new(point)))
    })
}

/// The groups that this process is in, from its own up to the outermost that can be seen.
fn groups(own: &str, mounts: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let names = match controllers {
            "" => &SECOND,
            _ if controllers.split(',').any(|one| one == "memory") => &FIRST,
            _ => continue,
        };
        let Some((root, point)) = mounted(mounts, names) else { continue };
        // In a container what is mounted may be a group far down.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let below = below.strip_prefix("/").unwrap_or(below);
        let ancestors = below.ancestors().map(|below| Group { path: point.join(below), names });
        groups.extend(ancestors);
    }
    groups
}

/// A group's limit, and what is left of it. None: it tells nothing, so it limits nothing.
fn left_in(group: &Group) -> Option<(u64, u64)> {
    let read = |name| fs::read_to_string(group.path.join(name)).unwrap_or_default();
    let number = |text: String| text.trim().parse::<u64>().ok();
    let (limit, used) = (number(read(group.names.limit))?, number(read(group.names.used))?);
    let stat = read("memory.stat");
    let value = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0u64)
    };
    let cache: u64 = group.names.cache.iter().map(|name| value(name)).sum();
    Some((limit, limit.saturating_sub(used.saturating_sub(cache))))
}

/// Whether a group has `bytes` to give.
fn enough_in(group: &Group, bytes: u64) -> Result<(), String> {
    let Some((limit, free)) = left_in(group) else { return Ok(()) };
    let needed = bytes.saturating_add(bytes / 64).saturating_add(BESIDE);
    if needed <= free {
        return Ok(());
    }
    Err(format!(
        "{} of memory are asked for, and the control group {} leaves {} of its limit of {}, from which {} \
         go to the rest of the process: the kernel would end it; ask for less, or raise the limit \
         (MemoryMax= in a systemd unit, --memory of a container)",
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

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
         32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";

    #[test]
    fn groups_of_both_generations_are_found_with_their_ancestors() {
        let path = |path: &str, names: &'static Names| Group { path: path.into(), names };
        let first = groups("4:memory:/a/b\n2:cpu:/c\n0::/\n", MOUNTS);
        let memory = "/sys/fs/cgroup/memory";
        let expected = [format!("{memory}/a/b"), format!("{memory}/a"), format!("{memory}/")];
        assert_eq!(first, expected.map(|one| path(&one, &FIRST)));
        let second = "40 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = groups("0::/system.slice/x.service\n", second);
        assert_eq!(found[0], path("/sys/fs/cgroup/system.slice/x.service", &SECOND));
        assert_eq!(found.len(), 3);
        // In a container the process is in the group that is mounted.
        let inside = "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found = groups("4:memory:/docker/1\n", inside);
        assert_eq!(found, [path("/sys/fs/cgroup/memory/", &FIRST)]);
        assert_eq!(groups("garbage\n:\n4:memory\n", MOUNTS), []);
    }

    #[test]
    fn a_group_gives_what_its_limit_leaves_and_its_page_cache_gives_way() {
        let directory = tempfile::tempdir().expect("room");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("room");
        };
        let group = Group { path: directory.path().to_owned(), names: &SECOND };
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
