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

/// Whether other programs have used an image since the holder's last owner began to serve it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageReport {
    /// Another program has opened it.
    Opened,
    /// No other program has opened it.
    Unopened {
        /// Its state at the end of the owner's last request. None: a new owner came before that.
        since: Option<ImageState>,
    },
}

impl ImageReport {
    /// Whether no other program has written to this image, whose former owner's requests have
    /// ended.
    pub fn is_unchanged(&self, image: impl AsFd) -> bool {
        match self {
            ImageReport::Opened => false,
            ImageReport::Unopened { since: None } => true,
            ImageReport::Unopened { since } => *since == ImageState::of(image),
        }
    }
}
