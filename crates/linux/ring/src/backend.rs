//! The backend `file`: a [`FileVolume`] as one lane sees it.

use crate::operations::{Direction, Executor};
use crate::ring::Ring;
use block::{
    Block, Buf, Discard, Error, Extent, Kind, Limits, Memory, Request, Result, SECTOR, Stretch,
};
use host::{Direct, FileVolume, shrink_guard};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of a bounce buffer for memory that direct I/O cannot use, in bytes.
const BOUNCE_BYTES: usize = 256 << 10;
/// Maximum number of bounce buffers that a lane keeps for reuse.
const BOUNCE_BUFFERS_MAX: usize = 16;

/// A regular file or a block device, used from one lane.
pub struct FileBackend {
    volume: Arc<FileVolume>,
    ring: Ring,
    bounce_buffers: RefCell<Vec<Arc<Memory>>>,
}

fn position(at: &Extent) -> u64 {
    at.first * SECTOR
}

fn is_unable(error: &Error) -> bool {
    error.kind == Kind::Unsupported || error.kind == Kind::Invalid
}

impl FileBackend {
    /// Creates the handle on the volume for the lane of `ring`.
    pub fn attach(volume: &Arc<FileVolume>, ring: &Ring) -> FileBackend {
        FileBackend {
            volume: volume.clone(),
            ring: ring.clone(),
            bounce_buffers: RefCell::default(),
        }
    }

    /// Whether direct I/O can use the buffer as it is: every stretch must have the device's
    /// alignment. The engine's slots always do; a client's buffer may not.
    fn is_aligned(&self, buf: &Buf) -> bool {
        let alignment = self.volume.alignment();
        if alignment.direct != Direct::Yes {
            return true;
        }
        let (memory, block) = (alignment.memory as usize, alignment.block as usize);
        let mut is_aligned = true;
        buf.addresses(|at, bytes| {
            is_aligned &= at.addr().get() % memory == 0 && bytes % block == 0;
        });
        is_aligned
    }

    fn executor(&self) -> Executor {
        if self.volume.is_remote() { Executor::Worker } else { Executor::Lane }
    }

    async fn transfer(&self, offset: u64, buf: &Buf, way: Direction) -> Result {
        self.ring.transfer(self.volume.file(), offset, buf, way, self.executor()).await
    }

    async fn read(&self, at: Extent, into: &Buf) -> Result {
        if self.is_aligned(into) {
            return self.transfer(position(&at), into, Direction::Read).await;
        }
        self.through_bounce_buffer(at, |bounce, part, first| {
            let (ring, file, by) = (&self.ring, self.volume.file(), self.executor());
            async move {
                ring.transfer(file, position(&part), &bounce, Direction::Read, by).await?;
                into.part(first, part.count).copy_from_buf(&bounce);
                Ok(())
            }
        })
        .await
    }

    async fn write(&self, at: Extent, from: &Buf, dsync: bool) -> Result {
        self.check_change(&at)?;
        let result = self.write_checked(at, from, dsync).await;
        self.explain(result)
    }

    /// Refuses a change beyond the end of a shrunk file: a write would extend it.
    fn check_change(&self, at: &Extent) -> Result {
        let end = position(at) + u64::from(at.count) * SECTOR;
        self.volume.shrink_guard().check_change(self.volume.file(), end)
    }

    /// Replaces a device's "no space" error for a request beyond its end.
    fn explain(&self, result: Result) -> Result {
        match result {
            Err(error) if error.kind == Kind::NoSpace && self.volume.is_device() => self
                .volume
                .shrink_guard()
                .check(self.volume.file(), shrink_guard::CHANGE)
                .and(result),
            other => other,
        }
    }

    async fn flush(&self) -> Result {
        self.ring.fdatasync(self.volume.file()).await?;
        self.volume.shrink_guard().check(self.volume.file(), shrink_guard::FLUSH)
    }

    async fn write_checked(&self, at: Extent, from: &Buf, dsync: bool) -> Result {
        if self.is_aligned(from) {
            return self.transfer(position(&at), from, Direction::Write { dsync }).await;
        }
        self.through_bounce_buffer(at, |bounce, part, first| {
            let (ring, file, by) = (&self.ring, self.volume.file(), self.executor());
            async move {
                bounce.copy_from_buf(&from.part(first, part.count));
                ring.transfer(file, position(&part), &bounce, Direction::Write { dsync }, by).await
            }
        })
        .await
    }

    /// Calls `each` for pieces of `at` that fit into a bounce buffer: with the buffer, the piece,
    /// and the piece's first sector within `at`.
    async fn through_bounce_buffer<F: Future<Output = Result>>(
        &self,
        at: Extent,
        each: impl Fn(Buf, Extent, u32) -> F,
    ) -> Result {
        let kept = self.bounce_buffers.borrow_mut().pop();
        let memory = kept.unwrap_or_else(|| Arc::new(Memory::heap(BOUNCE_BYTES)));
        let room = (BOUNCE_BYTES as u64 / SECTOR) as u32;
        let whole = Buf::from_memory(memory.clone(), 0, room, SECTOR as u32);
        let mut done = 0;
        let mut result = Ok(());
        while done < at.count && result.is_ok() {
            let count = room.min(at.count - done);
            let part = Extent::new(at.first + u64::from(done), count);
            result = each(whole.part(0, count), part, done).await;
            done += count;
        }
        let mut bounce_buffers = self.bounce_buffers.borrow_mut();
        if bounce_buffers.len() < BOUNCE_BUFFERS_MAX {
            bounce_buffers.push(memory);
        }
        result
    }

    /// Tries fallocate in this mode. Returns false if it is not supported here.
    async fn try_mode(&self, can: &AtomicBool, mode: i32, at: Extent) -> Result<bool> {
        if !can.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // Without KEEP_SIZE a backing that shrank would silently grow again.
        let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
        let length = u64::from(at.count) * SECTOR;
        let file = self.volume.file();
        match self.ring.fallocate(file, mode, position(&at), length).await {
            Ok(()) => Ok(true),
            Err(error) if is_unable(&error) => {
                if error.kind == Kind::Unsupported {
                    can.store(false, Ordering::Relaxed);
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn zero(&self, at: Extent, may_unmap: bool) -> Result {
        self.check_change(&at)?;
        let volume = &*self.volume;
        let punch = libc::FALLOC_FL_PUNCH_HOLE;
        if may_unmap && self.try_mode(volume.can_punch(), punch, at).await? {
            return Ok(());
        }
        let zero = libc::FALLOC_FL_ZERO_RANGE;
        if self.try_mode(volume.can_zero(), zero, at).await? {
            return Ok(());
        }
        let bytes = volume.zeros().bytes() as u64;
        let room = (bytes / SECTOR) as u32;
        let zeros = Buf::from_memory(volume.zeros().clone(), 0, room, SECTOR as u32);
        let mut done = 0;
        while done < at.count {
            let count = room.min(at.count - done);
            let place = position(&at) + u64::from(done) * SECTOR;
            let part = zeros.part(0, count);
            self.transfer(place, &part, Direction::Write { dsync: false }).await?;
            done += count;
        }
        Ok(())
    }
}

impl Block for FileBackend {
    fn limits(&self) -> &Limits {
        self.volume.limits()
    }

    async fn run(&self, request: Request) -> Result {
        match request {
            Request::Read { at, into } => self.read(at, &into).await,
            Request::Write { at, from, fua } => self.write(at, &from, fua).await,
            Request::Flush => self.flush().await,
            Request::Discard { at } => match self.volume.limits().discard {
                Discard::Ignored => Ok(()),
                Discard::Zeroes => self.zero(at, true).await,
            },
            Request::Zero { at, fua, may_unmap } => {
                self.zero(at, may_unmap).await?;
                if fua { self.flush().await } else { Ok(()) }
            }
            Request::Advise { .. } => Ok(()),
        }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let volume = &*self.volume;
        // The part that was cut off is not a hole: reading it returns an error, not zeros.
        let is_whole = || volume.shrink_guard().has_shrunk(volume.file()) == Ok(false);
        if volume.is_remote() || volume.is_device() || !is_whole() {
            return Ok(vec![Stretch::data(at.count)]);
        }
        Ok(volume.stretches(at))
    }
}
