//! A control group whose page cache is limited to a size.
//!
//! The kernel can only limit all memory of a group together, so the limit is the size plus the
//! memory that the group's programs have allocated, from the group's own statistics. Sources: the
//! kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File names of the two versions of the interface.
#[derive(PartialEq, Debug)]
struct Names {
    limit: &'static str,
    /// Page cache and shared memory.
    cache: &'static str,
    /// Memory of programs besides shared memory.
    private: &'static str,
}

const FIRST: Names = Names { limit: "memory.limit_in_bytes", cache: "cache", private: "rss" };
const SECOND: Names = Names { limit: "memory.max", cache: "file", private: "anon" };

/// Memory use of the group, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Use {
    page_cache: u64,
    own: u64,
}

/// Memory for the start of a program: with too little, the kernel would kill it.
const STARTING_BYTES: u64 = 64 << 20;
/// Number of checks until a program counts as started. It cannot read much in that time.
const STARTING_LOOKS: u32 = 10;

/// A control group; removed when dropped.
pub(super) struct Cgroup {
    path: PathBuf,
    names: &'static Names,
    page_cache_max: u64,
    limit: Cell<u64>,
    looks: Cell<u32>,
    peak: Cell<u64>,
}

fn usage(names: &Names, stat: &str, kernel: Option<&str>) -> Use {
    let value = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0u64)
    };
    let shared = value("shmem");
    // In version 1, kernel memory has a separate file.
    let kernel = kernel.map_or(value("kernel"), |text| text.trim().parse().unwrap_or(0));
    Use {
        page_cache: value(names.cache).saturating_sub(shared),
        own: value(names.private) + shared + kernel,
    }
}

/// Returns the directory in which groups with a memory limit can be made, from the list of mounts.
fn root(mounts: &str) -> Result<(PathBuf, &'static Names), String> {
    let mut second = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(path), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if kind == "cgroup" && options.split(',').any(|option| option == "memory") {
            return Ok((PathBuf::from(path), &FIRST));
        }
        if kind == "cgroup2" {
            second = Some(PathBuf::from(path));
        }
    }
    let path = second.ok_or("no control groups are mounted")?;
    Ok((path, &SECOND))
}

impl Cgroup {
    /// Makes a group for clients whose page cache may hold `page_cache_max` bytes.
    ///
    /// # Errors
    /// The reason why it is not available here, as half a sentence.
    pub(super) fn make(page_cache_max: u64) -> Result<Cgroup, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let (root, names) = root(&mounts)?;
        if *names == SECOND {
            let given = fs::read_to_string(root.join("cgroup.subtree_control"));
            if !given.is_ok_and(|text| text.split_whitespace().any(|word| word == "memory")) {
                return Err(format!(
                    "{} does not enable the memory controller for groups",
                    root.display()
                ));
            }
        }
        let path = root.join(format!("overdrive-demo-{}", std::process::id()));
        fs::create_dir(&path)
            .map_err(|error| format!("no control group can be created ({error})"))?;
        let (limit, looks, peak) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let group = Cgroup { path, names, page_cache_max, limit, looks, peak };
        group
            .begin()
            .map_err(|error| format!("the control group accepts no memory limit ({error})"))?;
        Ok(group)
    }

    /// Prepares the group before a program runs in it.
    pub(super) fn begin(&self) -> io::Result<()> {
        self.looks.set(0);
        // The page cache of an earlier program is dropped if the kernel can do that on demand; its
        // device no longer exists, so the next program cannot use it.
        let _ = fs::write(self.path.join("memory.force_empty"), "0");
        self.set(self.page_cache_max + STARTING_BYTES)
    }

    fn set(&self, limit: u64) -> io::Result<()> {
        if limit != self.limit.get() {
            fs::write(self.path.join(self.names.limit), limit.to_string())?;
            self.limit.set(limit);
        }
        Ok(())
    }

    /// Adjusts the limit to the programs' own memory, plus `extra` bytes. Call this often while one
    /// runs.
    pub(super) fn follow(&self, extra: u64) {
        let read = |name| fs::read_to_string(self.path.join(name)).ok();
        let Some(stat) = read("memory.stat") else { return };
        let kernel = read("memory.kmem.usage_in_bytes");
        let used = usage(self.names, &stat, kernel.as_deref());
        self.peak.set(self.peak.get().max(used.page_cache));
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() > STARTING_LOOKS {
            // If the kernel refuses, the old limit stays, and the next call tries again.
            let _ = self.set(self.page_cache_max + used.own + extra);
        }
    }

    /// Returns the largest page cache seen since the last call.
    pub(super) fn take_peak(&self) -> u64 {
        self.peak.replace(0)
    }

    /// Returns a command that runs this program inside the group.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        // 0 means the process that writes it.
        command.args(["-c", "echo 0 > \"$0\" && exec \"$@\""]);
        command.arg(self.path.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its programs have ended; if the kernel still counts one, an empty group is left behind.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_are_found_and_read() {
        let first = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                     cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        assert_eq!(root(first).expect("there"), ("/sys/fs/cgroup/memory".into(), &FIRST));
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(root(second).expect("there"), ("/sys/fs/cgroup".into(), &SECOND));
        assert!(root("proc /proc proc rw 0 0\n").is_err());

        let stat = "cache 9000\nrss 500\nrss_huge 0\nshmem 1000\n";
        assert_eq!(usage(&FIRST, stat, Some("70\n")), Use { page_cache: 8000, own: 1570 });
        let stat = "anon 500\nfile 9000\nkernel 70\nkernel_stack 16\nshmem 1000\n";
        assert_eq!(usage(&SECOND, stat, None), Use { page_cache: 8000, own: 1570 });
        assert_eq!(usage(&SECOND, "garbage", None), Use { page_cache: 0, own: 0 });
    }
}
