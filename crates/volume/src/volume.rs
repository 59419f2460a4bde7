//! A volume: a spec, opened. Its halves are shared by lanes; each lane attaches its own handles.

use crate::failure::{Exit, Failure};
use block::{CacheSpec, Null, Ram, SECTOR, Size, Spec, Stack};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use layers::{Delay, DelayShared, Faults, FaultsShared};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use uring::{
    Direct, FileBackend, FileVolume, HugePages, Lock, OpenError, OpenErrorKind, OpenOptions, Ring,
    SharedMemory,
};

/// The least memory that a cache makes sense with.
const MEMORY_MIN: u64 = 1 << 20;
/// The least limit of dirty data that lets writes be absorbed at all.
const DIRTY_MIN: u64 = 8 << 10;
/// Bytes that stand for a sector: real ones.
const GRAIN: u32 = 512;

enum Half {
    File(Arc<FileVolume>),
    Ram(Ram),
    Null(Null),
    Delay(Arc<DelayShared>, Box<Half>),
    Faults(Arc<FaultsShared>, Box<Half>),
    Cache { shared: Arc<Shared>, memory: SharedMemory, below: Box<Half> },
}

/// How to open what a spec names.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFlags {
    /// Serve a file that looks like an image format byte by byte all the same.
    pub raw: bool,
    /// Lanes that will attach.
    pub lanes: u32,
}

/// An open volume.
pub struct Volume {
    half: Half,
    spec: Spec,
    notes: Vec<String>,
}

/// A volume's stack on one lane.
pub struct Attached {
    /// Its top.
    pub stack: Stack,
    /// Its cache, if it has one.
    pub cache: Option<Cache>,
}

impl Volume {
    /// Opens everything that the spec names. `progress` is called while memory is made ready, with
    /// the bytes done and the bytes in all.
    ///
    /// # Errors
    /// With the exit status for it: a backing that is missing, busy, too small or of an image
    /// format; memory that is not there.
    pub fn open(
        spec: Spec,
        flags: OpenFlags,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Volume, Failure> {
        let mut notes = Vec::new();
        let half = Half::open(&spec, flags, &mut notes, progress)?;
        Ok(Volume { half, spec, notes })
    }

    /// The stack as data.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What an operator should know: fall-backs that were taken.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The shared half of the cache, if there is one.
    pub fn cache(&self) -> Option<&Arc<Shared>> {
        match &self.half {
            Half::Cache { shared, .. } => Some(shared),
            _ => None,
        }
    }

    /// Whether the cache lies in huge pages; None without a cache.
    pub fn has_huge_pages(&self) -> Option<bool> {
        match &self.half {
            Half::Cache { memory, .. } => Some(memory.has_huge_pages()),
            _ => None,
        }
    }

    /// What has become of the backing while it was served: None if all is well, else a sentence.
    pub fn damage(&self) -> Option<String> {
        let (path, bytes) = self.half.file()?;
        // By its path: whoever put another file there or took it away knows what they did.
        let mut file = std::fs::File::open(path).ok()?;
        let now = file.seek(SeekFrom::End(0)).ok()?;
        (now < bytes).then(|| {
            format!(
                "{}: has shrunk from {} to {} while it was served; what was beyond is lost, also \
                 where it is made larger again",
                path.display(),
                Size(bytes),
                Size(now)
            )
        })
    }

    /// The volume as the ring's lane uses it.
    pub fn attach(&self, ring: &Ring) -> Attached {
        self.half.attach(ring)
    }
}

impl Half {
    fn open(
        spec: &Spec,
        flags: OpenFlags,
        notes: &mut Vec<String>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Half, Failure> {
        Ok(match spec {
            Spec::File { path, read_only, buffered } => {
                let options = OpenOptions { read_only: *read_only, buffered: *buffered };
                let file = FileVolume::open(path, options)
                    .map_err(|error| image_instead(error, path, flags))?;
                look_inside(&file, path, flags, notes)?;
                note_file(&file, *buffered, notes);
                Half::File(file)
            }
            Spec::Ram { size } => {
                let memory = memory("overdrive ram", size.0, HugePages::Never, progress)?;
                Half::Ram(Ram::over(memory.memory().clone(), size.0 / SECTOR, GRAIN))
            }
            Spec::Null { size } => Half::Null(Null::new(size.0 / SECTOR, GRAIN)),
            Spec::Delay { delay, below } => {
                let below = Half::open(below, flags, notes, progress)?;
                Half::Delay(DelayShared::new(delay), Box::new(below))
            }
            Spec::Faults { faults, below } => {
                let below = Half::open(below, flags, notes, progress)?;
                Half::Faults(FaultsShared::new(faults), Box::new(below))
            }
            Spec::Cache { cache, below } => {
                let below = Half::open(below, flags, notes, progress)?;
                open_cache(cache, below, flags, notes, progress)?
            }
        })
    }

    fn limits(&self) -> block::Limits {
        match self {
            Half::File(file) => file.limits().clone(),
            Half::Ram(ram) => block::Block::limits(ram).clone(),
            Half::Null(null) => block::Block::limits(null).clone(),
            // These layers show what is below them.
            Half::Delay(_, below) | Half::Faults(_, below) | Half::Cache { below, .. } => {
                below.limits()
            }
        }
    }

    /// The file at the bottom, and its bytes when it was opened.
    fn file(&self) -> Option<(&Path, u64)> {
        match self {
            Half::File(file) => Some((file.path(), file.limits().bytes())),
            Half::Ram(_) | Half::Null(_) => None,
            Half::Delay(_, below) | Half::Faults(_, below) | Half::Cache { below, .. } => {
                below.file()
            }
        }
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let lane = ring.lane();
        let plain = |stack| Attached { stack, cache: None };
        match self {
            Half::File(file) => plain(Stack::new(lane, FileBackend::attach(file, ring))),
            Half::Ram(ram) => plain(Stack::new(lane, ram.clone())),
            Half::Null(null) => plain(Stack::new(lane, null.clone())),
            Half::Delay(shared, below) => {
                let below = below.attach(ring).stack;
                plain(Stack::new(lane, Delay::attach(shared.clone(), lane, below)))
            }
            Half::Faults(shared, below) => {
                let below = below.attach(ring).stack;
                plain(Stack::new(lane, Faults::attach(shared.clone(), below)))
            }
            Half::Cache { shared, below, .. } => {
                let cache = Cache::attach(shared, lane, below.attach(ring).stack);
                Attached { stack: Stack::new(lane, cache.clone()), cache: Some(cache) }
            }
        }
    }
}

/// An image file may have any size: where that is what opening complained about, its format is the
/// better reason, and filling it up the worst advice.
fn image_instead(error: OpenError, path: &Path, flags: OpenFlags) -> Failure {
    let size = matches!(error.kind, OpenErrorKind::Misaligned | OpenErrorKind::TooSmall);
    if !size || flags.raw {
        return error.into();
    }
    let mut first_bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut first_bytes));
    match uring::detect(&first_bytes) {
        Some(format) if read.is_ok() && !format.is_container() => {
            Failure::new(Exit::Usage, uring::reason(format, path))
        }
        _ => error.into(),
    }
}

/// Refuses image formats: cached byte by byte, their metadata would be served as data.
fn look_inside(
    file: &FileVolume,
    path: &Path,
    flags: OpenFlags,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let Some(format) = uring::detect(&file.first_bytes()?) else {
        return Ok(());
    };
    let reason = uring::reason(format, path);
    if format.is_container() {
        notes.push(reason);
        return Ok(());
    }
    if flags.raw {
        notes.push(format!("{}: {format} image, served byte by byte (--raw)", path.display()));
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, reason))
}

fn note_file(file: &FileVolume, buffered: bool, notes: &mut Vec<String>) {
    let path = file.path().display();
    if let Direct::No(why) = file.direct()
        && !buffered
    {
        notes.push(format!(
            "{path}: no direct I/O ({why}); the host's page cache is used below the volume, too"
        ));
    }
    if let Lock::No(why) = file.lock() {
        notes
            .push(format!("{path}: not locked against others ({why}); make sure nobody writes it"));
    }
}

fn memory(
    name: &str,
    bytes: u64,
    huge: HugePages,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SharedMemory, Failure> {
    let too_large = || Failure::new(Exit::Usage, format!("{} is too large", Size(bytes)));
    let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
    uring::shared_memory(name, bytes, huge, progress)
        .map_err(|error| Failure::new(Exit::Usage, format!("memory for the volume: {error}")))
}

fn check_dirty(dirty: Size, memory: Size) -> Result<(), Failure> {
    let most = Size(memory.0 / 4 * 3);
    let message = if dirty.0 < DIRTY_MIN {
        format!("--dirty-bytes {dirty}: at least 8 KiB; to hold no write back use --write through")
    } else if dirty > most {
        format!("--dirty-bytes {dirty}: at most three quarters of --memory, which is {most}")
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, message))
}

fn open_cache(
    spec: &CacheSpec,
    below: Half,
    flags: OpenFlags,
    notes: &mut Vec<String>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Half, Failure> {
    if spec.memory.0 < MEMORY_MIN {
        let message = format!("--memory {}: a cache needs at least 1 MiB", spec.memory);
        return Err(Failure::new(Exit::Usage, message));
    }
    if let Some(dirty) = spec.dirty_bytes {
        check_dirty(dirty, spec.memory)?;
    }
    let limits = below.limits();
    // A block may have two versions while an epoch closes; more than that would stay empty.
    let useful = (limits.bytes() + limits.bytes() / 4).max(MEMORY_MIN);
    if spec.memory.0 > useful {
        notes.push(format!("the volume has only {}; that is cached whole", Size(limits.bytes())));
    }
    let geometry = Geometry::for_memory(spec.memory.0.min(useful), flags.lanes.max(1));
    let bytes = Arena::bytes(&geometry, limits.grain) as u64;
    let memory = memory("overdrive cache", bytes, HugePages::IfFree, progress)?;
    let settings = Settings::from_spec(spec, &geometry);
    let shared = Shared::new(&limits, geometry, settings, memory.memory().clone())
        .map_err(|error| Failure::new(Exit::Integrity, error.to_string()))?;
    Ok(Half::Cache { shared, memory, below: Box::new(below) })
}
