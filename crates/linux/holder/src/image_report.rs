//! A holder's report about other programs that may have written to its image (`image_watch.rs`).

use rustix::fs::{AtFlags, StatxFlags};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;

/// The state of an image that changes with each write by any program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImageState {
    ctime_s: i64,
    ctime_ns: u32,
    bytes: u64,
}

impl ImageState {
    /// Returns the present state of an image. None: its file system does not report it.
    pub fn of(image: impl AsFd) -> Option<ImageState> {
        let wanted = StatxFlags::CTIME | StatxFlags::SIZE;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(image, "", flags, wanted).ok()?;
        let is_complete = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
        is_complete.then_some(ImageState {
            ctime_s: found.stx_ctime.tv_sec,
            ctime_ns: found.stx_ctime.tv_nsec,
            bytes: found.stx_size,
        })
    }
}

/// Whether other programs could write to an image since the holder's last owner began to serve it.
/// (The names in messages are those of the first version, which judged by openings.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ImageReport {
    /// Another program has had it open for writing, or has it open now.
    #[serde(rename = "opened")]
    Exposed,
    /// No other program has had it open for writing.
    #[serde(rename = "unopened")]
    Exclusive {
        /// Its state at the end of the owner's last request. None: a new owner came before that.
        since: Option<ImageState>,
    },
}

impl ImageReport {
    /// Whether no other program has written to this image, whose former owner's requests have
    /// ended.
    pub fn is_unchanged(&self, image: impl AsFd) -> bool {
        match self {
            ImageReport::Exposed => false,
            ImageReport::Exclusive { since: None } => true,
            ImageReport::Exclusive { since } => *since == ImageState::of(image),
        }
    }
}
