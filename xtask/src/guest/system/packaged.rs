//! `cargo xtask package --guest`: the Debian package in a whole Debian without the project's tools.
//! It is installed, upgraded and downgraded under load, removed and purged; the machine reboots and
//! loses its power in between. Each boot runs one part of `package.sh`.

use super::{End, boot, image, prepare, run};
use crate::{cargo, former, install};
use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The parts in order, and how each ends.
const PARTS: [(&str, End); 4] =
    [("install", End::Off), ("rebooted", End::Cut), ("cut", End::Off), ("moved", End::Off)];

/// Directory of the packages in the guest.
const PACKAGES: &str = "opt/trial";

/// Variable with a program of a former format that is already built, as for the tests.
const FORMER: &str = "OVERDRIVE_FORMER";

/// Something that it needs is not available here; a remedy was printed.
const EXIT_MISSING: u8 = 4;

/// Tests this package. Those that are made of it have files of the time `epoch`, in seconds.
///
/// # Errors
/// A part fails; its output was printed.
pub(crate) fn run_all(deb: &Path, epoch: &str) -> anyhow::Result<ExitCode> {
    let cache = cargo::target().join("guest");
    let Some(kernel) = prepare(&cache)? else { return Ok(ExitCode::from(EXIT_MISSING)) };
    let place = cache.join("package");
    fs::create_dir_all(&place)?;
    image::make_with(&cache, &place, &kernel, |root| {
        put_packages(root, &Repack { deb, place: &place, epoch })?;
        image::put_trial(root, "", include_str!("package.sh"))
    })?;
    for (part, end) in PARTS {
        println!("{part} ...");
        boot(&place, &kernel, part, end, None)
            .with_context(|| format!("{part}; {}", super::console(&place, part).display()))?;
    }
    println!("{} passed", PARTS.len());
    Ok(ExitCode::SUCCESS)
}

/// A package of which others are made.
struct Repack<'a> {
    deb: &'a Path,
    /// Directory of its files while another package is made.
    place: &'a Path,
    epoch: &'a str,
}

/// Puts three versions into the guest, and a tree as `cargo xtask install` leaves it.
fn put_packages(root: &Path, repack: &Repack<'_>) -> anyhow::Result<()> {
    let packages = root.join(PACKAGES);
    fs::create_dir_all(&packages)?;
    fs::copy(repack.deb, packages.join("overdrive.deb"))?;
    repack.make("0.2.0-1", None, &packages.join("higher.deb"))?;
    let former = match std::env::var_os(FORMER) {
        Some(built) => PathBuf::from(built),
        None => former::newest()?,
    };
    repack.make("0.0.9-1", Some(former.as_path()), &packages.join("former.deb"))?;
    let program = cargo::target().join("release/package/overdrive");
    install::put_below(&packages.join("local"), "/usr/local", &program)
}

impl Repack<'_> {
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
