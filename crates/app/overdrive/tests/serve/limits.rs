//! Limits of the system: an impossible request is refused with a sentence that names the limit.

use crate::common::{Ended, OVERDRIVE, is_root, run};
use crate::home::Home;
use crate::mounted::plain;
use std::fs;
use std::path::PathBuf;

/// Runs a shell line that ends with the command, in a new home.
fn in_shell(line: &str) -> Ended {
    let home = Home::new();
    let runtime = format!("XDG_RUNTIME_DIR={}", home.runtime().display());
    run("env", &[&runtime, "sh", "-c", &format!("{line} exec \"$@\""), "sh", OVERDRIVE])
}

#[test]
fn too_few_open_files_are_named_with_the_limit() {
    let serve = |limit: u32| {
        in_shell(&format!(
            "ulimit -n {limit}; set -- \"$1\" serve ram:1M --memory 1M -q --run true;"
        ))
    };
    for limit in [32, 255] {
        serve(limit)
            .refused(4, &["RLIMIT_NOFILE", &limit.to_string(), "ulimit -n", "LimitNOFILE="]);
    }
    serve(512).well();
    // A soft limit is raised as far as required.
    in_shell("ulimit -S -n 32; set -- \"$1\" serve ram:1M --memory 1M -q --run true;").well();
}

#[test]
fn a_config_file_without_an_end_is_not_read_to_its_end() {
    let home = Home::new();
    home.overdrive(&["serve", "--config", "/dev/zero"]).refused(2, &["/dev/zero", "at most 1 MiB"]);
    home.overdrive(&["drive", "models", "--check", "/dev/zero"]).refused(1, &["1 MiB"]);
}

/// A control group of this test, removed with it.
struct Group(PathBuf);

impl Group {
    /// Makes one; `None`, with a printed reason, if none can be made.
    fn limited_to(mebibytes: u64) -> Option<Group> {
        let (first, second) = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup");
        let is_first = fs::exists(first).unwrap_or(false);
        let (root, limit) = match is_first {
            true => (first, "memory.limit_in_bytes"),
            false => (second, "memory.max"),
        };
        let path = PathBuf::from(root).join(format!("overdrive-test-{}", std::process::id()));
        let made = fs::create_dir(&path).map(|()| Group(path));
        let limited = made.and_then(|group| {
            fs::write(group.0.join(limit), (mebibytes << 20).to_string()).map(|()| group)
        });
        limited.map_err(|error| println!("skipped: no control group with a limit: {error}")).ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn more_memory_than_a_control_group_allows_is_refused_rather_than_killed() {
    if !is_root() {
        println!("skipped: making control groups needs root");
        return;
    }
    let meminfo = fs::read_to_string("/proc/meminfo").expect("Linux");
    if !meminfo.lines().any(|line| line.split_whitespace().eq(["HugePages_Free:", "0"])) {
        println!("skipped: huge pages are free, and those are not the group's");
        return;
    }
    let Some(group) = Group::limited_to(200) else { return };
    let serve = |memory: &str| {
        in_shell(&format!(
            "echo $$ > {}/cgroup.procs; set -- \"$1\" serve ram:1M --memory {memory} -q --run true;",
            plain(&group.0)
        ))
    };
    // The cache of a small volume is no larger than that.
    serve("1G").well();
    let large = |memory: &str| {
        in_shell(&format!(
            "echo $$ > {}/cgroup.procs; set -- \"$1\" serve null:4G --memory {memory} -q --run true;",
            plain(&group.0)
        ))
    };
    for memory in ["190M", "1G"] {
        large(memory).refused(2, &["control group", "limit of 200 MiB", "request less"]);
    }
    large("64M").well();
}
