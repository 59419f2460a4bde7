//! Checks the kernel: io_uring, and other features.

use super::{Check, Group, State};
use io_uring::IoUring;
use std::fs;
use std::path::Path;

/// The first kernel with all features of the ring; older ones work, with more wake-ups.
const BEST: (u32, u32) = (6, 1);

pub(super) fn checks() -> Vec<Check> {
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let mut checks = vec![version(), ring(), root(), fuse(), loops(), groups()];
    checks.push(nbd(is_loaded("nbd", "/sys/module/nbd", &modules)));
    checks.push(mapper(is_loaded("dm_mod", "/dev/mapper/control", &modules)));
    checks
}

/// Parses `6.12.3-amd64` as (6, 12).
pub(super) fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn version() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let check = |state| Check::new(Group::Serve, "kernel", state, release.as_str());
    match parse(&release) {
        Some(found) if found >= BEST => check(State::Ok),
        _ => check(State::Limited).mend(
            "use Linux 6.1 or later: io_uring causes fewer wake-ups, and reports how to do \
             direct I/O",
        ),
    }
}

fn ring() -> Check {
    let check = |state, found: String| Check::new(Group::Serve, "io_uring", state, found);
    let lane = lane::Lane::new();
    if let Err(error) = ring::Ring::new(&lane) {
        let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        let mend = match disabled.as_deref().map(str::trim) {
            Ok("1") => "sysctl kernel.io_uring_disabled=0, or join the kernel.io_uring_group",
            Ok("2") => "sysctl kernel.io_uring_disabled=0",
            _ => {
                "allow io_uring in the container's seccomp profile (docker: --security-opt \
                 seccomp=unconfined), or use Linux 5.19 or later"
            }
        };
        return check(State::Missing, format!("no ring can be set up ({error})")).mend(mend);
    }
    match features() {
        Some(list) => check(State::Ok, list),
        None => check(
            State::Limited,
            "a ring works, but without single issuer and deferred work".into(),
        )
        .mend("use Linux 6.1 or later"),
    }
}

/// Returns the features of the best kind of ring; None: there are only plain ones.
fn features() -> Option<String> {
    let ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .build(8)
        .ok()?;
    let found = ring.params();
    let list = [
        ("nodrop", found.is_feature_nodrop()),
        ("ext_arg", found.is_feature_ext_arg()),
        ("fast_poll", found.is_feature_fast_poll()),
        ("native_workers", found.is_feature_native_workers()),
    ];
    let names: Vec<_> = list.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    Some(format!("single issuer, deferred work, {}", names.join(", ")))
}

fn root() -> Check {
    if rustix::process::geteuid().is_root() {
        return Check::new(Group::Demo, "root", State::Ok, "demo: all three columns");
    }
    Check::new(Group::Demo, "root", State::Limited, "not root: demo without the page cache column")
        .mend("run the demo as root once, to see that column")
}

/// Checks a node that this user must be able to open; its absence and its permissions have
/// different remedies.
fn node(name: &'static str, path: &str, what: &str, load: &str) -> Check {
    let check = |state, found| Check::new(Group::Demo, name, state, found);
    if !Path::new(path).exists() {
        return check(State::Limited, format!("no {path}: {what}")).mend(load);
    }
    match fs::File::options().read(true).write(true).open(path) {
        Ok(_) => check(State::Ok, format!("{path}: {what}")),
        Err(error) => check(State::Limited, format!("{path} ({}): {what}", error.kind()))
            .mend("only root may use it here"),
    }
}

fn fuse() -> Check {
    node("fuse", "/dev/fuse", "demo: the page cache column", "modprobe fuse")
}

fn loops() -> Check {
    node("loop", "/dev/loop-control", "demo: the page cache column", "modprobe loop")
}

fn groups() -> Check {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let check = |state, found: &str| Check::new(Group::Demo, "memory cgroup", state, found);
    match memory_controller(&mounts) {
        Some(path) => check(State::Ok, &format!("{path}: demo: the page cache column")),
        None => check(State::Limited, "none: demo without the page cache column")
            .mend("boot with cgroup_enable=memory, or run outside the container"),
    }
}

fn memory_controller(mounts: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let (path, kind, options) = (*fields.get(1)?, *fields.get(2)?, *fields.get(3)?);
        let controllers = || fs::read_to_string(Path::new(path).join("cgroup.controllers"));
        let has = match kind {
            "cgroup" => options.split(',').any(|option| option == "memory"),
            "cgroup2" => {
                controllers().is_ok_and(|text| text.split_whitespace().any(|one| one == "memory"))
            }
            _ => false,
        };
        has.then(|| path.to_owned())
    })
}

/// Whether the kernel has a module, in `/proc/modules` or built in.
fn is_loaded(name: &str, node: &str, modules: &str) -> bool {
    modules.lines().any(|line| line.split(' ').next() == Some(name)) || Path::new(node).exists()
}

fn nbd(is_there: bool) -> Check {
    let check = |state, found| Check::new(Group::Attach, "nbd", state, found);
    match is_there {
        true => check(State::Ok, "present: attach --via nbd can use it"),
        false => check(State::Limited, "missing: attach --via nbd is not possible")
            .mend("modprobe nbd, if the kernel has it; the other routes do not need it"),
    }
}

fn mapper(is_there: bool) -> Check {
    let check = |state, found| Check::new(Group::Also, "device-mapper", state, found);
    match is_there {
        true => check(State::Ok, "present; Overdrive does not need it"),
        false => check(State::Limited, "missing; Overdrive does not need it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(parse("6.12.3-amd64"), Some((6, 12)));
        assert_eq!(parse("5.4"), Some((5, 4)));
        assert_eq!(parse("5.15-rc1"), Some((5, 15)));
        assert_eq!(parse("strange"), None);
    }

    #[test]
    fn a_loaded_module_is_seen() {
        let is_there = |modules| is_loaded("nbd", "/no/such/node", modules);
        assert!(is_there("nbdx 1 0\nnbd 61440 0 - Live 0x0\n") && !is_there("nbdx 1 0\n"));
        assert_eq!((nbd(true).state, nbd(false).state), (State::Ok, State::Limited));
        assert!(nbd(false).mend.is_some() && !nbd(false).found.contains("does not use"));
    }

    #[test]
    fn the_first_generation_of_groups_is_seen_in_its_options() {
        let mounts = "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/memory cgroup rw,memory 0 0\n";
        assert_eq!(memory_controller(mounts).as_deref(), Some("/cg/memory"));
        assert_eq!(memory_controller("proc /proc proc rw 0 0\n"), None);
    }
}
