//! Checks the requirements of `overdrive attach`: nodes of the kernel, and the permissions of a
//! process on which the memory of others depends.

use super::kernel::parse;
use super::{Check, Group, State};
use block::Size;
use rustix::process::{configure_io_flusher_behavior, is_io_flusher};
use std::fs;
use std::path::Path;

/// The first kernel that resends the requests that a killed server of a FUSE file system has not
/// answered.
const RESENDS: (u32, u32) = (6, 9);
/// Amount of dirty data in the kernel above a device that counts as large, in bytes.
const DIRTY_MUCH: u64 = 4 << 30;

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![root(), node("/dev/fuse", "fuse"), node("/dev/loop-control", "loop")];
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    checks.extend([ublk(), resend(&release), flusher(), dirty()]);
    checks
}

fn check(name: &'static str, state: State, found: impl Into<String>) -> Check {
    Check::new(Group::Attach, name, state, found)
}

fn root() -> Check {
    match rustix::process::geteuid().is_root() {
        true => check("devices", State::Ok, "root: may create them"),
        false => check("devices", State::Missing, "only root may create them")
            .mend("run attach with sudo"),
    }
}

fn node(path: &'static str, module: &str) -> Check {
    match Path::new(path).exists() {
        true => check(path, State::Ok, "present"),
        false => check(path, State::Missing, "missing").mend(format!("modprobe {module}")),
    }
}

fn ublk() -> Check {
    match Path::new("/dev/ublk-control").exists() {
        true => check("ublk_drv", State::Ok, "present: the best route to a device"),
        false => {
            let found = "missing: devices are made with a loop device over FUSE";
            check("ublk_drv", State::Limited, found).mend("modprobe ublk_drv, if the kernel has it")
        }
    }
}

fn resend(release: &str) -> Check {
    let name = "killed daemons";
    match parse(release) {
        Some(found) if found >= RESENDS => {
            check(name, State::Ok, "unanswered requests are sent again to the next daemon")
        }
        _ => check(name, State::Limited, "requests that they have received and not answered fail")
            .mend("use Linux 6.9 or later"),
    }
}

/// Checks whether the daemon may be marked as one on which freeing memory depends. Tried, and
/// undone.
fn flusher() -> Check {
    let name = "short memory";
    let was = is_io_flusher().unwrap_or(false);
    match configure_io_flusher_behavior(true) {
        Ok(()) => {
            let _ = configure_io_flusher_behavior(was);
            check(name, State::Ok, "the daemon waits for no I/O, and is not killed")
        }
        Err(_) => {
            let found = "the daemon may wait for I/O of its own device, or be killed to free \
                         memory";
            check(name, State::Limited, found)
                .mend("give it CAP_SYS_RESOURCE; in a container, --cap-add")
        }
    }
}

/// Checks the maximum of dirty data in the kernel above a device, which Overdrive cannot see.
/// (FUSE's own limit, 1 % of memory, does not count: the files of devices are written around the
/// page cache.)
fn dirty() -> Check {
    let number = |name: &str| -> u64 {
        let text = fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let memory = host::memory_of_machine().unwrap_or(0);
    judged(dirty_most(number("dirty_bytes"), number("dirty_ratio"), memory))
}

/// Returns the limit from two settings of the kernel, of which the first counts if it is not 0.
fn dirty_most(bytes: u64, ratio: u64, memory: u64) -> u64 {
    if bytes > 0 { bytes } else { memory / 100 * ratio }
}

fn judged(most: u64) -> Check {
    let found = format!(
        "up to {} of written data stay in the page cache above a device until a program syncs",
        Size(most >> 20 << 20)
    );
    match most <= DIRTY_MUCH {
        true => check("page cache", State::Ok, found),
        false => check("page cache", State::Limited, found)
            .mend("limit it as for any disk: sysctl vm.dirty_bytes=1073741824"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_do_not_ask_again() {
        assert_eq!(resend("6.9.0").state, State::Ok);
        assert_eq!(resend("6.8.12-generic").state, State::Limited);
        assert_eq!(resend("strange").state, State::Limited);
    }

    #[test]
    fn bytes_count_before_the_ratio() {
        assert_eq!(dirty_most(5, 20, 1000), 5);
        assert_eq!(dirty_most(0, 20, 1000), 200);
        assert_eq!(judged(1 << 30).state, State::Ok);
        assert!(judged(64 << 30).mend.is_some());
    }
}
