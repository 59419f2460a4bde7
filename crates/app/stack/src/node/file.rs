//! A regular file or a block device: the backing before it is open, and the node.

use super::{Attached, Backing, Former, Health, Identity, OpenNode, Opened, Opening, Unkept};
use crate::failure::Failure;
use block::{Limits, Size, Stack};
use host::{Claim, Claimed, Direct, File, FileVolume, Intent, Lock, OpenOptions};
use ring::{FileBackend, Ring};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Time to wait for an image that another process has locked: a daemon that was just killed, and
/// its holder, release it within moments.
const LOCK_WAIT_MS: u64 = 1_000;

/// A regular file or a block device that is not open yet.
pub(crate) struct FileBacking {
    pub(crate) path: PathBuf,
    pub(crate) options: OpenOptions,
    /// Whether to serve the file byte by byte even if it looks like an image format.
    pub(crate) is_raw: bool,
    /// The device that the volume is attached as.
    pub(crate) device: Option<String>,
}

impl FileBacking {
    fn claim(&self, is_read_only: bool) -> Claim<'_> {
        let is_raw = self.is_raw;
        Claim {
            path: &self.path,
            options: OpenOptions { read_only: is_read_only, ..self.options },
            intent: match &self.device {
                Some(device) => Intent::Attach { is_raw, device },
                None => Intent::Serve { is_raw },
            },
            lock_wait_ms: LOCK_WAIT_MS,
        }
    }

    fn open_claimed(&self, is_read_only: bool, former: Former) -> Result<Opened, Failure> {
        let Former { kept, was_served } = former;
        let kept = kept.and_then(|kept| kept.into_iter().next());
        let was_served = |file: &FileVolume| was_served(&identity_of(file));
        let Claimed { volume, mut notes } = self.claim(is_read_only).open(kept, was_served)?;
        notes.extend(notes_of(&volume, self.options.buffered));
        Ok(Opened { node: Box::new(FileNode(volume)), notes })
    }
}

impl Backing for FileBacking {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn key(&self) -> Option<String> {
        // A path that cannot be examined cannot be opened either, and opening reports the clearer
        // error.
        holder::key_at(&self.path).ok()
    }

    fn check(&self) -> Result<(), Failure> {
        Ok(self.claim(self.options.read_only).check()?)
    }

    fn open(&self, _ring: &Ring, is_read_only: bool, former: Former) -> Opening {
        Box::pin(std::future::ready(self.open_claimed(is_read_only, former)))
    }

    fn is_read_only(&self) -> bool {
        self.options.read_only
    }
}

/// Returns sentences about how a file was opened.
fn notes_of(file: &FileVolume, buffered: bool) -> Vec<String> {
    let path = file.path().display();
    let mut notes = Vec::new();
    if let Direct::No(why) = file.direct()
        && !buffered
    {
        notes.push(format!(
            "{path}: no direct I/O ({why}); the host's page cache is used below the volume, too"
        ));
    }
    if let Lock::No(why) = file.lock() {
        notes.push(format!(
            "{path}: cannot be locked ({why}); make sure that no other program writes to it"
        ));
    } else if let Some(why) = file.local_locks() {
        notes.push(format!("{path}: {why}; make sure that no other host uses it"));
    }
    notes
}

/// Returns the identity of an open file or device.
fn identity_of(file: &FileVolume) -> Identity {
    Identity {
        key: file.key(),
        number: file.identity(),
        birth: holder::birth(file.file().as_fd()),
        name: file.path().display().to_string(),
    }
}

/// A file, with its locks.
struct FileNode(Arc<FileVolume>);

impl OpenNode for FileNode {
    fn limits(&self) -> Limits {
        self.0.limits().clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let stack = Stack::new(ring.lane(), FileBackend::attach(&self.0, ring));
        Attached { stack, cache: None }
    }

    fn identity(&self) -> Option<Identity> {
        Some(identity_of(&self.0))
    }

    fn keepable(&self) -> Result<Vec<File>, Unkept> {
        Ok(vec![self.0.file().clone()])
    }

    fn is_locked(&self) -> bool {
        *self.0.lock() == Lock::Held && self.0.local_locks().is_none()
    }

    fn health(&self) -> Health {
        Health { damage: damage_of(&self.0), was_short: self.0.was_short() }
    }

    fn accept_size(&self) -> bool {
        self.0.accept_size()
    }
}

fn damage_of(file: &FileVolume) -> Option<String> {
    let bytes = file.limits().bytes();
    let now = rustix::fs::seek(file.file(), rustix::fs::SeekFrom::End(0)).ok()?;
    (now < bytes).then(|| {
        format!(
            "{}: has shrunk from {} to {} while it was served; data beyond its end is lost, even \
             if it is extended again",
            file.path().display(),
            Size(bytes),
            Size(now)
        )
    })
}
