//! `cargo xtask install` and `uninstall`: copies the program, its systemd units and its udev rules
//! to the directories of the system.

use crate::cargo;
use anyhow::{Context, bail, ensure};
use clap::Args;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The program's path in units.
const PROGRAM_IN_UNIT: &str = "/usr/bin/overdrive";

const SUSPEND: &str = "packaging/systemd/overdrive-suspend.service";
const HIBERNATE: &str = "packaging/systemd/overdrive-hibernate.service";

/// Units that are always enabled: the links below the prefix, and the unit that each leads to.
pub(crate) const LINKS: [(&str, &str); 4] = [
    ("sleep.target.wants", "overdrive-suspend.service"),
    ("systemd-hibernate.service.requires", "overdrive-hibernate.service"),
    ("systemd-hybrid-sleep.service.requires", "overdrive-hibernate.service"),
    ("systemd-suspend-then-hibernate.service.requires", "overdrive-hibernate.service"),
];

/// Files that are installed in addition to the program: source in the project, and destination
/// below the prefix.
const FILES: [(&str, &str); 5] = [
    ("packaging/systemd/overdrive@.service", "lib/systemd/system/overdrive@.service"),
    ("packaging/systemd/overdrive-device@.service", "lib/systemd/system/overdrive-device@.service"),
    (SUSPEND, "lib/systemd/system/overdrive-suspend.service"),
    (HIBERNATE, "lib/systemd/system/overdrive-hibernate.service"),
    ("packaging/udev/61-overdrive.rules", "lib/udev/rules.d/61-overdrive.rules"),
];

#[derive(Args)]
pub(crate) struct Options {
    /// The program goes to PREFIX/bin, its systemd units and udev rules to PREFIX/lib.
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
}

impl Options {
    fn program(&self) -> PathBuf {
        self.prefix.join("bin/overdrive")
    }

    /// Returns the links, and the unit that each leads to.
    fn links(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let units = self.prefix.join("lib/systemd/system");
        LINKS.into_iter().map(move |(asks, unit)| (units.join(asks).join(unit), units.join(unit)))
    }

    /// Returns all installed paths, the program first. A link is installed after its unit, and
    /// removed before it.
    fn all(&self) -> Vec<PathBuf> {
        let files = FILES.iter().map(|(_, place)| self.prefix.join(place));
        let links = self.links().map(|(link, _)| link);
        std::iter::once(self.program()).chain(files).chain(links).collect()
    }
}

/// The command `install`.
///
/// # Errors
/// The program cannot be built, or a file cannot be written.
pub(crate) fn install(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(options.prefix.is_absolute(), "--prefix: write an absolute path, as units need it");
    let built = cargo::cargo().args(cargo::BUILD).current_dir(cargo::root()).status();
    if !built.context("cannot start cargo")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    put(options, Path::new("/"), &cargo::target().join("release/overdrive"))?;
    reload();
    options.all().iter().for_each(|path| println!("{}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Installs this program and its files into the tree of another system, below a prefix there.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn put_below(root: &Path, prefix: &str, program: &Path) -> anyhow::Result<()> {
    put(&Options { prefix: prefix.into() }, root, program)
}

/// Copies all files to their destinations below `root`.
fn put(options: &Options, root: &Path, program: &Path) -> anyhow::Result<()> {
    let binary = fs::read(program).with_context(|| program.display().to_string())?;
    let path = options.program();
    let path = path.to_str().context("--prefix: write a path that is text")?;
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    replace(&below(&options.program()), &binary, 0o755)?;
    for (source, place) in FILES {
        let text = fs::read_to_string(cargo::root().join(source)).context(source)?;
        let starts = text.contains(PROGRAM_IN_UNIT);
        ensure!(
            starts || !source.ends_with(".service"),
            "{source} does not start {PROGRAM_IN_UNIT}"
        );
        let text = text.replace(PROGRAM_IN_UNIT, path);
        replace(&below(&options.prefix.join(place)), text.as_bytes(), 0o644)?;
    }
    options.links().try_for_each(|(link, unit)| put_link(&below(&link), &unit))
}

/// Creates a link.
fn put_link(link: &Path, unit: &Path) -> anyhow::Result<()> {
    let directory = link.parent().context("a link is in a directory")?;
    let _ = fs::remove_file(link);
    let put = fs::create_dir_all(directory).and_then(|()| symlink(unit, link));
    put.with_context(|| format!("{}: cannot be made; are you root?", link.display()))
}

/// Replaces a file atomically: a running program continues unchanged.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let directory = path.parent().context("a file is in a directory")?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let put = fs::create_dir_all(directory)
        .and_then(|()| fs::write(&new, bytes))
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&new, path));
    if put.is_err() {
        let _ = fs::remove_file(&new);
    }
    put.with_context(|| format!("{}: cannot be written; are you root?", path.display()))
}

/// The command `uninstall`. Configuration, images, and volumes that are served stay as they are.
///
/// # Errors
/// Nothing is installed, or a file cannot be removed.
pub(crate) fn uninstall(options: &Options) -> anyhow::Result<ExitCode> {
    let mut found = false;
    for path in options.all().into_iter().rev() {
        match fs::remove_file(&path) {
            Ok(()) => println!("{}", path.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => bail!("{}: cannot be removed: {error}", path.display()),
        }
        found = true;
    }
    if !found {
        println!("Nothing is installed in {}.", options.prefix.display());
        return Ok(ExitCode::FAILURE);
    }
    reload();
    Ok(ExitCode::SUCCESS)
}

/// Reloads systemd and udev, if they run. Their output is for the user.
fn reload() {
    if Path::new("/run/systemd/system").exists() {
        let _ = Command::new("systemctl").arg("daemon-reload").status();
    }
    if Path::new("/run/udev/control").exists() {
        let _ = Command::new("udevadm").args(["control", "--reload"]).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_put_and_units_start_the_program_that_was() -> anyhow::Result<()> {
        let place = std::env::temp_dir().join(format!("overdrive-install-{}", std::process::id()));
        let options = Options { prefix: place.join("opt") };
        fs::create_dir_all(&place)?;
        let built = place.join("built");
        for version in ["1", "2"] {
            fs::write(&built, version)?;
            put(&options, Path::new("/"), &built)?;
            assert_eq!(fs::read_to_string(options.program())?, version);
        }
        let mode = options.program().metadata()?.permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let start = format!("ExecStart={} ", options.program().display());
        for (_, file) in FILES.iter().filter(|(_, place)| place.ends_with(".service")) {
            let unit = fs::read_to_string(options.prefix.join(file))?;
            assert!(unit.contains(&start), "{unit}");
            assert!(!unit.contains(PROGRAM_IN_UNIT), "{unit}");
        }
        for (link, _) in options.links() {
            assert!(fs::canonicalize(link)?.starts_with(&place));
        }
        assert_eq!(uninstall(&options)?, ExitCode::SUCCESS);
        assert!(options.all().iter().all(|path| !path.exists()));
        assert_eq!(uninstall(&options)?, ExitCode::FAILURE);
        fs::remove_dir_all(&place)?;
        Ok(())
    }

    #[test]
    fn another_system_gets_the_paths_that_it_has_itself() -> anyhow::Result<()> {
        let root = std::env::temp_dir().join(format!("overdrive-below-{}", std::process::id()));
        fs::create_dir_all(&root)?;
        fs::write(root.join("built"), "1")?;
        put_below(&root, "/usr", &root.join("built"))?;
        assert_eq!(fs::read_to_string(root.join("usr/bin/overdrive"))?, "1");
        let unit = root.join("usr/lib/systemd/system/overdrive-device@.service");
        assert!(fs::read_to_string(unit)?.contains("ExecStart=/usr/bin/overdrive serve"));
        assert!(root.join("usr/lib/udev/rules.d/61-overdrive.rules").is_file());
        let link = root.join("usr/lib/systemd/system/sleep.target.wants/overdrive-suspend.service");
        assert_eq!(
            fs::read_link(link)?,
            Path::new("/usr/lib/systemd/system/overdrive-suspend.service")
        );
        fs::remove_dir_all(&root)?;
        Ok(())
    }

    /// Returns the settings of a unit, without its comments.
    fn settings(unit: &str) -> anyhow::Result<Vec<String>> {
        let text = fs::read_to_string(cargo::root().join("packaging/systemd").join(unit))?;
        Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
    }

    #[test]
    fn units_forbid_nothing_that_volumes_need() -> anyhow::Result<()> {
        // Each of these restricts the unit to a list of devices, which contains no disks.
        let lists = ["ProtectClock=", "PrivateDevices=", "DevicePolicy=", "DeviceAllow="];
        // Each of these creates a mount namespace: its mounts are invisible to the machine.
        let namespaces = [
            "ProtectSystem=",
            "ProtectHome=",
            "ProtectKernelTunables=",
            "ProtectKernelModules=",
            "ProtectKernelLogs=",
            "ProtectControlGroups=",
            "ProtectHostname=",
            "PrivateTmp=",
            "PrivateMounts=",
        ];
        let has = |settings: &[String], names: &[&str]| {
            settings.iter().any(|line| names.iter().any(|name| line.starts_with(name)))
        };
        let (plain, device) =
            (settings("overdrive@.service")?, settings("overdrive-device@.service")?);
        assert!(!has(&plain, &lists) && !has(&device, &lists));
        assert!(!has(&device, &namespaces), "{device:?}");
        // All other protections are the same.
        for line in plain.iter().filter(|line| !has(std::slice::from_ref(line), &namespaces)) {
            let name = line.split_once('=').map_or(line.as_str(), |(name, _)| name);
            assert!(device.iter().any(|other| other.starts_with(name)), "{name}");
        }
        Ok(())
    }

    /// Maximum exposure of each unit, in tenths, by systemd 252. The unit of devices has
    /// more, because it has no mount namespace.
    const EXPOSURES: [(&str, &str); 2] = [("overdrive@", "32"), ("overdrive-device@", "49")];

    #[test]
    fn units_are_exposed_no_more_than_stated() -> anyhow::Result<()> {
        let Some(program) = crate::packages::find("systemd-analyze") else {
            println!("skipped: systemd-analyze is missing");
            return Ok(());
        };
        let place = std::env::temp_dir().join(format!("overdrive-units-{}", std::process::id()));
        fs::create_dir_all(&place)?;
        for (unit, exposure) in EXPOSURES {
            let source = cargo::root().join(format!("packaging/systemd/{unit}.service"));
            let instance = place.join(format!("{unit}name.service"));
            fs::copy(source, &instance)?;
            let mut analyze = Command::new(&program);
            analyze.args(["security", "--offline=yes", "--no-pager", "--threshold", exposure]);
            let output = analyze.arg(&instance).output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}{:?}", output.stderr);
        }
        fs::remove_dir_all(&place)?;
        Ok(())
    }

    #[test]
    fn memory_is_protected_from_those_who_free_it() -> anyhow::Result<()> {
        for unit in ["overdrive@.service", "overdrive-device@.service"] {
            let settings = settings(unit)?;
            for needed in ["LimitMEMLOCK=infinity", "OOMPolicy=continue"] {
                assert!(settings.iter().any(|line| line == needed), "{unit}: {needed}");
            }
            assert!(settings.iter().any(|line| line == "ManagedOOMPreference=omit"), "{unit}");
            let after = settings.iter().filter(|line| line.starts_with("After="));
            assert!(after.clone().any(|line| line.contains("network.target")), "{unit}");
        }
        let path = cargo::root().join("packaging/needrestart/overdrive.conf");
        assert!(fs::read_to_string(path)?.contains("qr(^overdrive(-device)?@)} = 0;"));
        Ok(())
    }
}
