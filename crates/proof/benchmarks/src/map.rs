//! The map from blocks to files: processor time and memory for many files, by the reader of images
//! and by a walk with FIEMAP, and whether both find the same blocks.

use crate::sides::{cpu_ns, verdict};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use files::{Bounds, Map, Owner, map_volume};
use mounted::FileSource;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of files, of 4 KiB each.
    #[arg(long, default_value_t = 1_000_000)]
    files: u32,
    /// Files of a directory; 0: all are in one directory.
    #[arg(long, default_value_t = 1000)]
    per_directory: u32,
    /// File system.
    #[arg(long, value_enum, default_value_t = Kind::Ext4)]
    kind: Kind,
    /// Directory of the image. The image needs 6 KiB a file.
    #[arg(long, default_value = "/var/tmp")]
    place: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Ext4,
    Xfs,
}

/// Maximum processor time of a map, in seconds, and memory of the process, in MiB.
const SECONDS: f64 = 20.0;
const MIB: u64 = 64;

/// An image, mounted.
struct Mounted {
    directory: TempDir,
}

fn run(program: &str, arguments: &[&str], directory: &Path) -> Result<()> {
    let status = Command::new(program).args(arguments).current_dir(directory).status();
    let status = status.with_context(|| format!("{program} cannot be started"))?;
    ensure!(status.success(), "{program} {arguments:?} failed");
    Ok(())
}

impl Mounted {
    fn new(arguments: &Arguments) -> Result<Mounted> {
        if !rustix::process::geteuid().is_root() {
            bail!("mounting an image needs root");
        }
        let directory = tempfile::tempdir_in(&arguments.place)?;
        let bytes = (u64::from(arguments.files) * 6144).next_multiple_of(1 << 20) + (1 << 30);
        File::create(directory.path().join("image"))?.set_len(bytes)?;
        let inodes = (arguments.files + 50_000).to_string();
        let (program, options) = match arguments.kind {
            Kind::Ext4 => ("mkfs.ext4", vec!["-q", "-F", "-m", "0", "-N", &inodes, "image"]),
            Kind::Xfs => ("mkfs.xfs", vec!["-q", "-f", "-i", "maxpct=50", "image"]),
        };
        run(program, &options, directory.path())?;
        fs::create_dir(directory.path().join("mount"))?;
        run("mount", &["-o", "loop,noatime", "image", "mount"], directory.path())?;
        Ok(Mounted { directory })
    }

    fn point(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    fn unmount(&self) -> Result<()> {
        run("umount", &["mount"], self.directory.path())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let is_mounted = |point: &Path| {
            let device = |path: &Path| rustix::fs::stat(path).ok().map(|stat| stat.st_dev);
            device(point) != device(self.directory.path())
        };
        if is_mounted(&self.point()) && self.unmount().is_err() {
            eprintln!("{} is still mounted", self.point().display());
        }
    }
}

/// Makes the files.
fn fill(point: &Path, arguments: &Arguments) -> Result<()> {
    const EXTENSIONS: [&str; 6] = ["txt", "jpg", "so", "db", "mp4", "dat"];
    let mut directory = point.to_path_buf();
    for number in 0..arguments.files {
        if arguments.per_directory > 0 && number % arguments.per_directory == 0 {
            directory = point.join(format!("directory {}", number / arguments.per_directory));
            fs::create_dir(&directory)?;
        }
        let extension = EXTENSIONS[number as usize % EXTENSIONS.len()];
        let file = File::create(directory.join(format!("file {number:08}.{extension}")))?;
        file.write_all_at(&[7; 4096], 0)?;
    }
    rustix::fs::syncfs(File::open(point)?)?;
    Ok(())
}

/// Resets the maximum of the memory that this process has had.
fn reset_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("the peak of the memory cannot be reset")
}

/// Returns the maximum of the memory that this process has had since then, in KiB.
fn peak_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?;
    Ok(number.parse()?)
}

/// Makes a map, prints its figures, and returns it.
fn measure(name: &str, make: impl FnOnce() -> Result<Map>) -> Result<Map> {
    reset_peak()?;
    let before = cpu_ns();
    let map = make()?;
    let (seconds, kib) = ((cpu_ns() - before) as f64 / 1e9, peak_kib()?);
    println!(
        "{name:<8} {} files in {seconds:.2} s of a processor  target at most {SECONDS} s: {}",
        map.files(),
        verdict(seconds <= SECONDS)
    );
    println!(
        "{name:<8} {:.1} MiB of memory at most  target at most {MIB} MiB: {}; the map {:.1} MiB",
        kib as f64 / 1024.0,
        verdict(kib <= MIB << 10),
        map.memory_bytes() as f64 / f64::from(1 << 20)
    );
    ensure!(!map.is_incomplete(), "the map is incomplete");
    Ok(map)
}

/// Prints the time of a lookup.
fn lookups(map: &Map) {
    let blocks = map.sectors() / 8;
    let (count, mut sum) = (1_000_000u64, 0u64);
    let before = cpu_ns();
    for number in 0..count {
        let block = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks;
        sum += u64::from(map.block(block).0.number());
    }
    let ns = (cpu_ns() - before) as f64 / count as f64;
    println!("lookup   {ns:.0} ns for the class of a random block (sum {sum})");
}

/// Returns the number of extents of files, after a check that both maps have the same.
fn compare(one: &Map, two: &Map) -> Result<u64> {
    let owned = |map: &Map| map.extents().filter(|it| matches!(it.owner, Owner::File(_))).count();
    ensure!(owned(one) == owned(two), "{} and {} extents", owned(one), owned(two));
    let of_files = |it: &files::Extent| matches!(it.owner, Owner::File(_));
    let mut count = 0;
    for (one_of, two_of) in one.extents().filter(of_files).zip(two.extents().filter(of_files)) {
        let same = (one_of.first, one_of.sectors, one_of.class)
            == (two_of.first, two_of.sectors, two_of.class);
        ensure!(same && one.path(one_of.owner) == two.path(two_of.owner), "{one_of:?} {two_of:?}");
        count += 1;
    }
    Ok(count)
}

pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let mounted = Mounted::new(arguments)?;
    fill(&mounted.point(), arguments)?;
    let image = mounted.directory.path().join("image");
    let (bounds, sectors) = (Bounds::default(), image.metadata()?.len() / 512);
    let walked =
        measure("FIEMAP", || Ok(mounted::map_mounted(&mounted.point(), sectors, &bounds, 0)?))?;
    let kept = walked.into_bytes();
    mounted.unmount()?;
    let stored = mounted.directory.path().join("map");
    fs::write(&stored, &kept)?;
    drop(kept);
    let map = measure("reader", || Ok(map_volume(&mut FileSource::open(&image)?, &bounds, 0)))?;
    lookups(&map);
    let walked = Map::parse(fs::read(&stored)?).context("the stored map")?;
    let extents = compare(&map, &walked)?;
    println!("equal    {extents} extents of files, block for block");
    Ok(())
}
