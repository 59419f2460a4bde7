//! Copying files on ext4 in a volume: 20,000 small ones and 6 large ones, from one directory of the
//! volume to another, and then everything flushed (`cp -a`, `syncfs`).
//!
//! Sides, in turns, on the same image on the machine's disk:
//! - the volume served with a cache;
//! - served without one (`--memory 0`);
//! - the page cache's way: the image mounted itself, by a loop device;
//! - served without a cache, but over the host's page cache (`--memory 0 --buffered`): the page
//!   cache at the same distance as ours.
//!
//! Before each run the file system is mounted anew, and the host forgets what it has of the image.

use crate::mounted::{Mounted, can_mount, well};
use crate::overdrive::Overdrive;
use crate::program::{Passing, Program, Site};
use crate::sides::{Pairs, median, verdict, wall_ns};
use anyhow::{Context, Result};
use lane::Random;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    site: Site,
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
    /// Rounds; each side is run once in a round.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// At least as fast as without a cache ...
const SPEED_MIN: f64 = 1.0;
/// ... and in at most this of the page cache's time.
const OF_PAGE_CACHE_MAX: f64 = 1.1;
/// Small files in a directory.
const SMALL_IN_ONE: u32 = 200;

/// What stands between the file system and the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Cached,
    Uncached,
    Image,
    Buffered,
}

const WAYS: [Way; 4] = [Way::Cached, Way::Uncached, Way::Image, Way::Buffered];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    can_mount()?;
    let overdrive = Overdrive::find(&arguments.site)?;
    let image = arguments.site.file("copy");
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
    println!("with a cache, without, the image itself, without over the page cache:");
    let mut found: [Vec<f64>; 4] = Default::default();
    for round in 0..arguments.rounds {
        let order: [usize; 4] = if round % 2 == 0 { [0, 1, 2, 3] } else { [3, 2, 1, 0] };
        for way in order {
            found[way].push(once(&overdrive, &image, WAYS[way], arguments)?);
        }
        let words = found.each_ref().map(|times| format!("{:.2}", times[round] / 1e9));
        println!("  round {}: {} s", round + 1, words.join(", "));
    }
    tell(&found);
    Ok(())
}

fn tell(found: &[Vec<f64>; 4]) {
    let seconds = |way: usize| median(found[way].clone()) / 1e9;
    println!(
        "with a cache {:.2} s, without {:.2} s, by the page cache {:.2} s, by the page cache behind \
         the same server {:.2} s",
        seconds(0),
        seconds(1),
        seconds(2),
        seconds(3)
    );
    let against = |way: usize| {
        let both = found[0].iter().zip(&found[way]);
        let both: Vec<(f64, f64)> = both.map(|(ours, other)| (*ours, *other)).collect();
        Pairs::of(&both, |time| *time)
    };
    let speed = against(1);
    println!(
        "speed against no cache {}, upper {:.2}  target at least {SPEED_MIN:.1} within the spread: {}",
        speed.speed_words(),
        speed.speed_upper_95(),
        speed.level(SPEED_MIN)
    );
    for (way, what) in
        [(2, "the page cache's time"), (3, "the page cache's behind the same server")]
    {
        let pairs = against(way);
        println!(
            "of {what} {}  target at most {OF_PAGE_CACHE_MAX}: {}",
            pairs.cost_words(),
            verdict(1.0 / pairs.speed().1 <= OF_PAGE_CACHE_MAX)
        );
    }
}

/// One copy; nanoseconds.
fn once(overdrive: &Overdrive, image: &Passing, way: Way, arguments: &Arguments) -> Result<f64> {
    forget(image.path())?;
    let path = image.path().display().to_string();
    let memory = if way == Way::Cached { arguments.memory.as_str() } else { "0" };
    let mut options = vec!["--no-holder", "--memory", memory];
    options.extend((way == Way::Buffered).then_some("--buffered"));
    let server = match way {
        Way::Image => None,
        _ => Some(overdrive.serve_anywhere("copy", &path, &options)?),
    };
    let mounted = match &server {
        Some(server) => Mounted::over_export(&server.uri())?,
        None => Mounted::over_image(image.path())?,
    };
    let (from, to) = (mounted.point().join("from"), mounted.point().join("to"));
    let start = wall_ns();
    well("cp", &[Path::new("-a"), &from, &to])?;
    rustix::fs::syncfs(File::open(mounted.point())?)?;
    let took = wall_ns() - start;
    fs::remove_dir_all(&to)?;
    rustix::fs::syncfs(File::open(mounted.point())?)?;
    drop(mounted);
    server.map(Program::stop).transpose()?;
    Ok(took as f64)
}

/// The host forgets what it holds of a file.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// An image whose every block the disk holds, with ext4 and the files to copy; returns their bytes.
fn make_image(image: &Passing, arguments: &Arguments) -> Result<u64> {
    let files = u64::from(arguments.small) * (16 << 10)
        + u64::from(arguments.large) * (arguments.large_mib << 20);
    // The files twice, and room for the file system's own.
    crate::program::fill(image.path(), (files * 5 / 2 + (512 << 20)) >> 20 << 20)?;
    let path = image.path().display().to_string();
    well("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &path])
        .context("an image with ext4")?;
    let mounted = Mounted::over_image(image.path())?;
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
