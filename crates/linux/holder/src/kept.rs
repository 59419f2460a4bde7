//! What is kept of a volume: which one it is, its memory, its backing.

use crate::key;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

/// The most descriptors of one backing.
pub const BACKING_MAX: usize = 16;
/// The longest name of a volume and of a backing that is kept, in bytes. Both come back in answers,
/// where JSON makes up to six bytes of one.
pub(crate) const NAME_BYTES: usize = 255;
pub(crate) const BACKING_BYTES: usize = 4096;

/// Which volume it is that is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The volume's name.
    pub volume: String,
    /// The backing as its user wrote it, for messages.
    pub backing: String,
    /// The backing's identity ([`crate::key_at`]).
    pub key: String,
    /// The holder notes in the backing's record when it ends because nothing is dirty
    /// ([`crate::Records`]). Holders of older versions answer without this.
    #[serde(default)]
    pub is_recorded: bool,
}

impl Kept {
    /// Whether it can be kept: it comes back in every answer, and the key becomes a file's name.
    pub(crate) fn check(&self) -> io::Result<()> {
        key::check(&self.key)?;
        if self.volume.len() > NAME_BYTES || self.backing.len() > BACKING_BYTES {
            let message = format!(
                "the volume's name has {} bytes and its backing's {}: at most {NAME_BYTES} and \
                 {BACKING_BYTES} can be kept",
                self.volume.len(),
                self.backing.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }
}

/// A volume's memory, to be read only. Its backing is not among it: to close that may wait for a file
/// system that does not answer.
#[derive(Debug)]
pub struct Looked {
    /// Which volume it is.
    pub kept: Kept,
    /// The memory with its dirty blocks.
    pub arena: OwnedFd,
}

/// What is kept of a volume.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) kept: Kept,
    pub(crate) arena: OwnedFd,
    pub(crate) backing: Vec<OwnedFd>,
}
