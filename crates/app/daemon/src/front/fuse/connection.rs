//! The connection to the kernel, and how it stays open when this process is killed.
//!
//! ```text
//!   an earlier program of this process --its holder's connection, or /dev/fuse--+
//!   a process that was killed          --holder, by the key of the directory----+
//!   none: mount                                                                 |
//!                                                                               v
//!                                                        is it still mounted? no: mount
//! ```

use super::mountpoint::Mountpoint;
use crate::front::Inherited;
use holder::{Busy, Description, Found, Keeper, RetainedVolume};
use host::File;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use stack::{Exit, Failure, Keep};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A mount's connection.
pub(super) struct Connection {
    pub(super) device: File,
    /// Whether requests were sent to an earlier server, which may not have answered them.
    pub(super) is_resumed: bool,
    keeper: RefCell<Option<Keeper>>,
    /// How to start another holder.
    keep: Option<Keep>,
    contents: String,
}

/// Returns the names under which the holder's connection, or /dev/fuse without a holder, is handed
/// over.
fn names_of(place: &Mountpoint) -> [String; 2] {
    ["fuse-holder", "fuse"].map(|what| format!("{what}:{}", place.path().display()))
}

/// Whether the connection is still mounted.
fn is_mounted(device: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(device, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = rustix::event::poll(&mut polled, Some(&now));
    found.is_ok() && !polled[0].revents().contains(PollFlags::ERR)
}

impl Connection {
    /// Continues with the existing mount, or mounts.
    ///
    /// # Errors
    /// Another daemon serves it; it cannot be mounted, or not be retained.
    pub(super) fn open(
        place: &Mountpoint,
        contents: &str,
        keep: Option<&Keep>,
        inherited: &mut Inherited,
    ) -> Result<Connection, Failure> {
        let [holder, device] = names_of(place);
        let new = |device, is_resumed, keeper| Connection {
            device: Arc::new(device),
            is_resumed,
            keeper: RefCell::new(keeper),
            keep: keep.cloned(),
            contents: contents.to_owned(),
        };
        // A mount has one descriptor.
        let resumed =
            |mut found: Found| new(found.backing.swap_remove(0), true, Some(found.keeper));
        if let Some(socket) = inherited.take(&holder)
            && let Ok(found) = Keeper::resume(socket)
        {
            return Ok(resumed(found));
        }
        if let Some(device) = inherited.take(&device) {
            return Ok(new(device, true, None));
        }
        if let Some(found) = find(place, keep)? {
            if is_mounted(&found.backing[0]) {
                if found.retained.volume != contents {
                    found.keeper.abandon();
                    return Err(other_contents(place));
                }
                return Ok(resumed(found));
            }
            let _ = found.keeper.release();
        }
        let device = place.mount()?;
        let keeper = match keep.map(|keep| start(place, contents, keep, &device)).transpose() {
            Ok(keeper) => keeper,
            Err(failure) => {
                let _ = place.detach();
                return Err(failure);
            }
        };
        Ok(new(device, false, keeper))
    }

    /// Returns the socket to watch, which becomes readable when the holder has died. None: there is
    /// no holder, or the service manager retains the mount.
    pub(super) fn keeper_socket(&self) -> Option<File> {
        let keeper = self.keeper.borrow();
        let socket = keeper.as_ref()?.owner_socket()?;
        socket.try_clone_to_owned().ok().map(Arc::new)
    }

    /// Starts a new holder to replace one that has died.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn keep_again(&self, place: &Mountpoint) -> Result<(), Failure> {
        if let Some(keep) = &self.keep {
            let again = start(place, &self.contents, keep, &self.device)?;
            *self.keeper.borrow_mut() = Some(again);
        }
        Ok(())
    }

    /// Returns the files with which the next program of this process continues.
    pub(super) fn handover_files(&self, place: &Mountpoint) -> Vec<(String, File)> {
        let [holder, device] = names_of(place);
        let keeper = self.keeper.borrow();
        let socket = keeper.as_ref().and_then(Keeper::owner_socket);
        match socket.and_then(|socket| socket.try_clone_to_owned().ok()) {
            Some(socket) => vec![(holder, Arc::new(socket))],
            None => vec![(device, self.device.clone())],
        }
    }

    /// Sends the holder the answers that it gives for the mount while there is no daemon.
    ///
    /// # Errors
    /// The holder does not answer, or is of an earlier version.
    pub(super) fn describe(&self, description: Description) -> io::Result<()> {
        let keeper = self.keeper.borrow();
        keeper.as_ref().map_or(Ok(()), |keeper| keeper.describe(description))
    }

    /// Leaves the mount to its holder for the next process. The holder answers requests from now
    /// on, while this process ends.
    pub(super) fn leave(&self) {
        let left = self.keeper.borrow().as_ref().map_or(Ok(()), Keeper::leave);
        if left.is_err()
            && let Some(keeper) = self.keeper.take()
        {
            keeper.abandon();
        }
    }

    /// Releases the mount from its holder.
    pub(super) fn release(&self) {
        if let Some(keeper) = self.keeper.take() {
            // A holder that does not answer ends without this, because nothing is mounted any more.
            let _ = keeper.release();
        }
    }
}

fn holder_failure(place: &Mountpoint, error: &io::Error) -> Failure {
    let path = place.path().display();
    match Busy::of(error) {
        Some(Busy { pid }) => {
            let message = format!("{path}: is already served by process {pid}");
            Failure::new(Exit::Busy, message)
        }
        None => Failure::new(Exit::Io, format!("{path}: its holder: {error}")),
    }
}

/// Returns the failure of a mount of other volumes: requests to its files must not be answered from
/// these volumes.
fn other_contents(place: &Mountpoint) -> Failure {
    let path = place.path().display();
    let message = format!(
        "{path}: is mounted, and waits for the daemon of another backing; start that daemon, or \
         give the mount up (a device: overdrive detach NAME --force; files: umount -f {path})"
    );
    Failure::new(Exit::Busy, message)
}

/// Finds the mount that a killed process has left.
fn find(place: &Mountpoint, keep: Option<&Keep>) -> Result<Option<Found>, Failure> {
    let Some(keep) = keep else { return Ok(None) };
    let found = Keeper::find(&keep.runtime, &holder::mount_key(place.path()));
    found.map_err(|error| holder_failure(place, &error))
}

/// Has a holder retain the connection from now on.
fn start(
    place: &Mountpoint,
    contents: &str,
    keep: &Keep,
    device: &OwnedFd,
) -> Result<Keeper, Failure> {
    let retained = RetainedVolume {
        volume: contents.to_owned(),
        backing: place.path().display().to_string(),
        key: holder::mount_key(place.path()),
        is_recorded: false,
    };
    // A holder requires a memory and a backing; a mount has only the latter.
    let memory = rustix::fs::memfd_create("overdrive-mount", MemfdFlags::CLOEXEC);
    let memory = memory.map_err(|errno| holder_failure(place, &errno.into()))?;
    let started =
        Keeper::start(&keep.runtime, &retained, memory.as_fd(), &[device.as_fd()], &keep.program);
    started.map_err(|error| holder_failure(place, &error))
}
