//! `cargo xtask system`: a Debian with systemd and udev, in a machine emulated by QEMU, mounts
//! volumes by fstab. It is turned off, it is rebooted, and its power is cut. Finally its own disk
//! is a volume, whose daemon is killed.
//!
//! `image.rs` creates the disks. Each boot runs one part of `trial.sh`, which prints its results as
//! lines; the contents of the disks are then checked here.

pub(crate) mod boot;
mod image;
mod machine;
pub(crate) mod packaged;
mod served;

use super::debian::Kernel;
use crate::cargo;
use crate::packages::{Purpose, find};
use crate::setup;
use anyhow::{Context, bail, ensure};
use machine::{Machine, Output, console};
use served::Served;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Something that it needs is not available here; a remedy was printed.
const EXIT_MISSING: u8 = 4;

/// Maximum time without output of a guest, on a machine with other work.
const SILENCE_MAX: Duration = Duration::from_secs(900);

/// The parts in order, and how each ends.
const PARTS: [(&str, End); 9] = [
    ("first", End::Off),
    ("second", End::Off),
    ("third", End::Cut),
    ("fourth", End::Off),
    ("served", End::Off),
    ("confined", End::Off),
    ("luks", End::Off),
    ("lvm", End::Off),
    ("asleep", End::Off),
];

/// The end of a boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The guest turns itself off, or reboots.
    Off,
    /// QEMU is killed when the guest requests it.
    Cut,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// If it is not possible, print the reason and succeed, except under CI.
    #[arg(long)]
    if_possible: bool,
    /// Only this part, on new disks: first, served, confined, luks, lvm and asleep need no earlier
    /// part.
    #[arg(long, value_name = "PART", value_parser = PARTS.map(|(part, _)| part))]
    only: Option<String>,
}

/// The command `system`.
///
/// # Errors
/// A part fails; its output was printed.
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
            // Later parts may find other faults.
            Err(error) => {
                failed += 1;
                println!("{part}: {error:#}; {} tells more", console(&place, part).display());
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Boots a part, waits for its end, and checks the disks.
fn try_part(place: &Path, kernel: &Kernel, part: &str, end: End) -> anyhow::Result<()> {
    let mut served = if part == "served" { Some(Served::start(place)?) } else { None };
    boot(place, kernel, part, end, served.as_mut())?;
    if let Some(served) = served {
        served.stop()?;
    }
    check(place, part)
}

/// Returns the guest's kernel. None: something is missing, and a remedy was printed.
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

/// Boots a part, and reads its output to the end.
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
        match machine.next_output(SILENCE_MAX) {
            Output::Line(line) => match line.as_str() {
                "trial: passed" => has_passed = true,
                "trial: failed" => bail!("it has failed"),
                "trial: cut" if end == End::Cut => return Ok(()),
                "trial: kill" => match &mut served {
                    Some(served) => served.kill()?,
                    None => bail!("no daemon of this machine is to be killed"),
                },
                _ => println!("  {line}"),
            },
            Output::Off if has_passed => return Ok(()),
            Output::Off => bail!("it was off before it had passed"),
            Output::Late => bail!("it has said nothing for {} s", SILENCE_MAX.as_secs()),
        }
    }
}

/// After a regular end, the disks alone are complete, and need no replay of a journal.
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

/// Runs a program until it ends.
///
/// # Errors
/// The program fails; includes its output.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    Ok(())
}
