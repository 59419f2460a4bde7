//! Programs that the demo and the tests use, and the packages that contain them.

use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The purpose of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Purpose {
    /// `cargo xtask demo`.
    Demo,
    /// `cargo xtask guest`.
    Guest,
    /// `cargo xtask package`.
    Package,
    /// `cargo xtask pages`.
    Pages,
    /// `cargo xtask system`.
    System,
    /// `cargo xtask test`.
    Tests,
}

impl Purpose {
    /// Whether this purpose includes the programs of the other one: the tests do not need a whole
    /// system, and pages are tested only at night.
    fn includes(self, other: Self) -> bool {
        match self {
            Self::Tests => !matches!(other, Self::System | Self::Package | Self::Pages),
            Self::System => other == Self::System || other == Self::Guest,
            Self::Demo | Self::Guest | Self::Package | Self::Pages => self == other,
        }
    }
}

/// How to check that a package is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe {
    /// This program is found.
    Program(&'static str),
    /// It contains no program; the system's package database is queried.
    Package,
}

/// A package that the run needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Name on Debian and Ubuntu.
    pub(crate) package: &'static str,
    pub(crate) probe: Probe,
    pub(crate) purpose: Purpose,
}

const fn program(package: &'static str, name: &'static str, purpose: Purpose) -> Need {
    Need { package, probe: Probe::Program(name), purpose }
}

/// All packages, in the order in which they are printed.
pub(crate) const NEEDS: [Need; 37] = [
    program("e2fsprogs", "mkfs.ext4", Purpose::Demo),
    program("e2fsprogs", "e2fsck", Purpose::Demo),
    program("fio", "fio", Purpose::Demo),
    program("libnbd-bin", "nbdinfo", Purpose::Demo),
    program("libnbd-bin", "nbdcopy", Purpose::Demo),
    program("qemu-utils", "qemu-img", Purpose::Demo),
    program("qemu-system-x86", "qemu-system-x86_64", Purpose::Guest),
    program("kmod", "depmod", Purpose::Guest),
    program("kmod", "modprobe", Purpose::Guest),
    program("binutils", "strip", Purpose::Package),
    program("dpkg-dev", "dpkg-shlibdeps", Purpose::Package),
    program("lintian", "lintian", Purpose::Package),
    program("rpm", "rpm", Purpose::Package),
    program("chromium", "chromium", Purpose::Pages),
    program("mmdebstrap", "mmdebstrap", Purpose::System),
    program("e2fsprogs", "mkfs.ext4", Purpose::System),
    program("fdisk", "sfdisk", Purpose::System),
    program("xfsprogs", "mkfs.xfs", Purpose::System),
    program("util-linux", "setpriv", Purpose::System),
    program("libnbd-bin", "nbdfuse", Purpose::Tests),
    program("qemu-utils", "qemu-io", Purpose::Tests),
    program("nbdkit", "nbdkit", Purpose::Tests),
    program("qemu-system-common", "qemu-storage-daemon", Purpose::Tests),
    Need { package: "python3-libnbd", probe: Probe::Package, purpose: Purpose::Tests },
    Need { package: "python3-venv", probe: Probe::Package, purpose: Purpose::Tests },
    program("fuse3", "fusermount3", Purpose::Tests),
    program("fdisk", "sfdisk", Purpose::Tests),
    program("mount", "losetup", Purpose::Tests),
    program("util-linux", "fstrim", Purpose::Tests),
    program("util-linux", "setpriv", Purpose::Tests),
    program("btrfs-progs", "mkfs.btrfs", Purpose::Tests),
    program("xfsprogs", "mkfs.xfs", Purpose::Tests),
    program("xfsprogs", "xfs_repair", Purpose::Tests),
    program("sqlite3", "sqlite3", Purpose::Tests),
    program("prometheus", "prometheus", Purpose::Tests),
    program("prometheus", "promtool", Purpose::Tests),
    // The system's version; the tests find it.
    Need { package: "postgresql", probe: Probe::Package, purpose: Purpose::Tests },
];

impl Need {
    /// Whether it is installed.
    pub(crate) fn is_met(&self) -> bool {
        match self.probe {
            Probe::Program(name) => find(name).is_some(),
            Probe::Package => is_installed(self.package),
        }
    }
}

/// Returns the packages that `purpose` needs and that are missing, each once.
pub(crate) fn missing(purpose: Purpose, is_met: impl Fn(&Need) -> bool) -> Vec<&'static str> {
    let needed = NEEDS.iter().filter(|need| purpose.includes(need.purpose));
    let mut packages = Vec::new();
    for need in needed.filter(|need| !is_met(need)) {
        if !packages.contains(&need.package) {
            packages.push(need.package);
        }
    }
    packages
}

/// Finds a program in PATH, or in the directories for administrators: users of Debian lack
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

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_need_what_the_demo_needs_and_more() {
        let demo = missing(Purpose::Demo, |_| false);
        let tests = missing(Purpose::Tests, |_| false);
        assert_eq!(demo, ["e2fsprogs", "fio", "libnbd-bin", "qemu-utils"]);
        assert_eq!(tests[..demo.len()], demo);
        assert_eq!(tests.len(), 19);
        assert_eq!(missing(Purpose::Guest, |_| false), ["qemu-system-x86", "kmod"]);
        let system = missing(Purpose::System, |_| false);
        assert!(system.contains(&"mmdebstrap") && system.contains(&"kmod"), "{system:?}");
        assert!(!tests.contains(&"mmdebstrap") && !tests.contains(&"chromium"));
        assert_eq!(missing(Purpose::Pages, |_| false), ["chromium"]);
    }

    #[test]
    fn a_package_is_missing_if_one_of_its_programs_is() {
        let but_one = |need: &Need| !matches!(need.probe, Probe::Program("nbdcopy"));
        assert_eq!(missing(Purpose::Tests, but_one), ["libnbd-bin"]);
        assert!(missing(Purpose::Tests, |_| true).is_empty());
    }

    #[test]
    fn programs_are_found_and_directories_are_none() {
        assert!(find("sh").is_some());
        assert_eq!(find("no such program"), None);
        assert_eq!(find("."), None);
    }
}
