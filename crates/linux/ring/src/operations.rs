//! Operations on files: each is an `async fn` that ends when the whole operation is done.
#![allow(unsafe_code)]

use crate::flight::Hold;
use crate::ring::Ring;
use block::{Buf, Error, Kind, Result, SECTOR};
use host::File;
use host::shrink_guard::READ;
use io_uring::{opcode, squeue, types};
use lane::Ticket;
use std::os::fd::AsRawFd;

/// Direction of a transfer.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Read,
    Write { dsync: bool },
}

/// The thread that executes an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Executor {
    /// The submitting thread, if the kernel can complete it without waiting.
    Lane,
    /// A kernel worker thread, for operations whose submission could already block on a server,
    /// such as on a FUSE lock that a request in flight holds. That must not block a lane.
    Worker,
}

pub(crate) fn fd(file: &File) -> types::Fd {
    types::Fd(file.as_raw_fd())
}

/// Converts a negative result to an error.
pub(crate) fn failure(result: i64, doing: &'static str) -> Error {
    let errno = -result as i32;
    if errno == libc::ECANCELED {
        return Error { errno, ..Error::new(Kind::Stopping, doing) };
    }
    Error::from_errno(errno, doing)
}

/// Whether the operation must be started again unchanged.
pub(crate) fn is_transient(result: i64) -> bool {
    result == -i64::from(libc::EINTR) || result == -i64::from(libc::EAGAIN)
}

impl Ring {
    /// Fills `into` from byte `offset` on.
    ///
    /// # Errors
    /// `Io`: the device failed, or the file ends too early.
    pub async fn read(&self, file: &File, offset: u64, into: &Buf) -> Result {
        self.transfer(file, offset, into, Direction::Read, Executor::Lane).await
    }

    /// Writes all of `from` at byte `offset`; with `dsync` it is durable when answered (RWF_DSYNC).
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, or `Io`.
    pub async fn write(&self, file: &File, offset: u64, from: &Buf, dsync: bool) -> Result {
        self.transfer(file, offset, from, Direction::Write { dsync }, Executor::Lane).await
    }

    pub(crate) async fn transfer(
        &self,
        file: &File,
        offset: u64,
        buf: &Buf,
        way: Direction,
        by: Executor,
    ) -> Result {
        assert!(u64::from(buf.grain()) == SECTOR, "files hold real bytes");
        let mut done = 0;
        while done < buf.sectors() {
            let rest = buf.part(done, buf.sectors() - done);
            let at = offset + u64::from(done) * SECTOR;
            let result = self.start_transfer(file, at, &rest, way, by).await;
            if is_transient(result) {
                self.lane().rest().await;
            } else if result >= SECTOR as i64 {
                // A sector that was transferred in part is repeated: pieces are whole sectors.
                done += (result / SECTOR as i64) as u32;
            } else {
                return Err(match way {
                    Direction::Read if result < 0 => failure(result, "read the backing"),
                    Direction::Read => READ,
                    Direction::Write { .. } if result < 0 => failure(result, "write the backing"),
                    Direction::Write { .. } => Error::new(Kind::Io, "write a whole sector"),
                });
            }
        }
        Ok(())
    }

    fn start_transfer(
        &self,
        file: &File,
        offset: u64,
        buf: &Buf,
        way: Direction,
        by: Executor,
    ) -> Ticket {
        let mut list = self.0.flights.borrow_mut().list();
        buf.addresses(|at, bytes| {
            // Stretches beyond the list follow later: the transfer is then short.
            list.push(at, bytes);
        });
        assert!(list.bytes <= 1 << 30, "a transfer fits the kernel's limit");
        let (count, first) = (list.iovecs.len() as u32, list.iovecs[0]);
        let (base, length) = (first.iov_base.cast::<u8>(), first.iov_len as u32);
        let vectors = list.iovecs.as_ptr();
        let entry = match (way, count) {
            (Direction::Read, 1) => {
                opcode::Read::new(fd(file), base, length).offset(offset).build()
            }
            (Direction::Read, _) => {
                opcode::Readv::new(fd(file), vectors, count).offset(offset).build()
            }
            (Direction::Write { dsync }, 1) => opcode::Write::new(fd(file), base, length)
                .offset(offset)
                .rw_flags(if dsync { libc::RWF_DSYNC } else { 0 })
                .build(),
            (Direction::Write { dsync }, _) => opcode::Writev::new(fd(file), vectors, count)
                .offset(offset)
                .rw_flags(if dsync { libc::RWF_DSYNC } else { 0 })
                .build(),
        };
        let entry = match by {
            Executor::Lane => entry,
            Executor::Worker => entry.flags(squeue::Flags::ASYNC),
        };
        let (keep, file) = (Some(buf.keep() as _), Some(file.clone()));
        let hold = Hold { keep, file, vectors: Some(list), stays: false };
        // SAFETY: the entry points into the buffer's memory (held by `keep`) and to the boxed
        // scatter list. `hold` keeps both at their addresses, and the file open.
        unsafe { self.launch(entry, hold) }
    }

    /// Runs an operation that points to no memory, repeatedly until its result is final.
    pub(crate) async fn plain(
        &self,
        file: &File,
        doing: &'static str,
        entry: impl Fn() -> squeue::Entry,
    ) -> Result<usize> {
        loop {
            let hold = Hold { file: Some(file.clone()), ..Hold::default() };
            // SAFETY: callers in this crate build entries that contain numbers only; `hold` keeps
            // the file open.
            let result = unsafe { self.launch(entry(), hold) }.await;
            if is_transient(result) {
                self.lane().rest().await;
            } else if result < 0 {
                return Err(failure(result, doing));
            } else {
                return Ok(result as usize);
            }
        }
    }

    /// Makes the file's written data and its size durable.
    ///
    /// # Errors
    /// `Io`: data written since the last successful call may be lost, even if the next call
    /// succeeds.
    pub async fn fdatasync(&self, file: &File) -> Result {
        self.plain(file, "flush the backing", || {
            opcode::Fsync::new(fd(file)).flags(types::FsyncFlags::DATASYNC).build()
        })
        .await
        .map(|_| ())
    }

    /// fallocate(2) with `mode` (`FALLOC_FL_...`), from byte `offset` on, for `length` bytes.
    ///
    /// # Errors
    /// `Unsupported`: the file system or the device does not support it. `NoSpace`, or `Io`.
    pub async fn fallocate(&self, file: &File, mode: i32, offset: u64, length: u64) -> Result {
        self.plain(file, "change the backing's space", || {
            opcode::Fallocate::new(fd(file), length).offset(offset).mode(mode).build()
        })
        .await
        .map(|_| ())
    }

    /// Cancels all operations in flight on the file: each ends with `Stopping`, or normally if it
    /// cannot be stopped any more. Returns the number of operations found.
    ///
    /// # Errors
    /// The system's errors.
    pub async fn cancel(&self, file: &File) -> Result<usize> {
        let found = self
            .plain(file, "cancel operations", || {
                let all = types::CancelBuilder::fd(fd(file)).all();
                opcode::AsyncCancel2::new(all).build()
            })
            .await;
        match found {
            Err(error) if error.errno == libc::ENOENT => Ok(0),
            other => other,
        }
    }
}
