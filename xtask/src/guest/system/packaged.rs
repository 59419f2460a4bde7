//! `cargo xtask package --guest`: the Debian package in a whole Debian without the project's tools.
//! It is installed, upgraded and downgraded under load, removed and purged; the machine reboots and
//! loses its power in between. Each boot runs one part of `package.sh`.
//!
//! The packages and `package.sh` are on a disk of their own, which is made for each run. The other
//! disks are saved after each part, so a run may begin with any part whose predecessor has passed,
//! or that has none and begins with a new Debian.

use super::{End, boot, image, prepare, run};
use crate::clock::now;
use crate::{cargo, former, install};
use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A part of the test: one boot.
struct Part {
    name: &'static str,
    end: End,
    /// The part whose disks it continues with, or [`NEW`].
    before: &'static str,
}

/// The parts in order.
const PARTS: [Part; 4] = [
    Part { name: "install", end: End::Off, before: NEW },
    Part { name: "rebooted", end: End::Cut, before: "install" },
    Part { name: "cut", end: End::Off, before: "rebooted" },
    Part { name: "moved", end: End::Off, before: NEW },
];

/// Name of the disks of a Debian in which nothing has been installed.
const NEW: &str = "making";

/// Directory of the packages in the guest, where the disk with them is mounted.
const PACKAGES: &str = "opt/trial";

/// The disk with the packages and the trial.
const PACKAGES_DISK: &str = "disk";

/// Variable with a program of a former format that is already built, as for the tests.
const FORMER: &str = "OVERDRIVE_FORMER";

/// Something that it needs is not available here; a remedy was printed.
const EXIT_MISSING: u8 = 4;

/// Names of the parts.
pub(crate) fn parts() -> Vec<&'static str> {
    PARTS.iter().map(|part| part.name).collect()
}

/// Tests this package by the chosen parts; none chosen: by all. Packages that are made of it have
/// files of the time `epoch`, in seconds.
///
/// # Errors
/// A part fails; its output was printed.
pub(crate) fn run_all(deb: &Path, epoch: &str, chosen: &[String]) -> anyhow::Result<ExitCode> {
    let cache = cargo::target().join("guest");
    let Some(kernel) = prepare(&cache)? else { return Ok(ExitCode::from(EXIT_MISSING)) };
    let place = cache.join("package");
    fs::create_dir_all(&place)?;
    let is_chosen = |part: &&Part| chosen.is_empty() || chosen.iter().any(|one| one == part.name);
    let parts: Vec<&Part> = PARTS.iter().filter(is_chosen).collect();
    if parts.iter().any(|part| part.before == NEW) {
        image::make_with(&cache, &place, &kernel, |root| {
            fs::create_dir_all(root.join(PACKAGES))?;
            image::put_trial(root, "", include_str!("package-first.sh"))
        })?;
        save(&place, NEW)?;
    }
    put_packages(&Repack { deb, place: &place, epoch })?;
    for Part { name: part, end, before } in &parts {
        restore(&place, before)?;
        println!("{part} ...");
        let start = now();
        boot(&place, &kernel, part, *end, None)
            .with_context(|| format!("{part}; {}", super::console(&place, part).display()))?;
        println!("{part} passed in {} s", start.elapsed().as_secs());
        save(&place, part)?;
    }
    println!("{} passed", parts.len());
    Ok(ExitCode::SUCCESS)
}

/// Returns the disks that a part may change.
fn changed() -> impl Iterator<Item = &'static str> {
    image::DISKS.into_iter().filter(|name| *name != PACKAGES_DISK)
}

/// Directory of the disks after this part.
fn saved(place: &Path, part: &str) -> PathBuf {
    place.join(format!("after-{part}"))
}

/// Saves the disks after this part.
fn save(place: &Path, part: &str) -> anyhow::Result<()> {
    let to = saved(place, part);
    fs::create_dir_all(&to)?;
    changed().try_for_each(|name| copy_disk(&image::disk(place, name), &image::disk(&to, name)))
}

/// Copies the disks from after this part back.
fn restore(place: &Path, part: &str) -> anyhow::Result<()> {
    let from = saved(place, part);
    ensure!(from.is_dir(), "the part '{part}' has not passed yet; add it to --parts");
    changed().try_for_each(|name| copy_disk(&image::disk(&from, name), &image::disk(place, name)))
}

/// Copies a disk to a new file: a holder of an earlier run may have the old one.
fn copy_disk(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut copy = Command::new("cp");
    run(copy.args(["--sparse=always", "--remove-destination"]).arg(from).arg(to))
}

/// A package of which others are made.
struct Repack<'a> {
    deb: &'a Path,
    /// Directory of its files while another package is made.
    place: &'a Path,
    epoch: &'a str,
}

/// Makes the disk with the trial, three versions, and a tree as `cargo xtask install` leaves it.
fn put_packages(repack: &Repack<'_>) -> anyhow::Result<()> {
    let packages = repack.place.join("packages");
    let _ = fs::remove_dir_all(&packages);
    fs::create_dir_all(&packages)?;
    fs::write(packages.join("package.sh"), include_str!("package.sh"))?;
    fs::copy(repack.deb, packages.join("overdrive.deb"))?;
    repack.make("0.2.0-1", None, &packages.join("higher.deb"))?;
    let former = match std::env::var_os(FORMER) {
        Some(built) => PathBuf::from(built),
        None => former::newest()?,
    };
    repack.make("0.0.9-1", Some(former.as_path()), &packages.join("former.deb"))?;
    let program = repack.program()?;
    install::put_below(&packages.join("local"), "/usr/local", &program)?;
    fs::remove_file(program)?;
    image::fill_disk(repack.place, PACKAGES_DISK, 256, &packages)?;
    Ok(fs::remove_dir_all(&packages)?)
}

impl Repack<'_> {
    /// Returns a copy of the package's program.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let tree = self.place.join("tree");
        let _ = fs::remove_dir_all(&tree);
        run(Command::new("dpkg-deb").arg("--extract").arg(self.deb).arg(&tree))?;
        let program = self.place.join("overdrive");
        fs::rename(tree.join("usr/bin/overdrive"), &program)?;
        fs::remove_dir_all(&tree)?;
        Ok(program)
    }

    /// Makes the same package with another version, and with another program.
    fn make(&self, version: &str, program: Option<&Path>, to: &Path) -> anyhow::Result<()> {
        let tree = self.place.join("tree");
        let _ = fs::remove_dir_all(&tree);
        run(Command::new("dpkg-deb").arg("--raw-extract").arg(self.deb).arg(&tree))?;
        let control = tree.join("DEBIAN/control");
        let text = fs::read_to_string(&control)?;
        let lines = text.lines().map(|line| match line.starts_with("Version: ") {
            true => format!("Version: {version}\n"),
            false => format!("{line}\n"),
        });
        fs::write(&control, lines.collect::<String>())?;
        // Their sums would differ; dpkg does not need them.
        let _ = fs::remove_file(tree.join("DEBIAN/md5sums"));
        if let Some(program) = program {
            let installed = tree.join("usr/bin/overdrive");
            run(Command::new("strip").arg("-o").arg(&installed).arg(program))?;
            fs::set_permissions(&installed, fs::Permissions::from_mode(0o755))?;
        }
        let mut build = Command::new("dpkg-deb");
        build.env("SOURCE_DATE_EPOCH", self.epoch).args(["--root-owner-group", "-Zgzip"]);
        run(build.arg("--build").arg(&tree).arg(to))?;
        ensure!(to.is_file(), "{} was not made", to.display());
        Ok(fs::remove_dir_all(&tree)?)
    }
}
