//! A volume as a file.

use crate::codec::{Attributes, ROOT_MODE, S_IFREG};
use export::{Session, Stop};
use lane::Event;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The node of the directory. Source: FUSE_ROOT_ID in fuse.h.
pub(crate) const ROOT: u64 = 1;

/// The sessions of open handles, by the handle's number. One that an earlier process has opened
/// gets its session when it flushes for the first time.
type Sessions = BTreeMap<u64, Box<dyn Session>>;

/// A volume as a file: what all lanes know of it.
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) node: u64,
    pub(crate) bytes: u64,
    pub(crate) read_only: bool,
    /// Ends it.
    pub(crate) stop: Arc<Stop>,
    sessions: Mutex<Sessions>,
    /// Requests on all lanes that are being carried out.
    busy: AtomicU64,
    /// None of them is left, while the end is asked for.
    idle: Event,
    /// Something was written since the last flush began.
    pub(crate) is_written: AtomicBool,
    /// It is served no more, and no later process will.
    pub(crate) is_removed: AtomicBool,
}

/// A request that is being carried out, until it is dropped.
pub(crate) struct Busy(Arc<File>);

impl Drop for Busy {
    fn drop(&mut self) {
        let before = self.0.busy.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.stop.is_asked() {
            self.0.idle.notify();
        }
    }
}

/// The node of a name: the same in every process that ever serves it, so that a later one need not be told of what
/// the kernel holds. Source: FNV-1a, draft-eastlake-fnv.
pub(crate) fn node_of(name: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
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

    /// Begins to carry out a request. None: the end was asked for.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Busy> {
        // Counted first: what asks for the end and then looks at the count is on another thread.
        self.busy.fetch_add(1, Ordering::SeqCst);
        let busy = Busy(self.clone());
        (!self.stop.is_asked()).then_some(busy)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle is open from now on.
    pub(crate) fn opened(&self, handle: u64, session: Box<dyn Session>) {
        self.sessions().insert(handle, session);
    }

    /// A handle is not needed any more.
    pub(crate) fn released(&self, handle: u64) {
        let session = self.sessions().remove(&handle);
        // Outside the lock: what counts clients hears of it.
        drop(session);
    }

    /// A client has shown by this handle that it flushes (C11). `make` makes the session of handles that an earlier
    /// process has opened.
    pub(crate) fn proven(&self, handle: u64, make: impl FnOnce() -> Box<dyn Session>) {
        self.sessions().entry(handle).or_insert_with(make).flushed();
    }

    /// A client flushes by this handle, after [`File::proven`].
    ///
    /// # Errors
    /// Those of [`Session::take_doubt`].
    pub(crate) fn take_doubt(&self, handle: u64) -> block::Result {
        self.sessions().get(&handle).map_or(Ok(()), |session| session.take_doubt())
    }

    /// Waits until its end was asked for and nothing of it is carried out, then lets its sessions go.
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
        // As FNV-1a is published: of "a", and of nothing.
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
