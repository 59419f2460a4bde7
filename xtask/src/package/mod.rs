//! `cargo xtask package`: a Debian package and an RPM package of the program.
//!
//! `stage.rs` gathers their files in `target/release/package`; the lists of files are in
//! `crates/app/overdrive/Cargo.toml`, for cargo-deb and cargo-generate-rpm (`tools.rs`). `check.rs`
//! examines the result.

mod check;
mod stage;
mod third_party;
mod tools;

use crate::cargo;
use crate::guest;
use crate::packages::Purpose;
use crate::setup;
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Maximum size of the Debian package.
const SIZE_MAX: u64 = 15 << 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Version of the Debian package, instead of the program's own.
    #[arg(long, value_name = "VERSION")]
    deb_version: Option<String>,
    /// Build the program a second time, in another directory of output, and compare the packages
    /// byte by byte. This takes twice the time.
    #[arg(long)]
    twice: bool,
    /// Package the program that was built before.
    #[arg(long, conflicts_with = "twice")]
    no_build: bool,
    /// Test the package in a Debian with systemd, in a virtual machine (as root).
    #[arg(long)]
    guest: bool,
    /// With --guest: test this Debian package, and make none.
    #[arg(long, value_name = "FILE", requires = "guest")]
    deb: Option<PathBuf>,
    /// With --guest: only these parts of the test, in their order; a part other than the first
    /// continues with the disks that an earlier run has saved.
    #[arg(long, value_name = "PART,...", requires = "guest", value_delimiter = ',',
          value_parser = guest::system::packaged::parts())]
    parts: Vec<String>,
}

/// The command `package`.
///
/// # Errors
/// A package cannot be made, or does not pass a check.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(deb) = &options.deb {
        return guest::system::packaged::run_all(deb, &epoch_s()?, &options.parts);
    }
    let ready = setup::prepare(Purpose::Package)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    tools::install()?;
    let place = cargo::target().join("packages");
    let version = options.deb_version.as_deref();
    if !options.no_build {
        build(&cargo::target())?;
    }
    let packages = make(&cargo::target(), &place, version)?;
    check::all(&packages)?;
    if options.twice {
        let (target, place) = (cargo::target().join("twice"), cargo::target().join("twice/again"));
        build(&target)?;
        let again = make(&target, &place, version)?;
        check::same(&packages.deb, &again.deb)?;
        check::same(&packages.rpm, &again.rpm)?;
    }
    match options.guest {
        true => guest::system::packaged::run_all(&packages.deb, &epoch_s()?, &options.parts),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// The files of one version.
struct Packages {
    deb: PathBuf,
    rpm: PathBuf,
}

/// Builds the program below `target`.
fn build(target: &Path) -> anyhow::Result<()> {
    let mut build = cargo::cargo();
    build.args(cargo::BUILD).current_dir(cargo::root());
    run_tool(in_target(&mut build, target, &epoch_s()?))
}

/// Makes packages of the program below `target`, in the directory `place`.
///
/// # Errors
/// A step fails; its output was printed.
fn make(target: &Path, place: &Path, version: Option<&str>) -> anyhow::Result<Packages> {
    let epoch = epoch_s()?;
    stage::gather(target, &epoch)?;
    fs::create_dir_all(place)?;
    Ok(Packages { deb: deb(target, place, &epoch, version)?, rpm: rpm(target, place, &epoch)? })
}

/// Makes the Debian package from the gathered files.
///
/// # Errors
/// cargo-deb fails.
fn deb(target: &Path, place: &Path, epoch: &str, version: Option<&str>) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(tools::path("cargo-deb"));
    command.args(["--package", "overdrive", "--no-build", "--no-strip", "--quiet", "--output"]);
    command.arg(place).args(version.iter().flat_map(|version| ["--deb-version", version]));
    run_tool(in_target(command.current_dir(cargo::root()), target, epoch))?;
    newest(place, "deb")
}

fn rpm(target: &Path, place: &Path, epoch: &str) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(tools::path("cargo-generate-rpm"));
    command.args(["--package", "crates/app/overdrive", "--auto-req", "builtin", "--target-dir"]);
    command.arg(target).arg("--output").arg(place);
    run_tool(in_target(command.current_dir(cargo::root()), target, epoch))?;
    newest(place, "rpm")
}

/// Sets the environment of a build: the directory of output, and the time of all files.
fn in_target<'a>(command: &'a mut Command, target: &Path, epoch: &str) -> &'a mut Command {
    command.env("CARGO_TARGET_DIR", target).env("SOURCE_DATE_EPOCH", epoch)
}

/// Runs a program, whose output is for the user.
fn run_tool(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{:?} has failed; see above", command.get_program());
    Ok(())
}

/// Returns the file with this extension that was written last.
fn newest(place: &Path, extension: &str) -> anyhow::Result<PathBuf> {
    let files = place.read_dir()?.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == extension));
    let newest = files.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    newest.with_context(|| format!("{}: no .{extension} was made", place.display()))
}

/// Returns the time of the packages' files: SOURCE_DATE_EPOCH, or that of the last commit.
fn epoch_s() -> anyhow::Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    let output = git.args(["log", "-1", "--format=%ct"]).current_dir(cargo::root()).output();
    let output = output.context("cannot start git")?;
    let epoch = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(epoch.parse::<u64>().is_ok(), "this is no git tree; set SOURCE_DATE_EPOCH");
    Ok(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> anyhow::Result<toml::Table> {
        let text = fs::read_to_string(cargo::root().join("crates/app/overdrive/Cargo.toml"))?;
        Ok(text.parse()?)
    }

    #[test]
    fn the_changelog_begins_with_the_program_s_version() -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let changelog = fs::read_to_string(cargo::root().join("packaging/deb/changelog"))?;
        assert!(changelog.starts_with(&format!("overdrive ({version}-1) ")), "{changelog}");
        Ok(())
    }

    #[test]
    fn both_packages_have_every_unit_and_rule_that_is_installed() -> anyhow::Result<()> {
        let metadata = &manifest()?["package"]["metadata"];
        let deb = metadata["deb"]["assets"].to_string();
        let rpm = metadata["generate-rpm"]["assets"].to_string();
        for directory in ["systemd", "udev", "tmpfiles", "needrestart"] {
            let source = format!("packaging/{directory}/");
            assert!(deb.contains(&source) && rpm.contains(&source), "{source}");
        }
        for (asks, unit) in crate::install::LINKS {
            assert!(deb.contains(&format!("usr/lib/systemd/system/{asks}/{unit}")), "{asks}");
        }
        Ok(())
    }

    #[test]
    fn a_purge_removes_all_kinds_of_lists() -> anyhow::Result<()> {
        let script = fs::read_to_string(cargo::root().join("packaging/deb/postrm"))?;
        let kinds = script.lines().find_map(|line| line.trim().strip_prefix("for kind in "));
        let kinds = kinds.and_then(|rest| rest.split_once(';')).context("it removes lists")?.0;
        let lists = cargo::root().join("crates/app/daemon/src/hot_lists.rs");
        let lists = fs::read_to_string(lists)?;
        let suffixes = lists.lines().filter_map(|line| {
            let line = line.trim();
            let value = line.strip_prefix("suffix: \"").or_else(|| line.strip_prefix("new: \""));
            value?.strip_suffix("\",")
        });
        let suffixes: Vec<&str> = suffixes.collect();
        assert!(!suffixes.is_empty());
        assert_eq!(kinds.split(' ').collect::<Vec<_>>(), suffixes);
        Ok(())
    }

    #[test]
    fn the_scripts_of_the_package_are_sound_for_a_shell() -> anyhow::Result<()> {
        for name in ["preinst", "postinst", "prerm", "postrm"] {
            let script = cargo::root().join("packaging/deb").join(name);
            let checked = Command::new("sh").arg("-n").arg(&script).status()?;
            assert!(checked.success(), "{}", script.display());
            assert!(fs::read_to_string(&script)?.contains("\nset -e\n"), "{}", script.display());
        }
        Ok(())
    }
}
