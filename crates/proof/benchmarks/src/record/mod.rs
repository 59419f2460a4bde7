//! The recordings that the suites `filebench` and `loadtime` replay on devices without a file
//! system.
//!
//! ```text
//!   ext4 -- loop device, tracepoints here -- FUSE -- overdrive, without a cache -- delayed memory
//! ```
//!
//! The work on the file system is that of these suites on a mounted one, by the same functions.
//! Before the recording the file system is mounted again, so that names and inodes are read as
//! well.

mod tracepoints;

use crate::device::Attached;
use crate::mounted::{Mounted, can_mount, well};
use crate::overdrive::Overdrive;
use crate::program::ProgramOptions;
use anyhow::{Context, Result, ensure};
use rigs::tree::{Folder, Look, Set, found, load};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use suites::{About, FILE_SETS, FileSet, Halt, Recording};
use trace::{Event, recording};
use tracepoints::Tracing;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Percentage of each file set.
    #[arg(long, default_value_t = 10.0)]
    share: f64,
    /// Only the recording of this name, such as filebench-mp3 or loadtime.
    #[arg(long)]
    only: Option<String>,
    /// Directory of the recordings.
    #[arg(long, default_value = "crates/lab/suites/recordings")]
    into: PathBuf,
}

/// The device: memory with about the latency of an SSD of the reviews' time.
const DEVICE: &str = "ram:1G";
const DEVICE_BYTES: u64 = 1 << 30;
const DELAY: &str = "read=80us,write=25us,flush=200us,servers=32";
/// Linux's readahead on most disks.
const READ_AHEAD_KIB: &str = "128";
/// The seed of the files.
const SEED: u64 = 1;
/// Sets whose files the load reads: an application has many small files and some large ones.
const LOADED: [&str; 2] = ["Mozilla", "RAW"];
/// The part of their share that is read: the load is then about as long as that of one set.
const LOADED_SHARE: f64 = 0.7;

fn halted(halt: Halt) -> anyhow::Error {
    anyhow::anyhow!("{halt}")
}

/// A file system on the device, until it is dropped.
struct Stage<'a> {
    mounted: Mounted,
    device: Attached<'a>,
    /// The device's number.
    number: (u32, u32),
}

impl<'a> Stage<'a> {
    fn new(overdrive: &'a Overdrive) -> Result<Stage<'a>> {
        let device =
            Attached::new(overdrive, Path::new(DEVICE), &["--memory", "0", "--delay", DELAY])?;
        let node = device.node().canonicalize()?;
        let number = fs::metadata(&node)?.rdev();
        let number = (rustix::fs::major(number), rustix::fs::minor(number));
        let queue = format!("/sys/dev/block/{}:{}/queue/read_ahead_kb", number.0, number.1);
        fs::write(&queue, READ_AHEAD_KIB).context(queue)?;
        // Data left for a later write would be recorded.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        well("mkfs.ext4", &["-q", "-E", options, &node.display().to_string()])?;
        let mounted = Mounted::on(&node)?;
        Ok(Stage { mounted, device, number })
    }

    fn point(&self) -> &Path {
        self.mounted.point()
    }

    /// Records `work` on the file system, which is mounted again before.
    fn record(self, work: impl FnOnce() -> Result<()>) -> Result<Vec<Event>> {
        well("umount", &[self.point()])?;
        well("mount", &[&self.device.node(), self.point()])?;
        let tracing = Tracing::start(self.number.0, self.number.1)?;
        work()?;
        let events = tracing.events();
        drop(self.mounted);
        self.device.detach()?;
        events
    }
}

/// Describes the environment of the recordings.
fn place() -> String {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let release = release.split('-').next().unwrap_or_default();
    format!("ext4 of Linux {release} on memory that answers as if it were an SSD ({DELAY})")
}

fn about(what: &str, sets: &[(FileSet, FileSet)]) -> About {
    let sum = |of: fn(&(FileSet, FileSet)) -> u64| sets.iter().map(of).sum();
    About {
        what: what.to_owned(),
        on: place(),
        files: sum(|(set, _)| set.files),
        files_whole: sum(|(_, whole)| whole.files),
        bytes: sum(|(set, _)| set.bytes),
        bytes_whole: sum(|(_, whole)| whole.bytes),
        device_bytes: DEVICE_BYTES,
    }
}

fn copy(overdrive: &Overdrive, whole: FileSet, share: f64) -> Result<(About, Vec<Event>)> {
    let (stage, set) = (Stage::new(overdrive)?, whole.scaled(share));
    let mut watch = ();
    let look = &mut Look::new(&mut watch);
    let (made, point) = (Set::new(set, SEED), stage.point().to_owned());
    made.make(&mut Folder::open(&point)?, look).map_err(halted)?;
    let events = stage.record(|| made.copy(&mut Folder::open(&point)?, look).1.map_err(halted))?;
    Ok((about(&format!("copy of the file set {}", whole.name), &[(set, whole)]), events))
}

fn loading(overdrive: &Overdrive, share: f64) -> Result<(About, Vec<Event>)> {
    let stage = Stage::new(overdrive)?;
    let mut watch = ();
    let look = &mut Look::new(&mut watch);
    let sets = FILE_SETS.iter().filter(|set| LOADED.contains(&set.name));
    let sets: Vec<_> = sets.map(|set| (set.scaled(share * LOADED_SHARE), *set)).collect();
    for (set, _) in &sets {
        let mut folder = Folder::open(stage.point())?;
        Set::new(*set, SEED).make(&mut folder, look).map_err(halted)?;
    }
    let point = stage.point().to_owned();
    let events = stage.record(|| {
        let found = found(&point, look).map_err(halted)?;
        let (loaded, ended) = load(&found.files, "loading", look);
        ended.map_err(halted)?;
        ensure!(loaded.files as usize == found.files.len(), "{} files left out", loaded.left_out);
        Ok(())
    })?;
    let what = format!("load of files like those of the sets {}", LOADED.join(" and "));
    Ok((about(&what, &sets), events))
}

/// Writes a recording.
fn write(into: &Path, name: &str, about: &About, events: &[Event]) -> Result<()> {
    let mut trace = Vec::new();
    recording::header(&mut trace);
    recording::blocks(&mut trace, events, 0);
    let packed = Recording::pack(about, &trace);
    let read = Recording::unpack(&packed).map_err(anyhow::Error::msg)?;
    ensure!(read.trace.events().len() == events.len(), "{name}: it is not read as it was written");
    let path = into.join(format!("{name}.odreplay"));
    fs::write(&path, &packed).with_context(|| path.display().to_string())?;
    let reads = 100.0 * read.trace.share_of_reads();
    println!(
        "{}: {} requests, {reads:.0} % reads, {:.2} s; {} bytes",
        path.display(),
        events.len(),
        read.trace.duration_ns() as f64 / 1e9,
        packed.len()
    );
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    can_mount()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    fs::create_dir_all(&arguments.into)?;
    let wants = |name: &str| arguments.only.as_ref().is_none_or(|only| only == name);
    for set in FILE_SETS {
        let name = format!("filebench-{}", set.name.to_lowercase());
        if wants(&name) {
            let (about, events) = copy(&overdrive, set, arguments.share)?;
            write(&arguments.into, &name, &about, &events)?;
        }
    }
    if wants("loadtime") {
        let (about, events) = loading(&overdrive, arguments.share)?;
        write(&arguments.into, "loadtime", &about, &events)?;
    }
    Ok(())
}
