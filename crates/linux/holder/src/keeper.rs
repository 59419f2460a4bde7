//! What keeps a volume's memory: a process of its own, or the service manager.
//!
//! All of this waits, at most some seconds. It is for starting and stopping, not for a lane.

use crate::absence::{Description, Waiting};
use crate::kept::{Kept, Looked, Taken};
use crate::key;
use crate::process::{self, Process, Roll};
use crate::store::{self, Store};
use crate::wire::Status;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// A connection to what keeps a volume's memory. While it is open this process is the owner.
///
/// Dropped without [`Keeper::release`], as when the process dies, what is dirty stays kept.
#[derive(Debug)]
pub struct Keeper(Kind);

#[derive(Debug)]
enum Kind {
    /// The holder.
    Process(Process),
    /// The service manager's descriptor store.
    Systemd(Store),
}

/// The announcement that this process is about to take a mount over. It ends when this is dropped.
#[derive(Debug)]
pub struct Approach {
    _connection: OwnedFd,
}

/// What was kept of a volume, and is ours now.
#[derive(Debug)]
pub struct Found {
    /// Which volume it is.
    pub kept: Kept,
    /// The memory with its dirty blocks.
    pub arena: OwnedFd,
    /// The descriptors of the backing, at least one: a file's open description, with its locks. To
    /// be used as they are: opened once more, the image would be found locked by this one.
    pub backing: Vec<OwnedFd>,
    /// What goes on keeping both.
    pub keeper: Keeper,
}

impl Found {
    fn new(taken: Taken, keeper: Kind) -> Found {
        let Taken { kept, arena, backing } = taken;
        Found { kept, arena, backing, keeper: Keeper(keeper) }
    }
}

impl Keeper {
    /// Takes over what is kept for a backing ([`crate::key_at`]). None: nothing is.
    ///
    /// A daemon that is just ending is waited for. Before the backing is written to,
    /// [`ring::Fence::take`] waits for its I/O.
    ///
    /// # Errors
    /// [`crate::Busy`] if the volume is served. Else what is in the way, as a sentence.
    pub fn find(runtime: &Path, key: &str) -> io::Result<Option<Found>> {
        if let Some((taken, store)) = store::find(key)? {
            return Ok(Some(Found::new(taken, Kind::Systemd(store))));
        }
        let taken = Process::take(runtime, key)?;
        Ok(taken.map(|(taken, process)| Found::new(taken, Kind::Process(process))))
    }

    /// Takes over by a connection that was the owner's before this program was executed in its
    /// place, and has stayed open ([`Keeper::owner_socket`] without close-on-exec).
    ///
    /// # Errors
    /// If it is no such connection, or the holder has gone.
    pub fn resume(connection: OwnedFd) -> io::Result<Found> {
        let (taken, process) = Process::resume(connection)?;
        Ok(Found::new(taken, Kind::Process(process)))
    }

    /// Has the memory and the descriptors of the backing, at most [`BACKING_MAX`], kept from now on: by the service manager where that offers it, else by
    /// a new process, `program hold`. A mount is always kept by a process, which answers for it.
    ///
    /// # Errors
    /// If there is a holder for this key already ([`Keeper::find`] first), or what the system says.
    pub fn start(
        runtime: &Path,
        kept: &Kept,
        arena: BorrowedFd<'_>,
        backing: &[BorrowedFd<'_>],
        program: &Path,
    ) -> io::Result<Keeper> {
        if store::is_offered() && !key::is_mount(&kept.key) {
            return Ok(Keeper(Kind::Systemd(Store::start(kept, arena, backing)?)));
        }
        let process = Process::start(runtime, kept, arena, backing, program)?;
        Ok(Keeper(Kind::Process(process)))
    }

    /// Announces to the holder of a mount that this process is about to take that over, so that
    /// requests wait. None: there is no holder.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn approach(runtime: &Path, key: &str) -> io::Result<Option<Approach>> {
        let connection = process::approach(runtime, key)?;
        Ok(connection.map(|connection| Approach { _connection: connection }))
    }

    /// Describes a mount to its holder, which answers for it while it has no daemon. From now on it
    /// is served.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn describe(&self, description: Description) -> io::Result<()> {
        match &self.0 {
            Kind::Process(process) => process.describe(description),
            // An earlier version has left the mount there.
            Kind::Systemd(_) => Ok(()),
        }
    }

    /// Leaves a mount to its holder while this process ends: names are answered for from now on,
    /// and the time after which requests fail counts from the end of this connection.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub fn leave(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Process(process) => process.leave(),
            Kind::Systemd(_) => Ok(()),
        }
    }

    /// The mounts that have no daemon, in the order of their directories. A holder that does not
    /// answer is left out.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn waiting(runtime: &Path) -> io::Result<Vec<Waiting>> {
        process::waiting(runtime)
    }

    /// Nothing is dirty any more: both descriptors are let go, and the keeper ends. When this
    /// returns, only this process keeps the image locked.
    ///
    /// # Errors
    /// If the keeper does not answer; it then keeps what it has.
    pub fn release(self) -> io::Result<()> {
        match self.0 {
            Kind::Process(process) => process.release(),
            Kind::Systemd(store) => store.release(),
        }
    }

    /// Gives the volume up without a release, as the process's death would: what is dirty stays kept, for
    /// the next that takes it over. Nothing may use the memory any more. (Under a service manager the volume
    /// comes back with the next start of the service, not before.)
    pub fn abandon(self) {
        match self.0 {
            Kind::Process(process) => process.abandon(),
            Kind::Systemd(_) => {}
        }
    }

    /// What to watch: readable and hung up when the holder has died, and another one should be
    /// started. None: the service manager keeps, and does not die.
    pub fn owner_socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Kind::Process(process) => Some(process.socket()),
            Kind::Systemd(_) => None,
        }
    }

    /// All holders that answer, in the order of their keys. (What the service manager keeps, only
    /// itself can tell.)
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(runtime: &Path) -> io::Result<Vec<Status>> {
        Keeper::roll(runtime).map(|roll| roll.answered)
    }

    /// The same, and those that do not answer.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn roll(runtime: &Path) -> io::Result<Roll> {
        process::roll(runtime)
    }

    /// How the holder of a key is. None: there is no holder.
    ///
    /// # Errors
    /// What is in the way, as a sentence.
    pub fn status(runtime: &Path, key: &str) -> io::Result<Option<Status>> {
        process::status(runtime, key)
    }

    /// What a holder keeps, without taking it over: to be read only. None: there is no holder.
    ///
    /// # Errors
    /// What is in the way, as a sentence.
    pub fn look(runtime: &Path, key: &str) -> io::Result<Option<Looked>> {
        process::look(runtime, key)
    }

    /// Ends an orphaned holder, and loses what it keeps; if `takes` is given, only if it was not taken
    /// over since [`Status::takes`] said that. False: there was none. A daemon that is just ending is
    /// waited for.
    ///
    /// # Errors
    /// [`crate::Busy`] if the volume is served; what the holder refused, as a sentence.
    pub fn discard(runtime: &Path, key: &str, takes: Option<u64>) -> io::Result<bool> {
        process::discard(runtime, key, takes)
    }
}
