//! What is said on the control socket. Keys are only ever added.

use serde::{Deserialize, Serialize};

/// The longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// The beginning of the answer to an ask that a daemon does not know.
pub(super) const UNKNOWN_ASK: &str = "this daemon does not know what it is asked";

/// What can be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// All volumes of the daemon: a list of [`Row`].
    List,
    /// Everything about a volume that does not move: its stack, its limits, its settings.
    Show {
        /// Its name.
        volume: String,
    },
    /// What a volume has counted and measured: its [`Statistics`](super::statistics::Statistics).
    Stats {
        /// Its name.
        volume: String,
    },
    /// Makes everything durable that was answered. Answered as [`Ask::Detach`].
    Flush {
        /// Its name.
        volume: String,
    },
    /// Writes everything out, then passes everything through.
    Pause {
        /// Its name.
        volume: String,
    },
    /// Holds changes, and makes everything durable that was answered: the backing is a consistent
    /// source of a snapshot until `resume`. Answered as [`Ask::Detach`].
    Freeze {
        /// Its name.
        volume: String,
    },
    /// Ends `pause` and `freeze`.
    Resume {
        /// Its name.
        volume: String,
    },
    /// Changes settings, all of them or none; answered with a list of notes.
    Set {
        /// Its name.
        volume: String,
        /// Each `KEY=VALUE`.
        changes: Vec<String>,
    },
    /// Ends the failed state (C8).
    ClearError {
        /// Its name.
        volume: String,
        /// Give up what is dirty; else it is tried again.
        discard_dirty: bool,
        /// Only if it is still the failure of which `memory` told this number.
        #[serde(default)]
        failure: Option<u64>,
        /// The file to which what is given up was saved.
        #[serde(default)]
        saved_to: Option<String>,
    },
    /// The memory of a failed volume's cache as a descriptor, to rescue what is dirty in it, and the
    /// number of this failure.
    Memory {
        /// Its name.
        volume: String,
    },
    /// Cuts the power of a volume's modelled drive.
    PowerCut {
        /// Its name.
        volume: String,
        /// Chooses what of that which is just being programmed is lost.
        #[serde(default)]
        seed: u64,
        /// How long the power stays off, in nanoseconds.
        #[serde(default)]
        off_ns: u64,
    },
    /// Disconnects the clients of a volume, writes everything out, and lets go of its backing:
    /// answered with its [`Losses`](super::losses::Losses); by an older daemon with nothing.
    Detach {
        /// Its name.
        volume: String,
        /// Also if its device cannot be flushed: what is not written out stays kept.
        #[serde(default)]
        force: bool,
    },
    /// The version of the program.
    Version,
    /// The program is executed anew, in the same process; what is dirty stays kept meanwhile.
    Upgrade,
    /// Whether the last upgrade has put another program in the place of the one before; it is
    /// refused if that could not start. Daemons of older versions do not know this.
    Upgraded,
}

/// What is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done {
        /// What was asked for, if it was something.
        value: serde_json::Value,
    },
    /// It is not.
    Refused {
        /// The exit status that says so.
        exit: u8,
        /// One sentence.
        message: String,
    },
}

/// How a volume stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It serves.
    #[default]
    Serving,
    /// It passes everything through.
    Paused,
    /// It holds changes.
    Frozen,
    /// It has failed: changes and flushes get errors (C8).
    Failed,
    /// Its memory is gone while its device was in use: every request gets an error (C5).
    Lost,
    /// Its backing does not answer.
    Stalled,
    /// It is being detached, or the daemon ends.
    Ending,
    /// No daemon serves it; a holder keeps what it has not written.
    Orphaned,
    /// It is a device or a mounted file without a daemon: requests wait, or get errors by now.
    Waiting,
    /// The process that serves it, or keeps it, is there and does not answer.
    NoAnswer,
}

impl State {
    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            State::Serving => "serving",
            State::Paused => "paused",
            State::Frozen => "frozen",
            State::Failed => "failed",
            State::Lost => "lost",
            State::Stalled => "stalled",
            State::Ending => "ending",
            State::Orphaned => "orphaned",
            State::Waiting => "waiting",
            State::NoAnswer => "no-answer",
        }
    }
}

/// A volume in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its backing; paths are absolute.
    pub backing: String,
    /// How it stands.
    pub state: State,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Memory for blocks, in bytes; 0: no cache.
    pub memory_bytes: u64,
    /// What happens to writes.
    pub write: String,
    /// What is not durable on the backing, in bytes.
    pub dirty_bytes: u64,
    /// Requests that the backing has answered with an error, since the daemon serves it.
    #[serde(default)]
    pub errors: u64,
    /// Reads, since the daemon serves it; 0 also without a cache, and of an older daemon.
    #[serde(default)]
    pub reads: u64,
    /// Reads of these that were answered from memory.
    #[serde(default)]
    pub read_hits: u64,
    /// Clients that are connected.
    pub clients: u64,
    /// For clients; empty if it has no address of its own any more.
    pub uri: String,
    /// The daemon's process; of an orphan, the holder's.
    pub pid: u32,
    /// The identities of the files and devices that it lies on.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The node of its block device; empty: it is none.
    #[serde(default)]
    pub device: String,
    /// By what the kernel reaches us for that device; empty: it is none.
    #[serde(default)]
    pub route: String,
}
