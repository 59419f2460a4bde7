//! Loads of plain system calls on a block device, with or without the page cache.

use crate::sides::wall_ns;
use anyhow::{Context, Result};
use lane::Random;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const BLOCK: usize = 4096;
/// Writes between two syncs.
const WRITES_PER_SYNC: u64 = 32;
/// Blocks of the test for missing data.
pub(super) const STAMPED: u64 = 1024;

/// A device, and how it is opened.
pub(super) struct Target {
    node: PathBuf,
    /// Bypasses the page cache.
    is_direct: bool,
    /// The kernel drops the page cache of a device that is not open.
    _open: File,
}

/// Requests that were answered, and their time.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) requests: u64,
    pub(super) time_ns: u64,
}

/// Memory of one block that direct I/O accepts.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

impl Target {
    /// Opens a device, until the target is dropped.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(node: PathBuf, is_direct: bool) -> Result<Target> {
        let _open = open(&node, is_direct)?;
        Ok(Target { node, is_direct, _open })
    }

    fn open(&self) -> Result<File> {
        open(&self.node, self.is_direct)
    }

    /// Reads these blocks in order, with this number of threads, until the time limit. Returns
    /// their number and the time.
    ///
    /// # Errors
    /// The device cannot be opened, or fails a read.
    pub(super) fn reads(&self, draws: &[u32], threads: usize, limit_ns: u64) -> Result<Run> {
        let (start_ns, next) = (wall_ns(), AtomicUsize::new(0));
        let read = || -> Result<u64> {
            let (file, mut block, mut count) = (self.open()?, Box::new(Block([0; BLOCK])), 0);
            while wall_ns() - start_ns < limit_ns {
                let Some(&draw) = draws.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                file.read_exact_at(&mut block.0, u64::from(draw) * BLOCK as u64)?;
                count += 1;
            }
            Ok(count)
        };
        let count: Result<u64> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads).map(|_| scope.spawn(read)).collect();
            readers.into_iter().map(|reader| reader.join().expect("a reader panicked")).sum()
        });
        Ok(Run { requests: count?, time_ns: wall_ns() - start_ns })
    }

    /// Writes this number of random blocks, and syncs after each 32, until the time limit. Returns
    /// their number and the time.
    ///
    /// # Errors
    /// The device cannot be opened, or fails a write.
    pub(super) fn synced_writes(
        &self,
        blocks: u64,
        count: u64,
        limit_ns: u64,
        random: &mut Random,
    ) -> Result<Run> {
        let (file, mut block, mut requests) = (self.open()?, Box::new(Block([7; BLOCK])), 0);
        let start_ns = wall_ns();
        while requests < count && wall_ns() - start_ns < limit_ns {
            for _ in 0..WRITES_PER_SYNC {
                block.0[..8].copy_from_slice(&random.below(u64::MAX).to_le_bytes());
                file.write_all_at(&block.0, random.below(blocks) * BLOCK as u64)?;
            }
            file.sync_data()?;
            requests += WRITES_PER_SYNC;
        }
        Ok(Run { requests, time_ns: wall_ns() - start_ns })
    }

    /// Writes a stamp into blocks at equal distances, and syncs.
    ///
    /// # Errors
    /// The device cannot be opened, or fails a write.
    pub(super) fn stamp(&self, blocks: u64) -> Result<()> {
        let (file, mut block) = (self.open()?, Box::new(Block([0; BLOCK])));
        for number in 0..STAMPED {
            block.0.fill(stamp(number));
            file.write_all_at(&block.0, position(number, blocks))?;
        }
        file.sync_data().context("sync")
    }
}

fn open(node: &Path, is_direct: bool) -> Result<File> {
    let flags = if is_direct { OFlags::DIRECT.bits() } else { 0 };
    let opened = File::options().read(true).write(true).custom_flags(flags as i32).open(node);
    opened.with_context(|| node.display().to_string())
}

/// Returns the content of a stamped block: never zero, as unwritten blocks are.
fn stamp(number: u64) -> u8 {
    (number % 200) as u8 + 50
}

/// Returns the offset of a stamped block.
fn position(number: u64, blocks: u64) -> u64 {
    number * (blocks / STAMPED) * BLOCK as u64
}

/// Counts the stamped blocks that the slow device does not have.
///
/// # Errors
/// The device cannot be read.
pub(super) fn missing(device: &Path, first: u64, blocks: u64) -> Result<u64> {
    let flags = OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(device)?;
    let (mut block, mut count) = (Box::new(Block([0; BLOCK])), 0);
    for number in 0..STAMPED {
        file.read_exact_at(&mut block.0, first + position(number, blocks))?;
        count += u64::from(block.0 != [stamp(number); BLOCK]);
    }
    Ok(count)
}

/// Returns the number of reads and writes that a device has completed.
///
/// # Errors
/// The kernel has no statistics of it.
pub(super) fn completed(device: &Path) -> Result<u64> {
    let name = device.file_name().context("a device")?;
    let path = Path::new("/sys/block").join(name).join("stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    // Reads are the first number of "stat", and writes the fifth.
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    Ok(numbers.first().context("reads")? + numbers.get(4).context("writes")?)
}
