//! Times in the life of a device: from attach to a mounted file system, from kill -9 to the next
//! answer, and of a detach with much dirty data.

use super::Attached;
use crate::mounted::well;
use crate::overdrive::Overdrive;
use crate::program::{ProgramOptions, TemporaryPath, fill};
use crate::sides::{Pairs, Side, in_turns, median, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const MOUNTED_MAX_MS: f64 = 2000.0;
const ANSWER_MAX_MS: f64 = 1000.0;
/// Minimum speed relative to sequential writes of the same data to the image.
const DETACH_MIN: f64 = 1.0;
/// The alignment of memory for direct I/O.
const ALIGNED: usize = 4096;

fn ms(from_ns: u64) -> f64 {
    (wall_ns() - from_ns) as f64 / 1e6
}

/// Prints the median and the maximum, and whether the maximum meets the target.
fn print_result(what: &str, found: &[f64], most: f64) {
    let largest = found.iter().copied().fold(0.0, f64::max);
    let middle = median(found.to_vec());
    println!(
        "{what}: median {middle:.0} ms, most {largest:.0} ms  target {most:.0} ms: {}",
        verdict(largest <= most)
    );
}

/// Measures all of them.
///
/// # Errors
/// Those of a command.
pub(super) fn run(
    overdrive: &Overdrive,
    program_options: &ProgramOptions,
    dirty_mib: u64,
    rounds: usize,
) -> Result<()> {
    let image = program_options.file("device-life");
    fill(image.path(), 512 << 20)?;
    well("mkfs.ext4", &["-q", "-F", &image.path().display().to_string()])?;
    let (mut mounted, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        mounted.push(mount(overdrive, image.path())?);
        answered.push(kill(overdrive, image.path())?);
    }
    print_result("from 'overdrive mount' to a listed directory", &mounted, MOUNTED_MAX_MS);
    print_result("from kill -9 to the next answer of the device", &answered, ANSWER_MAX_MS);
    drop(image);
    detach(overdrive, program_options, dirty_mib, rounds)
}

fn mount(overdrive: &Overdrive, image: &Path) -> Result<f64> {
    let place = TemporaryPath::directory("device-mount")?;
    let directory = place.path().to_str().context("a path that is text")?;
    let name = format!("figures-{}", std::process::id());
    let start = wall_ns();
    let image = image.to_str().context("a path that is text")?;
    overdrive.well(&["mount", image, directory, "--name", &name])?;
    let listed = fs::read_dir(place.path())?.count();
    let took = ms(start);
    ensure!(listed > 0, "nothing is mounted");
    overdrive.well(&["umount", directory])?;
    Ok(took)
}

/// Reads a block of the device, bypassing every cache of the kernel.
fn read_block(device: &Path, at: u64) -> Result<()> {
    let file =
        File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(device)?;
    let mut memory = vec![0; 2 * ALIGNED];
    let skip = memory.as_ptr().align_offset(ALIGNED);
    file.read_exact_at(&mut memory[skip..skip + ALIGNED], at)?;
    Ok(())
}

fn kill(overdrive: &Overdrive, image: &Path) -> Result<f64> {
    let device = Attached::new(overdrive, image, &[])?;
    read_block(&device.node(), 0)?;
    let daemon = Pid::from_raw(i32::try_from(device.daemon()?)?).context("a process")?;
    let start = wall_ns();
    kill_process(daemon, Signal::KILL)?;
    read_block(&device.node(), 1 << 20)?;
    let took = ms(start);
    device.detach()?;
    Ok(took)
}

/// Compares the detach of a device with much dirty data with sequential writes of the same bytes to
/// the image itself, bypassing the page cache.
fn detach(
    overdrive: &Overdrive,
    program_options: &ProgramOptions,
    dirty_mib: u64,
    rounds: usize,
) -> Result<()> {
    let image = program_options.file("device-dirty");
    fill(image.path(), dirty_mib << 20)?;
    // The rest is a hole: a cache is not larger than its volume.
    File::options().write(true).open(image.path())?.set_len((dirty_mib * 4) << 20)?;
    // Early writeback of the open epoch starts at three eighths of the dirty limit.
    let (memory, dirty) = (format!("{}M", dirty_mib * 4), format!("{}M", dirty_mib * 3));
    let options = [
        "--memory",
        &memory,
        "--dirty-bytes",
        &dirty,
        "--dirty-age",
        "600s",
        "--flush-target",
        "0",
        "--write",
        "back-now",
        "--absorb-bytes-max",
        "512K",
        "--guard",
        "off",
    ];
    let found = in_turns(rounds, |side| match side {
        Side::A => {
            let device = Attached::new(overdrive, image.path(), &options)?;
            dirty_in_order(&device, dirty_mib)?;
            let dirty = overdrive.counted()?.get("blocks_dirty") >> 8;
            ensure!(dirty > dirty_mib * 9 / 10, "only {dirty} MiB are dirty");
            let start = wall_ns();
            device.detach()?;
            Ok(ms(start))
        }
        Side::B => {
            fadvise(File::open(image.path())?, 0, None, Advice::DontNeed)?;
            let start = wall_ns();
            well(
                "dd",
                &[
                    "if=/dev/zero",
                    &format!("of={}", image.path().display()),
                    "bs=1M",
                    &format!("count={dirty_mib}"),
                    "oflag=direct",
                    "conv=notrunc,fsync",
                    "status=none",
                ],
            )?;
            Ok(ms(start))
        }
    })?;
    let pairs = Pairs::of(&found, |time| *time);
    println!(
        "detach with {dirty_mib} MiB dirty: {:.0} ms, as much written to the image in order {:.0} ms: speed {} x  target \
         {DETACH_MIN}: {}",
        pairs.a(),
        pairs.b(),
        pairs.speed_words(),
        pairs.level(DETACH_MIN)
    );
    Ok(())
}

/// Makes this amount of data dirty in a device's cache: bypasses the page cache, without a flush.
fn dirty_in_order(device: &Attached<'_>, mib: u64) -> Result<()> {
    let (to, count) = (format!("of={}", device.node().display()), format!("count={}", mib * 4));
    // Not larger than the largest write that is buffered.
    well("dd", &["if=/dev/zero", &to, "bs=256K", &count, "oflag=direct", "status=none"])?;
    Ok(())
}
