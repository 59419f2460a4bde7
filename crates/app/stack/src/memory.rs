//! Memory for a volume: its sizes and layouts, and how it is allocated.

use crate::failure::{Exit, Failure};
use crate::open_step::OpenStep;
use block::{CacheSpec, Size};
use cache::{Arena, Geometry};
use ring::{HugePages, SharedMemory};

/// Minimum memory of a cache.
pub(crate) const MEMORY_MIN: u64 = 1 << 20;
/// Minimum limit of dirty data with which writes are absorbed.
const DIRTY_MIN: u64 = 8 << 10;

/// Returns the most memory that a cache of a volume of this size can use.
pub(crate) fn useful_bytes(bytes: u64) -> u64 {
    // A block may have two versions while an epoch closes; further memory would stay unused.
    (bytes + bytes / 4).max(MEMORY_MIN)
}

/// Returns the layout of a cache's memory, over a volume of this size.
pub(crate) fn geometry_for(spec: &CacheSpec, bytes: u64) -> Geometry {
    Geometry::for_memory(spec.memory.0.min(useful_bytes(bytes)))
}

/// Returns the failure of memory that cannot be had.
pub(crate) fn memory_failure(error: &std::io::Error) -> Failure {
    // The memory is a file without a name, so the limit on file sizes applies to it too.
    let mend = match error.kind() {
        std::io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f)",
        _ => "",
    };
    Failure::new(Exit::Usage, format!("memory for the volume: {error}{mend}"))
}

/// Returns the step of preparing memory.
pub(crate) fn memory_step(done_bytes: usize, all_bytes: usize) -> OpenStep {
    OpenStep::Memory { done_bytes, all_bytes }
}

/// Returns memory of this many bytes under this name.
pub(crate) fn memory(
    name: &str,
    bytes: u64,
    huge: HugePages,
    progress: &mut dyn FnMut(OpenStep),
) -> Result<SharedMemory, Failure> {
    let too_large = || Failure::new(Exit::Usage, format!("{} is too large", Size(bytes)));
    let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
    let progress = &mut |done, all| progress(memory_step(done, all));
    ring::shared_memory(name, bytes, huge, progress).map_err(|error| memory_failure(&error))
}

/// Returns fresh memory for a cache with this layout.
pub(crate) fn cache_memory(
    geometry: &Geometry,
    grain: u32,
    progress: &mut dyn FnMut(OpenStep),
) -> Result<SharedMemory, Failure> {
    let (bytes, used) = (Arena::bytes(geometry, grain), Arena::used(geometry, grain));
    let progress = &mut |done, all| progress(memory_step(done, all));
    ring::shared_memory_of("overdrive cache", bytes, used, HugePages::IfFree, progress)
        .map_err(|error| memory_failure(&error))
}

/// Refuses a limit of dirty data that is too high for a cache with this memory.
///
/// # Errors
/// Usage, with a correction.
pub fn check_dirty(dirty: Size, memory: Size) -> Result<(), Failure> {
    let most = Size(memory.0 / 16 * 15);
    let message = if dirty.0 < DIRTY_MIN {
        format!(
            "--dirty-bytes {dirty}: give at least 8 KiB; to absorb no writes use --write through"
        )
    } else if dirty > most {
        format!(
            "--dirty-bytes {dirty}: give at most fifteen sixteenths of --memory, which is {most}"
        )
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, message))
}
