//! The disks of a whole system: Debian with the program, its units and rules as installed by
//! `cargo xtask install`, and three disks to serve.

use super::super::cpio::Archive;
use super::super::debian::{Kernel, depmod};
use super::super::modules;
use super::run;
use crate::cargo;
use crate::install;
use crate::packages::find;
use anyhow::{Context, ensure};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of this Debian, in addition to the essential ones.
const INCLUDED: &str =
    "--include=systemd-sysv,udev,e2fsprogs,xfsprogs,kmod,lvm2,cryptsetup-bin,fdisk,util-linux";

/// Modules that virtual machines do not need, and that are large.
const LEFT_OUT: [&str; 6] = [
    "sound",
    "drivers/gpu",
    "drivers/infiniband",
    "drivers/media",
    "drivers/net/ethernet",
    "drivers/net/wireless",
];

/// Modules that the root requires.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_intel", "ext4"];

/// Volumes of the guest: name and backing.
const VOLUMES: [(&str, &str); 3] = [
    ("disk", "/dev/disk/by-id/virtio-disk"),
    ("parted", "/dev/disk/by-id/virtio-parted"),
    ("image", "/srv/image.img"),
];

/// Names of the disks, and their serial numbers.
pub(super) const DISKS: [&str; 4] = ["root", "disk", "parted", "scratch"];

/// UUID in fstab of the file system on the disk `disk`, and of the partition of `parted`.
const UUID: &str = "0d0d0d0d-0001-4000-8000-000000000001";
const PARTUUID: &str = "0d0d0d0d-0002-4000-8000-000000000002";

/// Settings of the service manager: an emulated machine beside other work is slow to make a device.
const PATIENCE: &str = "[Manager]\nDefaultDeviceTimeoutSec=10min\n";

const MIB: u64 = 1 << 20;

/// Returns the file of a disk.
pub(super) fn disk(place: &Path, name: &str) -> PathBuf {
    place.join(format!("{name}.img"))
}

/// Creates all disks below `place`, with the built program, and the archive that boots the first of
/// them.
///
/// # Errors
/// Debian's packages are not available, or a program fails.
pub(super) fn make(cache: &Path, place: &Path, kernel: &Kernel) -> anyhow::Result<()> {
    make_with(cache, place, kernel, |root| {
        put_files(root)?;
        let image = root.join("srv/image.img");
        File::create(&image)?.set_len(512 * MIB)?;
        run(Command::new(tool("mkfs.xfs")?).arg("-q").arg(&image))
    })
}

/// Creates all disks below `place`; the files of the first one are Debian's, and those of
/// `put_files`, which gets the directory of its root.
///
/// # Errors
/// Debian's packages are not available, or a program fails.
pub(super) fn make_with(
    cache: &Path,
    place: &Path,
    kernel: &Kernel,
    put_files: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let root = unpack(cache, place, kernel)?;
    put_files(&root)?;
    make_disks(&root, place)?;
    fs::remove_dir_all(&root)?;
    fs::write(place.join("initramfs"), initramfs(kernel)?)?;
    Ok(())
}

/// Creates only the root below `place`, for measured boots, and the archive that boots it.
///
/// # Errors
/// Debian's packages are not available, or a program fails.
pub(super) fn make_root(cache: &Path, place: &Path, kernel: &Kernel) -> anyhow::Result<()> {
    let root = unpack(cache, place, kernel)?;
    let unit = root.join("etc/systemd/system/boot.service");
    fs::write(unit, include_str!("boot.service"))?;
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    symlink("../boot.service", wants.join("boot.service"))?;
    fill_disk(place, "root", 3072, &root)?;
    fs::remove_dir_all(&root)?;
    fs::write(place.join("initramfs"), initramfs(kernel)?)?;
    Ok(())
}

/// Unpacks Debian below `place`, with the kernel's modules. Returns its directory.
fn unpack(cache: &Path, place: &Path, kernel: &Kernel) -> anyhow::Result<PathBuf> {
    let archive = debian(cache)?;
    let root = place.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).context("what an earlier run has left cannot be removed")?;
    }
    fs::create_dir_all(&root)?;
    run(Command::new("tar").arg("-C").arg(&root).arg("-xf").arg(&archive))?;
    put_modules(&root, kernel)?;
    Ok(root)
}

/// Creates a disk of this size. It is a new file, not the old one truncated: a holder of an earlier
/// run may still have unwritten data for that.
fn new_disk(place: &Path, name: &str, mib: u64) -> anyhow::Result<PathBuf> {
    let file = disk(place, name);
    if file.exists() {
        fs::remove_file(&file)?;
    }
    File::create(&file)?.set_len(mib * MIB)?;
    Ok(file)
}

/// Makes a new disk with a file system of the files in this directory.
///
/// # Errors
/// They do not fit.
pub(super) fn fill_disk(place: &Path, name: &str, mib: u64, files: &Path) -> anyhow::Result<()> {
    let disk = new_disk(place, name, mib)?;
    let mut make = Command::new(tool("mkfs.ext4")?);
    run(make.args(["-q", "-F", "-d"]).arg(files).arg(disk))
}

fn tool(name: &str) -> anyhow::Result<PathBuf> {
    find(name).with_context(|| format!("{name} is missing"))
}

/// Returns the archive of a Debian of the same version as this machine's, so that its libraries
/// suit the programs built here.
fn debian(cache: &Path) -> anyhow::Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let name = name.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"');
    let archive = cache.join(format!("{name}.tar"));
    if !archive.is_file() {
        eprintln!("Downloading Debian {name} ...");
        let new = cache.join(format!("new-{}.tar", std::process::id()));
        let mut command = Command::new(tool("mmdebstrap")?);
        command.args(["--quiet", "--variant=minbase", INCLUDED, name]).arg(&new);
        run(&mut command)?;
        fs::rename(&new, &archive)?;
    }
    Ok(archive)
}

fn put_modules(root: &Path, kernel: &Kernel) -> anyhow::Result<()> {
    let release = kernel.modules.file_name().context("a directory of modules has a name")?;
    let place = root.join("usr/lib/modules");
    fs::create_dir_all(&place)?;
    run(Command::new("cp").arg("-a").arg(&kernel.modules).arg(&place))?;
    for left_out in LEFT_OUT {
        // Another version may not have it.
        let _ = fs::remove_dir_all(place.join(release).join("kernel").join(left_out));
    }
    depmod(root, &release.to_string_lossy())
}

fn put(root: &Path, path: &str, text: &str, mode: u32) -> anyhow::Result<()> {
    let path = root.join(path);
    fs::create_dir_all(path.parent().context("it is in a directory")?)?;
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(&path, Permissions::from_mode(mode))?)
}

/// Puts a trial, and the service that runs it at each boot.
pub(super) fn put_trial(root: &Path, fstab: &str, script: &str) -> anyhow::Result<()> {
    put(root, "etc/hostname", "overdrive\n", 0o644)?;
    put(root, "etc/fstab", fstab, 0o644)?;
    put(root, "etc/systemd/system.conf.d/slow.conf", PATIENCE, 0o644)?;
    put(root, "etc/systemd/system/trial.service", include_str!("trial.service"), 0o644)?;
    put(root, "usr/local/lib/overdrive/trial.sh", script, 0o755)?;
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    Ok(symlink("../trial.service", wants.join("trial.service"))?)
}

fn put_files(root: &Path) -> anyhow::Result<()> {
    install::put_below(root, "/usr", &cargo::target().join("release/overdrive"))?;
    let put = |path: &str, text: &str| put(root, path, text, 0o600);
    put_trial(root, include_str!("fstab"), include_str!("trial.sh"))?;
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    for (name, backing) in VOLUMES {
        let config =
            format!("[volume.{name}]\nbacking = \"{backing}\"\nmemory = \"64M\"\nattach = true\n");
        put(&format!("etc/overdrive/{name}.toml"), &config)?;
        fs::create_dir_all(root.join("mnt").join(name))?;
        // Same as `systemctl enable`.
        let unit = "usr/lib/systemd/system/overdrive-device@.service";
        symlink(format!("/{unit}"), wants.join(format!("overdrive-device@{name}.service")))?;
    }
    Ok(())
}

fn make_disks(root: &Path, place: &Path) -> anyhow::Result<()> {
    for (name, mib) in DISKS.iter().zip([3072, 256, 256, 256]) {
        new_disk(place, name, mib)?;
    }
    let make = tool("mkfs.ext4")?;
    let ext4 = || {
        let mut command = Command::new(&make);
        command.args(["-q", "-F"]);
        command
    };
    run(ext4().arg("-d").arg(root).arg(disk(place, "root")))?;
    run(ext4().args(["-U", UUID, "-L", "overdriven"]).arg(disk(place, "disk")))?;
    let table = format!("label: gpt\nstart=2048,size=400000,uuid={PARTUUID}\n");
    let file = place.join("table");
    fs::write(&file, table)?;
    let mut sfdisk = Command::new(tool("sfdisk")?);
    run(sfdisk.arg("-q").arg(disk(place, "parted")).stdin(File::open(&file)?))?;
    run(ext4().args(["-E", "offset=1048576"]).arg(disk(place, "parted")).arg("180M"))
}

/// Returns the archive that the kernel boots from until it has its root.
fn initramfs(kernel: &Kernel) -> anyhow::Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "modules", "root"] {
        archive.directory(directory);
    }
    archive.file("bin/busybox", &read(&kernel.busybox)?);
    archive.file("init", include_bytes!("first.sh"));
    let files = modules::in_order(&kernel.modules, &MODULES)?;
    for (number, file) in files.iter().enumerate() {
        let name = file.file_name().context("a file has a name")?.to_string_lossy();
        archive.file(&format!("modules/{number:02}-{name}"), &read(file)?);
    }
    ensure!(!files.is_empty(), "all modules are part of this kernel");
    Ok(archive.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fstab_names_the_volumes_and_what_is_on_them() {
        let fstab = include_str!("fstab");
        for (name, _) in VOLUMES {
            let unit = format!("nofail,x-systemd.after=overdrive-device@{name}.service");
            assert!(fstab.contains(&unit), "{name}");
        }
        assert!(fstab.contains(&format!("UUID={UUID} /mnt/disk")));
        assert!(fstab.contains(&format!("PARTUUID={PARTUUID} /mnt/parted")));
    }
}
