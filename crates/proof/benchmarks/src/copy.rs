//! Copies files on ext4 in a volume: 20,000 small ones and 6 large ones, from one directory of the
//! volume to another, and then flushes everything (`cp -a`, `syncfs`).
//!
//! The sides, in turns, on the same image on the machine's disk:
//! - the volume served with a cache;
//! - served without one (`--memory 0`);
//! - the page cache: the image itself mounted, by a loop device;
//! - served without a cache, but over the host's page cache (`--memory 0 --buffered`): the page
//!   cache behind the same layers as our cache;
//! - attached with a cache (`overdrive attach`); the served ones are mounted by nbdfuse;
//! - attached without one, over the host's page cache.
//!
//! Before each run the file system is mounted again, and the image is dropped from the host's page
//! cache.

use crate::device::Attached;
use crate::mounted::{Mounted, can_mount, well};
use crate::overdrive::Overdrive;
use crate::program::{Program, ProgramOptions, TemporaryPath};
use crate::sides::{Pairs, median, verdict, wall_ns};
use anyhow::{Context, Result};
use lane::Random;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Small files, of 1 to 16 KiB.
    #[arg(long, default_value_t = 20_000)]
    small: u32,
    /// Large files.
    #[arg(long, default_value_t = 6)]
    large: u32,
    /// Size of a large file, in MiB.
    #[arg(long, default_value_t = 64)]
    large_mib: u64,
    /// Memory of the cache.
    #[arg(long, default_value = "1G")]
    memory: String,
    /// Rounds; each side runs once in a round.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// Minimum speed relative to no cache ...
const SPEED_MIN: f64 = 1.0;
/// ... and maximum time relative to the page cache.
const OF_PAGE_CACHE_MAX: f64 = 1.1;
/// Minimum speed of an attached device relative to the same volume by nbdfuse.
const OF_NBDFUSE_MIN: f64 = 1.4;
/// Small files per directory.
const SMALL_IN_ONE: u32 = 200;

/// The layers between the file system and the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Cached,
    Uncached,
    Image,
    Buffered,
    Attached,
    AttachedBuffered,
}

const WAYS: [Way; 6] =
    [Way::Cached, Way::Uncached, Way::Image, Way::Buffered, Way::Attached, Way::AttachedBuffered];

impl Way {
    /// Returns the options of the server.
    fn options(self, memory: &str) -> Vec<&str> {
        match self {
            Way::Cached | Way::Attached => vec!["--memory", memory],
            Way::Uncached | Way::Image => vec!["--memory", "0"],
            Way::Buffered | Way::AttachedBuffered => vec!["--memory", "0", "--buffered"],
        }
    }

    fn is_attached(self) -> bool {
        matches!(self, Way::Attached | Way::AttachedBuffered)
    }
}

/// The times of every way, in the order of [`WAYS`].
type Times = [Vec<f64>; WAYS.len()];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    can_mount()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let image = arguments.program_options.file("copy");
    let bytes = make_image(&image, arguments)?;
    println!(
        "{} files of 1 to 16 KiB and {} of {} MiB, {:.0} MiB, on ext4 in {}; --memory {}",
        arguments.small,
        arguments.large,
        arguments.large_mib,
        bytes as f64 / (1 << 20) as f64,
        image.path().display(),
        arguments.memory
    );
    println!(
        "with a cache, without, the image itself, without over the page cache; attached, attached without over the \
         page cache:"
    );
    let mut found = Times::default();
    for round in 0..arguments.rounds {
        let mut order: Vec<usize> = (0..WAYS.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for way in order {
            found[way].push(run_once(&overdrive, &image, WAYS[way], arguments)?);
        }
        let words = found.each_ref().map(|times| format!("{:.2}", times[round] / 1e9));
        println!("  round {}: {} s", round + 1, words.join(", "));
    }
    print_result(&found);
    Ok(())
}

fn print_result(found: &Times) {
    let seconds = |way: usize| median(found[way].clone()) / 1e9;
    println!(
        "with a cache {:.2} s, without {:.2} s, by the page cache {:.2} s, by the page cache behind \
         the same server {:.2} s",
        seconds(0),
        seconds(1),
        seconds(2),
        seconds(3)
    );
    println!("attached {:.2} s, attached over the page cache {:.2} s", seconds(4), seconds(5));
    let against = |way: usize, other: usize| {
        let both = found[way].iter().zip(&found[other]);
        let both: Vec<(f64, f64)> = both.map(|(ours, other)| (*ours, *other)).collect();
        Pairs::of(&both, |time| *time)
    };
    for (way, other, what, least) in [
        (0, 1, "speed against no cache", SPEED_MIN),
        (4, 0, "speed attached against by nbdfuse", OF_NBDFUSE_MIN),
    ] {
        let speed = against(way, other);
        println!(
            "{what} {}, upper {:.2}  target at least {least:.1} within the spread: {}",
            speed.speed_words(),
            speed.speed_upper_95(),
            speed.level(least)
        );
    }
    for (way, other, what) in [
        (0, 2, "the page cache's time"),
        (0, 3, "the page cache's behind the same server"),
        (4, 5, "the page cache's behind the same device, attached"),
    ] {
        let pairs = against(way, other);
        println!(
            "of {what} {}  target at most {OF_PAGE_CACHE_MAX}: {}",
            pairs.cost_words(),
            verdict(1.0 / pairs.speed().1 <= OF_PAGE_CACHE_MAX)
        );
    }
}

/// Runs one copy; returns nanoseconds.
fn run_once(
    overdrive: &Overdrive,
    image: &TemporaryPath,
    way: Way,
    arguments: &Arguments,
) -> Result<f64> {
    drop_from_page_cache(image.path())?;
    if way.is_attached() {
        return attached(overdrive, image, way, arguments);
    }
    let path = image.path().display().to_string();
    let options = [&["--no-holder"], &way.options(&arguments.memory)[..]].concat();
    let server = match way {
        Way::Image => None,
        _ => Some(overdrive.serve_anywhere("copy", &path, &options)?),
    };
    let mounted = match &server {
        Some(server) => Mounted::mount_export(&server.uri())?,
        None => Mounted::mount_image(image.path())?,
    };
    let took = copy(mounted.point())?;
    drop(mounted);
    server.map(Program::stop).transpose()?;
    Ok(took)
}

/// Runs one copy on an attached device.
fn attached(
    overdrive: &Overdrive,
    image: &TemporaryPath,
    way: Way,
    arguments: &Arguments,
) -> Result<f64> {
    let device = Attached::new(overdrive, image.path(), &way.options(&arguments.memory))?;
    let mounted = Mounted::on(&device.node())?;
    let took = copy(mounted.point())?;
    drop(mounted);
    device.detach()?;
    Ok(took)
}

/// Copies the files of a mounted file system within it, and removes the copy; returns the
/// nanoseconds of the copy.
fn copy(point: &Path) -> Result<f64> {
    let (from, to) = (point.join("from"), point.join("to"));
    let start = wall_ns();
    well("cp", &[Path::new("-a"), &from, &to])?;
    rustix::fs::syncfs(File::open(point)?)?;
    let took = wall_ns() - start;
    fs::remove_dir_all(&to)?;
    rustix::fs::syncfs(File::open(point)?)?;
    Ok(took as f64)
}

/// Drops a file from the host's page cache.
fn drop_from_page_cache(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Makes an image with all blocks allocated on the disk, with ext4 and the files to copy; returns
/// their bytes.
fn make_image(image: &TemporaryPath, arguments: &Arguments) -> Result<u64> {
    let files = u64::from(arguments.small) * (16 << 10)
        + u64::from(arguments.large) * (arguments.large_mib << 20);
    // The files twice, and space for the file system's metadata.
    crate::program::fill(image.path(), (files * 5 / 2 + (512 << 20)) >> 20 << 20)?;
    let path = image.path().display().to_string();
    well("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &path])
        .context("an image with ext4")?;
    let mounted = Mounted::mount_image(image.path())?;
    let from = mounted.point().join("from");
    let bytes = make_files(&from, arguments)?;
    rustix::fs::syncfs(File::open(mounted.point())?)?;
    Ok(bytes)
}

fn make_files(from: &Path, arguments: &Arguments) -> Result<u64> {
    let mut random = Random::new(4);
    let mut chunk = vec![0; 1 << 20];
    chunk.chunks_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
    let mut bytes = 0;
    for number in 0..arguments.small {
        let directory = from.join(format!("small-{}", number / SMALL_IN_ONE));
        if number % SMALL_IN_ONE == 0 {
            fs::create_dir_all(&directory)?;
        }
        let length = 1024 + random.below(15 << 10) as usize;
        let skip = random.below((chunk.len() - length) as u64) as usize;
        fs::write(directory.join(number.to_string()), &chunk[skip..skip + length])?;
        bytes += length as u64;
    }
    fs::create_dir_all(from)?;
    for number in 0..arguments.large {
        let mut file = File::create(from.join(format!("large-{number}")))?;
        for _ in 0..arguments.large_mib {
            file.write_all(&chunk)?;
        }
        bytes += arguments.large_mib << 20;
    }
    Ok(bytes)
}
