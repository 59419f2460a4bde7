//! The retained state of a volume: its identity, its memory, its backing.

use crate::image_report::ImageReport;
use crate::key;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

/// Maximum number of descriptors of one backing.
pub const BACKING_MAX: usize = 16;
/// Maximum length of the names of a volume and a backing, in bytes. Both are part of answers, in
/// which JSON may need six bytes for one.
pub(crate) const NAME_BYTES: usize = 255;
pub(crate) const BACKING_BYTES: usize = 4096;

/// Identity of a retained volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RetainedVolume {
    /// The volume's name.
    pub volume: String,
    /// The backing as its user wrote it, for messages.
    pub backing: String,
    /// The backing's identity ([`crate::key_at`]).
    pub key: String,
    /// Whether the holder updates the backing's record when it ends because nothing is dirty
    /// ([`crate::Records`]). Holders of older versions do not send this.
    #[serde(default)]
    pub is_recorded: bool,
}

impl RetainedVolume {
    /// Checks that it can be retained: it is part of every answer, and the key becomes the name of
    /// a file.
    pub(crate) fn check(&self) -> io::Result<()> {
        key::check(&self.key)?;
        if self.volume.len() > NAME_BYTES || self.backing.len() > BACKING_BYTES {
            let message = format!(
                "the volume's name has {} bytes and its backing's {}: at most {NAME_BYTES} and \
                 {BACKING_BYTES} can be stored",
                self.volume.len(),
                self.backing.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }
}

/// A volume's memory, read-only. It does not include the backing: closing that may wait for a file
/// system that does not answer.
#[derive(Debug)]
pub struct Looked {
    /// Identity of the volume.
    pub retained: RetainedVolume,
    /// The memory with its dirty blocks.
    pub arena: OwnedFd,
}

/// The retained memory and backing of a volume.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) retained: RetainedVolume,
    pub(crate) arena: OwnedFd,
    pub(crate) backing: Vec<OwnedFd>,
    pub(crate) image: Option<ImageReport>,
}
