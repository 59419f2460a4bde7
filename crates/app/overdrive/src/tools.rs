//! Programs of the system that are used, and their packages.

use std::path::{Path, PathBuf};

/// A program, and its purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// The name of the program.
    pub(crate) name: &'static str,
    /// The package that contains it on Debian and Ubuntu.
    pub(crate) package: &'static str,
    /// Its use, for users.
    pub(crate) purpose: &'static str,
    /// The consequence if it is missing.
    pub(crate) need: Need,
}

/// The consequence of a missing tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The demo does not run.
    Demo,
    /// The demo runs without its third column.
    DemoColumn,
    /// Tests of the project do not run.
    Tests,
    /// `overdrive drive health` shows less.
    Convenience,
}

const fn tool(
    name: &'static str,
    package: &'static str,
    need: Need,
    purpose: &'static str,
) -> Tool {
    Tool { name, package, purpose, need }
}

/// All tools, the most important first.
pub(crate) const TOOLS: [Tool; 12] = [
    tool("mkfs.ext4", "e2fsprogs", Need::Demo, "demo: makes the file system in its image"),
    tool("e2fsck", "e2fsprogs", Need::Demo, "demo: verifies that file system"),
    tool("fio", "fio", Need::Demo, "demo, tests: the random workload"),
    tool("nbdcopy", "libnbd-bin", Need::Demo, "demo, tests: copies whole volumes"),
    tool("nbdfuse", "libnbd-bin", Need::DemoColumn, "demo: the page cache column"),
    tool("losetup", "mount", Need::DemoColumn, "demo: the page cache column"),
    tool("nbdinfo", "libnbd-bin", Need::Tests, "tests; shows what an export offers"),
    tool("qemu-img", "qemu-utils", Need::Tests, "tests; converts images from and to raw"),
    tool("qemu-io", "qemu-utils", Need::Tests, "tests: a second client, and its locks"),
    tool("qemu-storage-daemon", "qemu-system-common", Need::Tests, "tests; opens qcow2 as NBD"),
    tool("nbdkit", "nbdkit", Need::Tests, "tests: a peer to compare with"),
    tool("smartctl", "smartmontools", Need::Convenience, "shows the health of drives"),
];

/// Returns a program in PATH, or in the directories of administrators: users of Debian lack
/// /usr/sbin.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Returns the command that installs packages.
pub(crate) fn install(packages: &[&str]) -> String {
    let mut once: Vec<&str> = packages.to_vec();
    once.sort_unstable();
    once.dedup();
    let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
    format!("{sudo}apt-get install --no-install-recommends -y {}", once.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_directories_are_none() {
        assert!(find("sh").is_some());
        assert_eq!(find("no such program"), None);
        assert_eq!(find("."), None);
    }

    #[test]
    fn each_package_is_named_once() {
        let line = install(&["fio", "e2fsprogs", "fio"]);
        assert!(line.ends_with("-y e2fsprogs fio"), "{line}");
    }
}
