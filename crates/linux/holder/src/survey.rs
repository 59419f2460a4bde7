//! Reads from an arena whether there is anything to retain.

use cache::{Arena, Survey as Headers};
use ring::SharedMemory;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// State of an arena, from its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Blocks that are not durable on the backing yet.
    pub dirty_blocks: u64,
    /// Blocks that are on the backing.
    pub clean_blocks: u64,
    /// Pending ranges of zeros.
    pub ranges: u64,
    /// Whether the volume has failed (C8).
    pub failed: bool,
    /// Whether a flush was in progress when the daemon was killed: the next daemon must take it
    /// into account (C1).
    pub in_doubt: bool,
    /// The volume's size, in bytes; 0 if it was never served.
    pub size_bytes: u64,
    /// Whether it is a mount, not a volume, and still mounted.
    pub mounted: bool,
}

impl Contents {
    /// Whether data would be lost with the memory.
    pub fn is_dirty(&self) -> bool {
        self.dirty_blocks > 0 || self.ranges > 0
    }

    /// Whether it must be retained without an owner: for dirty data, or for a state (failed, in
    /// doubt, mounted) that must outlive the daemon.
    pub fn is_worth_keeping(&self) -> bool {
        self.is_dirty() || self.failed || self.in_doubt || self.mounted
    }
}

/// Reads the state of an arena.
pub(crate) type Survey<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Contents>;

/// Returns the state that the headers of a cache's arena show.
pub(crate) fn of_arena(arena: BorrowedFd<'_>) -> io::Result<Contents> {
    // Only headers are read: mapping the whole arena would take longer than everything else.
    let memory = SharedMemory::peek(arena)?;
    let Some(found) = Arena::found(&memory) else {
        // The first word is written last when an arena is initialized: if it is 0, the volume was
        // never served.
        let is_begun = memory.bytes() < 8 || memory.word(0).load(Ordering::Acquire) != 0;
        if !is_begun {
            return Ok(Contents::default());
        }
        let message = "it is no arena of this version, or is damaged";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    };
    let Headers { dirty_blocks, clean_blocks, ranges, failed, in_doubt, .. } = found.survey();
    Ok(Contents {
        dirty_blocks,
        clean_blocks,
        ranges,
        failed,
        in_doubt,
        size_bytes: found.sectors * block::SECTOR,
        ..Contents::default()
    })
}

/// Returns the state of a mount's connection, /dev/fuse: whether it is still mounted.
pub(crate) fn of_mount(connection: BorrowedFd<'_>) -> Contents {
    let mut polled = [PollFd::from_borrowed_fd(connection, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = rustix::event::poll(&mut polled, Some(&now));
    let is_cut = found.is_ok() && polled[0].revents().contains(PollFlags::ERR);
    Contents { mounted: !is_cut, ..Contents::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Block, Buf, CacheSpec, Extent, Limits, Ram, Request, Size, Stack, WriteMode};
    use cache::{Cache, Geometry, Settings, Shared};
    use ring::{HugePages, shared_memory};
    use std::os::fd::AsFd;

    const GRAIN: u32 = 512;
    const SECTORS: u64 = 800;

    fn settings(geometry: &Geometry) -> Settings {
        let spec = CacheSpec {
            memory: Size(1 << 20),
            write: WriteMode::BackNow,
            flush_target_ms: 0,
            ..CacheSpec::default()
        };
        Settings::from_spec(&spec, geometry)
    }

    #[test]
    fn absorbed_data_is_found_and_fresh_memory_is_empty() -> io::Result<()> {
        let geometry = Geometry::default();
        let bytes = Arena::bytes(&geometry, GRAIN);
        let shared = shared_memory("test", bytes, HugePages::Never, &mut |_, _| ())?;
        assert_eq!(of_arena(shared.file())?, Contents::default());
        let ram = Ram::new(SECTORS, GRAIN);
        let limits = Limits { flush_needed: true, ..ram.limits().clone() };
        let memory = shared.memory().clone();
        let volume = Shared::new(&limits, geometry, settings(&geometry), 7, memory);
        let volume = volume.expect("fresh memory");
        let size_bytes = SECTORS * block::SECTOR;
        assert_eq!(of_arena(shared.file())?, Contents { size_bytes, ..Contents::default() });
        let lane = lane::Lane::new();
        let cache = Cache::attach(&volume, &lane, Stack::new(&lane, ram));
        let from = Buf::new(16, GRAIN);
        let write = Request::Write { at: Extent::new(8, 16), from, fua: false };
        assert_eq!(cache.try_now(&write), Some(Ok(())), "absorbed");
        let seen = of_arena(shared.file())?;
        assert_eq!(seen, Contents { dirty_blocks: 2, size_bytes, ..Contents::default() });
        assert!(seen.is_worth_keeping());
        Ok(())
    }

    #[test]
    fn an_unknown_memory_is_an_error_and_not_empty() -> io::Result<()> {
        let shared = shared_memory("test", 1 << 20, HugePages::Never, &mut |_, _| ())?;
        shared.memory().write(0, b"stranger");
        assert!(of_arena(shared.file()).is_err());
        let file = tempfile::tempfile()?;
        assert!(of_arena(file.as_fd()).is_err());
        Ok(())
    }
}
