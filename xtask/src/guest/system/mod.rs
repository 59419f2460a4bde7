//! `cargo xtask system`: a Debian with systemd and udev, in a machine that QEMU emulates, mounts volumes by fstab; it is
//! turned off, rebooted, and its power is cut. At last its own disk is a volume, whose daemon is killed.
//!
//! `image.rs` makes the disks anew. Each boot does one part of `trial.sh`, and tells by lines how it went; what is left on
//! the disks is checked here.

mod image;
mod machine;
mod served;

use super::debian::Kernel;
use crate::cargo;
use crate::packages::{Purpose, find};
use crate::setup;
use anyhow::{Context, bail, ensure};
use machine::{Machine, Said, console};
use served::Served;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Something that it needs cannot be had here; what to do was said.
const EXIT_MISSING: u8 = 4;

/// How long a guest may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// The parts, in their order, and how each ends.
const PARTS: [(&str, End); 8] = [
    ("first", End::Off),
    ("second", End::Off),
    ("third", End::Cut),
    ("fourth", End::Off),
    ("served", End::Off),
    ("luks", End::Off),
    ("lvm", End::Off),
    ("asleep", End::Off),
];

/// How a boot ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The guest turns itself off, or boots anew.
    Off,
    /// QEMU is killed when the guest asks for it.
    Cut,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where it cannot be had: say so and end well, but not under CI.
    #[arg(long)]
    if_possible: bool,
    /// Only this part, on new disks: first, served, luks, lvm and asleep need none before them.
    #[arg(long, value_name = "PART", value_parser = PARTS.map(|(part, _)| part))]
    only: Option<String>,
}

/// The command `system`.
///
/// # Errors
/// If a part fails; what was said is shown.
pub(crate) fn run_all(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(cfg!(target_arch = "x86_64"), "the guest runs programs for x86-64, and these are not");
    let cache = cargo::target().join("guest");
    let Some(kernel) = prepare(&cache)? else { return Ok(missing(options)) };
    super::build(&["overdrive".to_owned()])?;
    let place = cache.join("system");
    fs::create_dir_all(&place)?;
    image::make(&cache, &place, &kernel)?;
    let chosen = |part: &str| options.only.as_ref().is_none_or(|only| only == part);
    let (mut passed, mut failed) = (0, 0);
    for (part, end) in PARTS.into_iter().filter(|(part, _)| chosen(part)) {
        println!("{part} ...");
        match try_part(&place, &kernel, part, end) {
            Ok(()) => passed += 1,
            // The others find other things.
            Err(error) => {
                failed += 1;
                println!("{part}: {error:#}; {} tells more", console(&place, part).display());
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Boots a part to its end, and checks what is left.
fn try_part(place: &Path, kernel: &Kernel, part: &str, end: End) -> anyhow::Result<()> {
    let mut served = if part == "served" { Some(Served::start(place)?) } else { None };
    boot(place, kernel, part, end, served.as_mut())?;
    if let Some(served) = served {
        served.stop()?;
    }
    check(place, part)
}

/// The guest's kernel. None: something is missing, and what to do was said.
fn prepare(cache: &Path) -> anyhow::Result<Option<Kernel>> {
    if !setup::is_root() {
        eprintln!("cargo xtask system: only root can make the files of a Debian");
        return Ok(None);
    }
    if setup::prepare(Purpose::System)? != ExitCode::SUCCESS {
        return Ok(None);
    }
    let kernel = Kernel::get(cache);
    if let Err(error) = &kernel {
        eprintln!("cargo xtask system: {error:#}");
    }
    Ok(kernel.ok())
}

fn missing(options: &Options) -> ExitCode {
    if options.if_possible && std::env::var_os("CI").is_none() {
        println!("skipped: no guest");
        return ExitCode::SUCCESS;
    }
    ExitCode::from(EXIT_MISSING)
}

/// Boots a part, and hears it to its end.
fn boot(
    place: &Path,
    kernel: &Kernel,
    part: &str,
    end: End,
    mut served: Option<&mut Served>,
) -> anyhow::Result<()> {
    let root = served.as_ref().map_or_else(|| machine::local(place, "root"), |it| it.blockdev());
    let machine = Machine::boot(place, kernel, part, &root)?;
    let mut has_passed = false;
    loop {
        match machine.hear(SILENCE_MAX) {
            Said::Line(line) => match line.as_str() {
                "trial: passed" => has_passed = true,
                "trial: failed" => bail!("it has failed"),
                "trial: cut" if end == End::Cut => return Ok(()),
                "trial: kill" => match &mut served {
                    Some(served) => served.kill()?,
                    None => bail!("no daemon of this machine is to be killed"),
                },
                _ => println!("  {line}"),
            },
            Said::Off if has_passed => return Ok(()),
            Said::Off => bail!("it was off before it had passed"),
            Said::Late => bail!("it has said nothing for {} s", SILENCE_MAX.as_secs()),
        }
    }
}

/// After an orderly end, the disks alone are whole, and need no replay of a journal.
fn check(place: &Path, part: &str) -> anyhow::Result<()> {
    let disks: &[&str] = match part {
        "first" | "second" => &["disk"],
        "served" => &["root"],
        _ => &[],
    };
    for disk in disks {
        let program = find("e2fsck").context("e2fsck is missing")?;
        run(Command::new(program).arg("-fn").arg(image::disk(place, disk)))?;
    }
    Ok(())
}

/// Runs a program to its end.
///
/// # Errors
/// With what it says.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    Ok(())
}
