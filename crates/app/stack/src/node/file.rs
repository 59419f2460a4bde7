//! A regular file or a block device.

use super::{Attached, Health, Identity, OpenNode, Unkept};
use crate::backing::{Backing, Opened};
use crate::failure::{Exit, Failure};
use block::{Limits, Size, Stack};
use host::{Direct, FileVolume, Intent, Lock, OpenError, OpenErrorKind, OpenOptions};
use ring::{FileBackend, Ring};
use std::any::Any;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Time to wait for an image that another process has locked: a daemon that was just killed, and
/// its holder, release it within moments.
const LOCK_WAIT_MS: u64 = 1_000;

/// A regular file or a block device that is not open yet.
pub(crate) struct FileBacking {
    pub(crate) path: PathBuf,
    pub(crate) options: OpenOptions,
    /// Serve byte by byte a file that looks like an image format.
    pub(crate) is_raw: bool,
    /// The device that the volume is attached as.
    pub(crate) device: Option<String>,
}

impl FileBacking {
    fn volume(
        &self,
        is_read_only: bool,
        kept: Option<Vec<OwnedFd>>,
    ) -> Result<Arc<FileVolume>, Failure> {
        let (path, is_raw) = (&self.path, self.is_raw);
        let options = OpenOptions { read_only: is_read_only, ..self.options };
        match kept.and_then(|kept| kept.into_iter().next()) {
            Some(kept) => Ok(FileVolume::from_file(path, kept, options)?),
            None => FileVolume::open_waiting(path, options, LOCK_WAIT_MS)
                .map_err(|error| image_instead(error, path, is_raw)),
        }
    }
}

impl Backing for FileBacking {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn key(&self) -> Option<String> {
        // A path that cannot be examined cannot be opened either, and the message of opening is the
        // better one.
        holder::key_at(&self.path).ok()
    }

    fn check(&self) -> Result<(), Failure> {
        let writes = !self.options.read_only;
        Ok(host::refuse_backing(&self.path, writes, self.device.as_deref())?)
    }

    fn open(&self, _ring: &Ring, is_read_only: bool, kept: Option<Vec<OwnedFd>>) -> Opened {
        let opened = self.volume(is_read_only, kept);
        let opened = opened.map(|file| Box::new(FileNode(file)) as Box<dyn OpenNode>);
        Box::pin(std::future::ready(opened))
    }

    fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    fn examine(&self, node: &dyn OpenNode, was_served: bool) -> Result<Vec<String>, Failure> {
        let Some(FileNode(file)) = (node as &dyn Any).downcast_ref() else {
            return Ok(Vec::new());
        };
        let is_raw = self.is_raw || was_served;
        let mut notes = host::examine(file, Intent::Serve { is_raw })?;
        notes.extend(note_of(file, self.options.buffered));
        Ok(notes)
    }
}

/// Replaces the complaint about the size of an image file by one about its format. Such a file may
/// have any size, so extending it would be the wrong advice.
fn image_instead(error: OpenError, path: &Path, is_raw: bool) -> Failure {
    let size = matches!(error.kind, OpenErrorKind::Misaligned | OpenErrorKind::TooSmall);
    if !size || is_raw {
        return error.into();
    }
    let mut first_bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut first_bytes));
    match host::detect(&first_bytes) {
        Some(format) if read.is_ok() && !format.is_container() => {
            Failure::new(Exit::Usage, host::reason(format, path))
        }
        _ => error.into(),
    }
}

/// Returns sentences about how a file was opened.
fn note_of(file: &FileVolume, buffered: bool) -> Vec<String> {
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
            "{path}: not locked against others ({why}); make sure that no other program writes it"
        ));
    } else if let Some(why) = file.local_locks() {
        notes.push(format!("{path}: {why}; make sure that no other host uses it"));
    }
    notes
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
        Some(Identity {
            key: self.0.key(),
            number: self.0.identity(),
            birth: holder::birth(self.0.file().as_fd()),
            name: self.0.path().display().to_string(),
        })
    }

    fn keepable(&self) -> Result<Vec<BorrowedFd<'_>>, Unkept> {
        Ok(vec![self.0.file().as_fd()])
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
            "{}: has shrunk from {} to {} while it was served; what was beyond is lost, also where \
             it is made larger again",
            file.path().display(),
            Size(bytes),
            Size(now)
        )
    })
}
