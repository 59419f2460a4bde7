//! A volume as a file.

use crate::codec::{Attributes, ROOT_MODE, S_IFREG};
use export::{Session, Stop};
use lane::Event;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Node number of the directory. Source: FUSE_ROOT_ID in fuse.h.
pub(crate) const ROOT: u64 = 1;

/// Sessions of open handles, by the handle's number. A handle that an earlier process has opened
/// gets its session at its first flush.
type Sessions = BTreeMap<u64, Box<dyn Session>>;

/// A volume as a file: the state that all lanes share.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) node: u64,
    pub(crate) bytes: u64,
    pub(crate) read_only: bool,
    /// Ends the file.
    pub(crate) stop: Arc<Stop>,
    sessions: Mutex<Sessions>,
    /// Number of requests that are being served, on all lanes.
    busy: AtomicU64,
    /// Triggered when the end was requested and the last request has ended.
    idle: Event,
    /// Whether data was written since the last flush began.
    pub(crate) is_written: AtomicBool,
    /// Whether the volume was removed: neither this process nor a later one serves it.
    pub(crate) is_removed: AtomicBool,
}

/// Counts a request as being served until it is dropped.
pub(crate) struct Busy(Arc<File>);

impl Drop for Busy {
    fn drop(&mut self) {
        let before = self.0.busy.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.stop.is_asked() {
            self.0.idle.notify();
        }
    }
}

/// Returns the node number of a name. It is the same in every process that serves the name, so that
/// a new process needs no information about the nodes that the kernel holds.
pub(crate) fn node_of(name: &str) -> u64 {
    let hash = block::stable_hash(name.bytes());
    if hash <= ROOT { hash + 2 } else { hash }
}

/// Returns the attributes of the directory.
pub(crate) fn attributes_of_root(owner: (u32, u32), time_s: u64) -> Attributes {
    let (user, group) = owner;
    Attributes { node: ROOT, bytes: 0, mode: ROOT_MODE, links: 2, user, group, time_s }
}

impl Attributes {
    /// Returns the attributes of a volume's file.
    pub(crate) fn of_file(
        node: u64,
        bytes: u64,
        read_only: bool,
        owner: (u32, u32),
        time_s: u64,
    ) -> Attributes {
        let permissions = if read_only { 0o400 } else { 0o600 };
        let (user, group) = owner;
        Attributes { node, bytes, mode: S_IFREG | permissions, links: 1, user, group, time_s }
    }
}

impl File {
    pub(crate) fn new(name: &str, bytes: u64, read_only: bool, stop: Arc<Stop>) -> File {
        File {
            name: name.to_owned(),
            node: node_of(name),
            bytes,
            read_only,
            stop,
            sessions: Mutex::default(),
            busy: AtomicU64::new(0),
            idle: Event::new(),
            is_written: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
        }
    }

    pub(crate) fn attributes(&self, owner: (u32, u32), time_s: u64) -> Attributes {
        Attributes::of_file(self.node, self.bytes, self.read_only, owner, time_s)
    }

    /// Starts a request. None: the end was requested.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Busy> {
        // Counted before the check: the thread that requests the end checks the count afterwards.
        self.busy.fetch_add(1, Ordering::SeqCst);
        let busy = Busy(self.clone());
        (!self.stop.is_asked()).then_some(busy)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the session of a newly opened handle.
    pub(crate) fn opened(&self, handle: u64, session: Box<dyn Session>) {
        self.sessions().insert(handle, session);
    }

    /// Drops the session of a closed handle.
    pub(crate) fn released(&self, handle: u64) {
        let session = self.sessions().remove(&handle);
        // Outside the lock: dropping it reports to the counter of clients.
        drop(session);
    }

    /// Reports that the client of this handle flushes (C11). `make` creates the session of a handle
    /// that an earlier process has opened.
    pub(crate) fn proven(&self, handle: u64, make: impl FnOnce() -> Box<dyn Session>) {
        self.sessions().entry(handle).or_insert_with(make).flushed();
    }

    /// Returns the doubt of a flush through this handle. Comes after [`File::proven`].
    ///
    /// # Errors
    /// The errors of [`Session::take_doubt`].
    pub(crate) fn take_doubt(&self, handle: u64) -> block::Result {
        self.sessions().get(&handle).map_or(Ok(()), |session| session.take_doubt())
    }

    /// Waits until the end is requested and no request is being served, then drops all sessions.
    pub(crate) async fn end(&self) {
        self.stop.wait().await;
        loop {
            let seen = self.idle.seen();
            if self.busy.load(Ordering::SeqCst) == 0 {
                break;
            }
            self.idle.after(seen).await;
        }
        let sessions = std::mem::take(&mut *self.sessions());
        drop(sessions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_node_in_every_process() {
        // Published FNV-1a values of "a" and of the empty string.
        assert_eq!(node_of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(node_of(""), 0xcbf2_9ce4_8422_2325);
        assert_ne!(node_of("disk"), node_of("disk2"));
    }

    #[test]
    fn nothing_begins_after_the_end_was_asked_for() {
        let stop = Arc::new(Stop::new());
        let file = Arc::new(File::new("disk", 4096, false, stop.clone()));
        let first = file.begin();
        assert!(first.is_some());
        stop.ask();
        let seen = file.idle.seen();
        assert!(file.begin().is_none());
        assert_eq!(file.idle.seen(), seen, "the first is under way");
        drop(first);
        assert_ne!(file.idle.seen(), seen);
    }
}
