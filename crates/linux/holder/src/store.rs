//! The service manager's descriptor store as keeper: `FDSTORE=1` to the manager, `LISTEN_FDS` back.
//! Source: systemd's "File Descriptor Store", sd_notify(3), sd_listen_fds(3).

use crate::deadline::Deadline;
use crate::notify::{self, notify};
use crate::packet::PACKET_BYTES;
use crate::retained::{BACKING_MAX, RetainedVolume, Taken};
use crate::wire::encode;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::io::{Errno, FdFlags};
use rustix::pipe::PipeFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Number of descriptors of a volume besides those of its backing: its identity and its memory.
const FIXED_DESCRIPTORS: u32 = 2;
/// Maximum number of descriptors taken over; the store's own limit is below that.
const INHERITED_MAX: u32 = 4096;
/// Longest time that the manager may take to process the messages sent to it.
const BARRIER: Duration = Duration::from_secs(10);

/// One volume in the store.
#[derive(Debug)]
pub(crate) struct Store {
    key: String,
    /// Descriptors in the store.
    count: u32,
}

/// Returns the name of the descriptor with a volume's identity.
fn identity_name(key: &str) -> String {
    format!("{key}.kept")
}

fn memory_name(key: &str) -> String {
    format!("{key}.memory")
}

fn backing_name(key: &str, number: usize) -> String {
    match number {
        0 => format!("{key}.backing"),
        number => format!("{key}.backing.{number}"),
    }
}

fn names(key: &str) -> impl Iterator<Item = String> {
    let backings = (0..BACKING_MAX).map(|number| backing_name(key, number));
    [identity_name(key), memory_name(key)].into_iter().chain(backings)
}

/// Whether there is a store with room for one more volume (systemd reports this since version 254).
/// The manager closes descriptors beyond its limit without a message, so they are counted here.
pub(crate) fn is_offered() -> bool {
    let room = number("FDSTORE");
    let used = used().load(Ordering::Relaxed);
    notify::address().is_some() && room.is_some_and(|room| used + FIXED_DESCRIPTORS < room)
}

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the number of descriptors in the store, at first all that came with the start, used or
/// not.
fn used() -> &'static AtomicU32 {
    static USED: OnceLock<AtomicU32> = OnceLock::new();
    USED.get_or_init(|| {
        let ours = number("LISTEN_PID") == Some(std::process::id());
        AtomicU32::new(number("LISTEN_FDS").filter(|_| ours).unwrap_or(0))
    })
}

/// Waits until the manager has processed all earlier messages.
fn barrier() -> io::Result<()> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    notify("BARRIER=1", Some(write.as_fd()))?;
    drop(write);
    let deadline = Deadline::after(BARRIER);
    loop {
        let mut polled = [PollFd::new(&read, PollFlags::empty())];
        match rustix::event::poll(&mut polled, Some(&deadline.timeout())) {
            Ok(0) if deadline.has_passed() => {
                let message = "the service manager does not process its messages";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Ok(0) | Err(Errno::INTR) => (),
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn remove(key: &str) -> io::Result<()> {
    names(key).try_for_each(|name| notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None))
}

/// Returns a memfd with the volume's identity, because the store has room only for a name.
fn identity_file(kept: &RetainedVolume) -> io::Result<OwnedFd> {
    let identity = rustix::fs::memfd_create("overdrive-kept", MemfdFlags::CLOEXEC)?;
    let text = encode(kept);
    let written = rustix::io::pwrite(&identity, &text, 0)?;
    if written < text.len() {
        return Err(Errno::NOSPC.into());
    }
    Ok(identity)
}

fn read_identity(identity: &OwnedFd) -> io::Result<RetainedVolume> {
    let mut text = vec![0; PACKET_BYTES];
    let bytes = rustix::io::pread(identity, &mut text, 0)?;
    Ok(serde_json::from_slice(&text[..bytes])?)
}

impl Store {
    /// Sends the memory and the backing to the manager, and waits until the manager has them.
    pub(crate) fn start(
        retained: &RetainedVolume,
        arena: BorrowedFd<'_>,
        backing: &[BorrowedFd<'_>],
    ) -> io::Result<Store> {
        retained.check()?;
        // Earlier descriptors under this key are outdated.
        remove(&retained.key)?;
        let identity = identity_file(retained)?;
        let key = &retained.key;
        let backings = backing.iter().enumerate();
        let backings = backings.map(|(number, &fd)| (backing_name(key, number), fd));
        // The memory is sent last: descriptors that come back without it belong to a daemon that
        // never served.
        let identity = std::iter::once((identity_name(key), identity.as_fd()));
        let all = identity.chain(backings).chain([(memory_name(key), arena)]);
        for (name, descriptor) in all {
            // FDPOLL=0: the manager must not drop the dirty data of a device that disappears.
            notify(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), Some(descriptor))?;
        }
        barrier()?;
        let count = FIXED_DESCRIPTORS + backing.len() as u32;
        used().fetch_add(count, Ordering::Relaxed);
        Ok(Store { key: retained.key.clone(), count })
    }

    /// Stores other descriptors of the backing, and waits until the manager has them.
    pub(crate) fn exchange(&self, backing: &[BorrowedFd<'_>]) -> io::Result<()> {
        for (number, &descriptor) in backing.iter().enumerate() {
            let name = backing_name(&self.key, number);
            notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None)?;
            notify(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), Some(descriptor))?;
        }
        for number in backing.len()..BACKING_MAX {
            let name = backing_name(&self.key, number);
            notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None)?;
        }
        barrier()
    }

    /// Removes all descriptors of the volume from the store.
    pub(crate) fn release(self) -> io::Result<()> {
        remove(&self.key)?;
        barrier()?;
        used().fetch_sub(self.count, Ordering::Relaxed);
        Ok(())
    }
}

/// Receives the descriptors that came with the start of this process. This is possible only once.
fn receive() -> io::Result<BTreeMap<String, OwnedFd>> {
    let count = number("LISTEN_FDS").unwrap_or(0);
    if number("LISTEN_PID") != Some(std::process::id()) || count == 0 {
        return Ok(BTreeMap::new());
    }
    let is_open =
        |number: u32| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    if count > INHERITED_MAX || !(3..3 + count).all(is_open) {
        let message = format!(
            "LISTEN_FDS={count}: fewer descriptors were passed; clear the variable, or start \
             with the service manager"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let received = sd_listen_fds::get()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let mut inherited = BTreeMap::new();
    for (name, descriptor) in received {
        let descriptor: OwnedFd = descriptor.into_std();
        rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
        inherited.insert(name.unwrap_or_default(), descriptor);
    }
    Ok(inherited)
}

type Inherited = Result<Mutex<BTreeMap<String, OwnedFd>>, String>;

/// Returns the descriptors that the manager has passed back for a key. It also still retains them.
pub(crate) fn find(key: &str) -> io::Result<Option<(Taken, Store)>> {
    static INHERITED: OnceLock<Inherited> = OnceLock::new();
    crate::key::check(key)?;
    let inherited = INHERITED
        .get_or_init(|| receive().map(Mutex::new).map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message.as_str()))?;
    let found = {
        let mut inherited = inherited.lock().unwrap_or_else(PoisonError::into_inner);
        let mut take = |name: String| inherited.remove(&name);
        let backing = (0..BACKING_MAX).map_while(|number| take(backing_name(key, number)));
        let backing: Vec<OwnedFd> = backing.collect();
        (take(identity_name(key)), backing, take(memory_name(key)))
    };
    match found {
        (Some(identity), backing, Some(arena)) if !backing.is_empty() => {
            let retained = read_identity(&identity).ok().filter(|it| it.key == key);
            let retained = retained.ok_or_else(|| {
                let message = format!(
                    "{key}: the descriptors in the service manager's store do not name their \
                     volume; discard them with: systemctl clean --what=fdstore UNIT"
                );
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
            let count = FIXED_DESCRIPTORS + backing.len() as u32;
            // No process has watched the image.
            let taken = Taken { retained, arena, backing, image: None };
            Ok(Some((taken, Store { key: key.to_owned(), count })))
        }
        (None, backing, None) if backing.is_empty() => Ok(None),
        // The memory is sent last: without it the daemon died before it served.
        _ => remove(key).map(|()| None),
    }
}
