//! Parts of a guest: a kernel and a busybox, from Debian's packages. They are unpacked below the
//! build directory, and never installed.

use crate::packages::find;
use crate::setup::{apt_get, is_root};
use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Start of this kernel's package names. Later packages contain the same kernel with fixes.
const KERNEL: &str = "linux-image-6.12.";

/// The same as a pattern of apt-cache(8): signed packages for all machines, without those for
/// clouds or real time.
const KERNEL_PATTERN: &str = "^linux-image-6[.]12[.][0-9.]+([+][a-z0-9]+)?-amd64$";

const BUSYBOX: &str = "busybox-static";

/// The parts of a guest that all commands need.
pub(super) struct Kernel {
    /// The kernel's image.
    pub(super) image: PathBuf,
    /// The directory of its modules, with the files of depmod(8).
    pub(super) modules: PathBuf,
    /// A busybox that needs no libraries.
    pub(super) busybox: PathBuf,
}

impl Kernel {
    /// Returns the kernel that is already unpacked, or else the newest one in apt's lists.
    ///
    /// # Errors
    /// A sentence with the missing part and a remedy.
    pub(super) fn get(place: &Path) -> anyhow::Result<Self> {
        let package = match unpacked(place) {
            Some(package) => package,
            None => fetch(place, newest_known)?,
        };
        if !place.join(BUSYBOX).is_dir() {
            fetch(place, || Some(BUSYBOX.to_owned()))?;
        }
        let (kernel, busybox) = (place.join(&package), place.join(BUSYBOX));
        let release = package.strip_prefix("linux-image-").unwrap_or(&package);
        let modules = kernel.join("lib/modules").join(release);
        if !modules.join("modules.dep").is_file() {
            depmod(&kernel, release)?;
        }
        let programs = ["bin/busybox", "usr/bin/busybox"].map(|path| busybox.join(path));
        let busybox = programs.into_iter().find(|path| path.is_file());
        Ok(Self {
            image: kernel.join(format!("boot/vmlinuz-{release}")),
            modules,
            busybox: busybox.with_context(|| format!("{BUSYBOX} has no busybox"))?,
        })
    }
}

/// Returns the newest unpacked kernel.
fn unpacked(place: &Path) -> Option<String> {
    let entries = place.read_dir().ok()?.filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    newest(names.filter(|name| name.starts_with(KERNEL) && name.ends_with("-amd64")))
}

/// Returns the newest kernel in apt's lists.
fn newest_known() -> Option<String> {
    let known = Command::new("apt-cache").args(["search", "--names-only", KERNEL_PATTERN]).output();
    let lines = String::from_utf8(known.ok()?.stdout).ok()?;
    newest(lines.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())))
}

fn newest(names: impl Iterator<Item = String>) -> Option<String> {
    names.max_by_key(|name| numbers(name))
}

/// Returns the numbers in a name: 6.12.9 must sort before 6.12.10.
fn numbers(name: &str) -> Vec<u64> {
    let parts = name.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Downloads the package that `choose` returns and unpacks it below `place`, in a directory with
/// its name. Updates apt's lists only if the present ones are not sufficient.
fn fetch(place: &Path, choose: impl Fn() -> Option<String>) -> anyhow::Result<String> {
    ensure!(
        ["apt-get", "dpkg-deb"].iter().all(|name| find(name).is_some()),
        "a guest needs Debian's packages {KERNEL}*-amd64 and {BUSYBOX}, and here is no apt-get to fetch them; unpack \
         each into a directory of its name (from the first dot on with its version) in {}",
        place.display()
    );
    let new = place.join(format!("new-{}", std::process::id()));
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
    let fetched = fetch_into(&new, choose).and_then(|package| {
        let unpacked = place.join(&package);
        // Another guest may have unpacked it at the same time.
        if fs::rename(new.join("unpacked"), &unpacked).is_err() {
            ensure!(unpacked.is_dir(), "{} cannot be made", unpacked.display());
        }
        Ok(package)
    });
    let _ = fs::remove_dir_all(&new);
    fetched
}

fn fetch_into(new: &Path, choose: impl Fn() -> Option<String>) -> anyhow::Result<String> {
    let download = |package: &str| {
        eprintln!("Downloading {package} ...");
        apt_get(new, &["--option", "APT::Sandbox::User=", "download", package])
    };
    let package = match choose() {
        Some(package) if download(&package).is_ok() => package,
        _ => {
            if is_root() {
                apt_get(new, &["update"])?;
            }
            let package = choose().with_context(|| {
                format!(
                    "apt knows no {KERNEL}*-amd64, which a guest boots; Debian 12 has it in bookworm-security, Debian \
                     13 in main (after: apt-get update)"
                )
            })?;
            download(&package)?;
            package
        }
    };
    let entries = fs::read_dir(new)?.filter_map(Result::ok).map(|entry| entry.path());
    let mut files = entries.filter(|path| path.extension().is_some_and(|kind| kind == "deb"));
    let file = files.next().with_context(|| format!("apt-get has not downloaded {package}"))?;
    run(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(new.join("unpacked")))?;
    Ok(package)
}

/// Computes the modules' dependencies, as the package does during installation.
pub(super) fn depmod(kernel: &Path, release: &str) -> anyhow::Result<()> {
    // If the whole /lib is in /usr, so are the files of the package.
    if !kernel.join("lib").exists() {
        symlink("usr/lib", kernel.join("lib")).context("cannot make a link to usr/lib")?;
    }
    let program = find("depmod").context("depmod is missing; install kmod")?;
    run(Command::new(program).arg("--basedir").arg(kernel).arg(release))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_the_one_of_the_highest_number() {
        let names = ["6.12.9+deb13", "6.12.117+deb12", "6.12.107+deb12"];
        let names = names.map(|version| format!("linux-image-{version}-amd64"));
        assert_eq!(newest(names.clone().into_iter()), Some(names[1].clone()));
        assert_eq!(newest(std::iter::empty()), None);
    }

    #[test]
    fn only_a_kernel_that_is_unpacked_counts() -> std::io::Result<()> {
        let place = std::env::temp_dir().join(format!("overdrive-guest-{}", std::process::id()));
        assert_eq!(unpacked(&place), None);
        for name in ["busybox-static", "linux-image-6.1.0-amd64", "new-7"] {
            fs::create_dir_all(place.join(name))?;
            assert_eq!(unpacked(&place), None, "{name}");
        }
        let name = "linux-image-6.12.117+deb12-amd64";
        fs::create_dir_all(place.join(name))?;
        assert_eq!(unpacked(&place).as_deref(), Some(name));
        fs::remove_dir_all(place)
    }
}
