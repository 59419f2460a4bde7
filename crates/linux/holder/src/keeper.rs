//! Retains a volume's memory: by a separate process, or by the service manager.
//!
//! All of this may block for some seconds. It is for starting and stopping, not for a lane.

use crate::absence::{Description, Waiting};
use crate::image_report::ImageReport;
use crate::key;
use crate::process::{self, Process, Roll};
use crate::retained::{Looked, RetainedVolume, Taken};
use crate::store::{self, Store};
use crate::wire::Status;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// A connection to the process that retains a volume's memory. While it is open this process is the
/// owner.
///
/// If it is dropped without [`Keeper::release`], as when the process dies, dirty data stays
/// retained.
#[derive(Debug)]
pub struct Keeper(Kind);

#[derive(Debug)]
enum Kind {
    /// The holder.
    Process(Process),
    /// The service manager's descriptor store.
    Systemd(Store),
}

/// Announcement that this process is about to take a mount over. It ends when this value is
/// dropped.
#[derive(Debug)]
pub struct Approach {
    _connection: OwnedFd,
}

/// A volume's retained memory and backing, which this process owns now.
#[derive(Debug)]
pub struct Found {
    /// Identity of the volume.
    pub retained: RetainedVolume,
    /// The memory with its dirty blocks.
    pub arena: OwnedFd,
    /// The descriptors of the backing, at least one: for a file, its open file description with its
    /// locks. Use them instead of opening the image again, which would be found locked.
    pub backing: Vec<OwnedFd>,
    /// Whether other programs may have written to the image. None: nothing is known.
    pub image: Option<ImageReport>,
    /// Retains both from now on.
    pub keeper: Keeper,
}

impl Found {
    fn new(taken: Taken, keeper: Kind) -> Found {
        let Taken { retained, arena, backing, image } = taken;
        Found { retained, arena, backing, image, keeper: Keeper(keeper) }
    }
}

impl Keeper {
    /// Takes over the memory retained for a backing ([`crate::key_at`]). None: there is none.
    ///
    /// Waits for a daemon that is just ending. [`ring::Fence::take`] waits for its I/O; call it
    /// before writing to the backing.
    ///
    /// # Errors
    /// [`crate::Busy`] if the volume is served. Otherwise the obstacle, as a sentence.
    pub fn find(runtime: &Path, key: &str) -> io::Result<Option<Found>> {
        if let Some((taken, store)) = store::find(key)? {
            return Ok(Some(Found::new(taken, Kind::Systemd(store))));
        }
        let taken = Process::take(runtime, key)?;
        Ok(taken.map(|(taken, process)| Found::new(taken, Kind::Process(process))))
    }

    /// Takes over again after an exec, by the owner's connection that the former program of this
    /// process has left open ([`Keeper::owner_socket`] without close-on-exec).
    ///
    /// # Errors
    /// If it is no such connection, or the holder has ended.
    pub fn resume(connection: OwnedFd) -> io::Result<Found> {
        let (taken, process) = Process::resume(connection)?;
        Ok(Found::new(taken, Kind::Process(process)))
    }

    /// Makes a keeper retain the memory and the descriptors of the backing, at most
    /// [`crate::BACKING_MAX`], from now on: the service manager if it offers a descriptor store,
    /// otherwise a new process, `program hold`. For a mount it is always a process, which answers
    /// its requests.
    ///
    /// # Errors
    /// If there is already a holder for this key (call [`Keeper::find`] first), or errors
    /// of the system.
    pub fn start(
        runtime: &Path,
        retained: &RetainedVolume,
        arena: BorrowedFd<'_>,
        backing: &[BorrowedFd<'_>],
        program: &Path,
    ) -> io::Result<Keeper> {
        if store::is_offered() && !key::is_mount(&retained.key) {
            return Ok(Keeper(Kind::Systemd(Store::start(retained, arena, backing)?)));
        }
        let process = Process::start(runtime, retained, arena, backing, program)?;
        Ok(Keeper(Kind::Process(process)))
    }

    /// Makes the holder watch for other programs that write to the image, from now on: this
    /// process's clean blocks equal the image. Without this call, the next process drops them.
    /// Returns false, and watches nothing, if another program has opened the image since this
    /// process took the memory over: after it has dropped the clean blocks, it may call this again.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn watch(&self) -> io::Result<bool> {
        match &self.0 {
            Kind::Process(process) => process.watch(),
            Kind::Systemd(_) => Ok(true),
        }
    }

    /// Has other descriptors of the backing retained from now on, instead of those before.
    ///
    /// # Errors
    /// The keeper does not answer, or is of an earlier version: it retains those before.
    pub fn exchange(&self, backing: &[BorrowedFd<'_>]) -> io::Result<()> {
        match &self.0 {
            Kind::Process(process) => process.exchange(backing),
            Kind::Systemd(store) => store.exchange(backing),
        }
    }

    /// Announces to a holder that this process is about to take over its memory or mount: requests
    /// to the mount wait, and clean blocks stay. None: there is no holder.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn approach(runtime: &Path, key: &str) -> io::Result<Option<Approach>> {
        let connection = process::approach(runtime, key)?;
        Ok(connection.map(|connection| Approach { _connection: connection }))
    }

    /// Describes a mount to its holder, which answers for it while it has no daemon. The mount
    /// counts as served from now on.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn describe(&self, description: Description) -> io::Result<()> {
        match &self.0 {
            Kind::Process(process) => process.describe(description),
            // The mount was put there by an earlier version.
            Kind::Systemd(_) => Ok(()),
        }
    }

    /// Leaves a mount to its holder while this process ends: the holder answers requests about
    /// names from now on, and the time after which requests fail counts from the end of this
    /// connection.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn leave(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Process(process) => process.leave(),
            Kind::Systemd(_) => Ok(()),
        }
    }

    /// Returns the mounts that have no daemon, in the order of their directories. A holder that
    /// does not answer is left out.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn waiting(runtime: &Path) -> io::Result<Vec<Waiting>> {
        process::waiting(runtime)
    }

    /// Releases the memory and the backing, because no data is dirty any more; the keeper ends.
    /// When this returns, only this process keeps the image locked.
    ///
    /// # Errors
    /// If the keeper does not answer; it then retains both.
    pub fn release(self) -> io::Result<()> {
        match self.0 {
            Kind::Process(process) => process.release(),
            Kind::Systemd(store) => store.release(),
        }
    }

    /// Gives the volume up without releasing it, as if the process had died: dirty data stays
    /// retained for the next daemon that takes it over. The memory must not be used any more.
    /// (A service manager returns it only at the next start of the service.)
    pub fn abandon(self) {
        match self.0 {
            Kind::Process(process) => process.abandon(),
            Kind::Systemd(_) => {}
        }
    }

    /// Returns the socket to watch: readable and hung up once the holder has died, after which a
    /// new one should be started. None: the service manager retains the memory, and does not die.
    pub fn owner_socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Kind::Process(process) => Some(process.socket()),
            Kind::Systemd(_) => None,
        }
    }

    /// Returns all holders that answer, in the order of their keys. (Memory in the service
    /// manager's store is not listed.)
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(runtime: &Path) -> io::Result<Vec<Status>> {
        Keeper::roll(runtime).map(|roll| roll.answered)
    }

    /// Returns all holders, including those that do not answer.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn roll(runtime: &Path) -> io::Result<Roll> {
        process::roll(runtime)
    }

    /// Returns the status of a key's holder. None: there is no holder.
    ///
    /// # Errors
    /// The obstacle, as a sentence.
    pub fn status(runtime: &Path, key: &str) -> io::Result<Option<Status>> {
        process::status(runtime, key)
    }

    /// Returns the memory that a holder retains, read-only, without taking it over. None: there is
    /// no holder.
    ///
    /// # Errors
    /// The obstacle, as a sentence.
    pub fn look(runtime: &Path, key: &str) -> io::Result<Option<Looked>> {
        process::look(runtime, key)
    }

    /// Ends an orphaned holder and discards the data that it retains; if `takes` is given, only if
    /// it was not taken over since [`Status::takes`] had this value. False: there was no holder.
    /// Waits for a daemon that is just ending.
    ///
    /// # Errors
    /// [`crate::Busy`] if the volume is served; the holder's refusal, as a sentence.
    pub fn discard(runtime: &Path, key: &str, takes: Option<u64>) -> io::Result<bool> {
        process::discard(runtime, key, takes)
    }
}
