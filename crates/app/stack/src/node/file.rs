//! A regular file or a block device.

use super::{Attached, Health, Identity, OpenNode, Unkept};
use block::{Limits, Size, Stack};
use host::{FileVolume, Lock};
use ring::{FileBackend, Ring};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Returns the identity of an open file or device.
pub(crate) fn identity_of(file: &FileVolume) -> Identity {
    Identity {
        key: file.key(),
        number: file.identity(),
        birth: holder::birth(file.file().as_fd()),
        name: file.path().display().to_string(),
    }
}

/// A file, with its locks.
pub(crate) struct FileNode(pub(crate) Arc<FileVolume>);

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

    fn keepable(&self) -> Result<Vec<BorrowedFd<'_>>, Unkept> {
        Ok(vec![self.0.file().as_fd()])
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
