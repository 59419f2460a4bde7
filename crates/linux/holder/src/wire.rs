//! Messages between a holder and its clients.

use crate::absence::{Description, Waiting};
use crate::image_report::ImageReport;
use crate::pid::is_ending;
use crate::retained::RetainedVolume;
use serde::{Deserialize, Serialize};

/// Status of a holder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The volume's name.
    pub volume: String,
    /// The backing as its user wrote it.
    pub backing: String,
    /// The backing's identity.
    pub key: String,
    /// The process that serves the volume. None: the volume is orphaned.
    pub owner_pid: Option<i32>,
    /// The holder's own process.
    pub holder_pid: i32,
    /// Blocks that are not durable on the backing yet.
    pub dirty_blocks: u64,
    /// Pending ranges of zeros.
    pub ranges: u64,
    /// Whether the volume has failed (C8) and was not cleared yet.
    pub failed: bool,
    /// Reason why the dirty data is unknown; the three fields above are then meaningless.
    pub unknown: Option<String>,
    /// Memory of the arena, in bytes.
    pub held_bytes: u64,
    /// Start of the holder, in seconds since 1970.
    pub since_unix_s: u64,
    /// Number of takeovers: while it stays the same and there is no owner, the memory does not
    /// change.
    #[serde(default)]
    pub takes: u64,
    /// The volume's size, in bytes; 0 if it is unknown.
    #[serde(default)]
    pub size_bytes: u64,
    /// Whether it retains only clean blocks for now, without an owner.
    #[serde(default)]
    pub has_only_clean: bool,
    /// Present path of the retained backing, which may have been renamed. None: it was deleted, or
    /// the path is too long for a packet.
    #[serde(default)]
    pub path: Option<String>,
}

impl Status {
    /// Whether no daemon serves the volume: there is no owner, or it has just died and the kernel
    /// is still closing its descriptors.
    pub fn is_orphaned(&self) -> bool {
        self.owner_pid.is_none_or(is_ending)
    }
}

/// Requests to a holder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Ask {
    Keep {
        #[serde(flatten)]
        retained: RetainedVolume,
        runtime: String,
        pid: i32,
    },
    Take {
        pid: i32,
    },
    /// A daemon is about to take the memory or the mount over, while this connection is open.
    Approach,
    /// The owner's clean blocks equal the image from now on.
    Watch,
    /// Other descriptors of the backing, which come with the packet.
    Exchange,
    Release,
    Status,
    Look,
    /// The owner of a mount describes how to answer for it.
    Describe(Description),
    /// The owner of a mount stops serving it, and ends.
    Leave,
    /// Queries since when the mount has had no daemon.
    Waiting,
    Discard {
        /// Ends the holder only if it was not taken over since a status had this value.
        #[serde(default)]
        takes: Option<u64>,
    },
}

/// Answers of a holder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    #[serde(rename = "kept")]
    Retained {
        #[serde(flatten)]
        retained: RetainedVolume,
        /// For a new owner. None: nothing is known, or the holder is of an older version.
        #[serde(default)]
        image: Option<ImageReport>,
    },
    Status(Status),
    Busy {
        pid: i32,
    },
    /// The request has been carried out. (`done` means that the holder ends.)
    Accepted,
    /// To `watch`: nothing is watched, because another program has opened the image since `take`.
    Opened,
    Waits {
        waiting: Option<Waiting>,
    },
    Done,
    Error {
        message: String,
    },
}

/// Length of the longest path in an answer, in bytes.
pub(crate) const PATH_BYTES: usize = 900;

/// Encodes a message for a packet.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("strings and numbers always become JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PACKET_BYTES;
    use crate::retained::{BACKING_BYTES, NAME_BYTES};

    #[test]
    fn requests_have_the_documented_form() {
        let ask: Ask = serde_json::from_str(r#"{"ask":"take","pid":7,"later":true}"#).expect("it");
        assert!(matches!(ask, Ask::Take { pid: 7 }));
        let keep = r#"{"ask":"keep","volume":"v","backing":"b","key":"k","runtime":"r","pid":1}"#;
        let ask: Ask = serde_json::from_str(keep).expect("it");
        assert!(matches!(ask, Ask::Keep { retained, .. } if retained.volume == "v"));
        assert!(serde_json::from_str::<Ask>(r#"{"ask":"own"}"#).is_err());
        let discard: Ask = serde_json::from_str(r#"{"ask":"discard"}"#).expect("an older one's");
        assert!(matches!(discard, Ask::Discard { takes: None }));
    }

    #[test]
    fn the_longest_answer_fits_a_packet() {
        let status = Status {
            volume: "\u{1}".repeat(NAME_BYTES),
            backing: "\u{1}".repeat(BACKING_BYTES),
            key: "k".repeat(64),
            owner_pid: Some(i32::MIN),
            holder_pid: i32::MIN,
            dirty_blocks: u64::MAX,
            ranges: u64::MAX,
            failed: false,
            unknown: Some("x".repeat(200)),
            held_bytes: u64::MAX,
            since_unix_s: u64::MAX,
            takes: u64::MAX,
            size_bytes: u64::MAX,
            has_only_clean: false,
            path: Some("\u{1}".repeat(PATH_BYTES)),
        };
        assert!(encode(&Answer::Status(status)).len() < PACKET_BYTES);
    }
}
