//! Messages on the control socket. Keys are only ever added.

use serde::{Deserialize, Serialize};

/// Length of the longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Largest number of bytes that one [`Ask::Read`] may request.
pub const READ_BYTES_MAX: u32 = 1 << 20;

/// The classes of held blocks: those that equal the backing, and those that are not durable yet.
pub const HELD_CLASSES: [&str; 2] = ["clean", "dirty"];

/// Beginning of the answer to a request that a daemon does not support.
pub(crate) const UNKNOWN_ASK: &str = "this daemon does not know what it is asked";

/// Requests to a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// All volumes of the daemon: a list of [`Row`].
    List,
    /// A volume's stack, its limits, and its present settings.
    Show {
        /// The volume's name.
        volume: String,
    },
    /// The [`Statistics`](super::statistics::Statistics) of a volume.
    Stats {
        /// The volume's name.
        volume: String,
    },
    /// Makes all answered writes durable. The answer is that of [`Ask::Detach`].
    Flush {
        /// The volume's name.
        volume: String,
    },
    /// Writes all dirty data back, then bypasses the cache.
    Pause {
        /// The volume's name.
        volume: String,
    },
    /// Holds changes back, and makes all answered writes durable: until `resume`, a snapshot of the
    /// backing is consistent. The answer is that of [`Ask::Detach`].
    Freeze {
        /// The volume's name.
        volume: String,
    },
    /// Ends `pause` and `freeze`.
    Resume {
        /// The volume's name.
        volume: String,
    },
    /// Changes settings, all of them or none; answered with a list of notes.
    Set {
        /// The volume's name.
        volume: String,
        /// Each `KEY=VALUE`.
        changes: Vec<String>,
    },
    /// Ends the failed state (C8).
    ClearError {
        /// The volume's name.
        volume: String,
        /// Whether to discard dirty data; otherwise writing it back is tried again.
        discard_dirty: bool,
        /// Number of the failure, from the answer to `memory`; refused if it differs by now.
        #[serde(default)]
        failure: Option<u64>,
        /// The file to which the discarded data was saved.
        #[serde(default)]
        saved_to: Option<String>,
    },
    /// The memory of a failed volume's cache as a descriptor, so that its dirty data can be
    /// rescued, and the number of this failure.
    Memory {
        /// The volume's name.
        volume: String,
    },
    /// The volume's contents, as its clients would read them. The read leaves no trace in the
    /// cache. Answered with the number of bytes, which follow the line.
    Read {
        /// The volume's name.
        volume: String,
        /// The first byte.
        first_byte: u64,
        /// Number of bytes, at most [`READ_BYTES_MAX`].
        bytes: u32,
    },
    /// Limits this connection to [`Ask::Read`] of one volume from now on, for a program that works
    /// on contents which others have written.
    Observe {
        /// The volume's name.
        volume: String,
    },
    /// A page of the blocks that the cache holds. Answered with a number of bytes, which follow the
    /// line (`control/held.rs`).
    HeldBlocks {
        /// The volume's name.
        volume: String,
        /// The position of the page: 0, or the next one by the page before.
        from: u64,
    },
    /// Records the requests of a volume from now on, until this connection ends. Refused while
    /// another connection records them. Daemons of older versions do not support this request.
    Record {
        /// The volume's name.
        volume: String,
        /// The places, each once.
        at: Vec<RecordAt>,
    },
    /// A page of the requests that this connection records. Answered with a number of bytes, which
    /// follow the line (`control/recorded.rs`).
    Recorded,
    /// Cuts the power of a volume's modelled drive.
    PowerCut {
        /// The volume's name.
        volume: String,
        /// Selects which data is lost of that being programmed.
        #[serde(default)]
        seed: u64,
        /// Time that the power stays off, in nanoseconds.
        #[serde(default)]
        off_ns: u64,
    },
    /// Disconnects the clients of a volume, writes dirty data back, and releases its backing.
    /// Answered with its [`Losses`](super::losses::Losses); by an older daemon without a value.
    Detach {
        /// The volume's name.
        volume: String,
        /// Whether to detach even if the volume's device cannot be flushed; data that is not
        /// written back stays retained.
        #[serde(default)]
        force: bool,
    },
    /// Removes a volume's list of hot blocks; answered with whether there was one.
    Forget {
        /// The volume's name.
        volume: String,
    },
    /// The version of the program.
    Version,
    /// Executes the program again in the same process; dirty data stays retained.
    Upgrade,
    /// Whether the last upgrade has replaced the program; refused if the new one could not start.
    /// Daemons of older versions do not support this request.
    Upgraded,
}

/// The place in a volume's stack where requests are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordAt {
    /// Above the cache: the requests of clients.
    Above,
    /// Below the cache: the requests to the backing.
    Below,
}

/// Answers of a daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The request was carried out.
    Done {
        /// The requested value, if there is one.
        value: serde_json::Value,
    },
    /// The request was refused.
    Refused {
        /// Exit status for the reason.
        exit: u8,
        /// The reason, as one sentence.
        message: String,
    },
}

/// State of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The volume is served.
    #[default]
    Serving,
    /// All requests bypass the cache.
    Paused,
    /// Changes are held back.
    Frozen,
    /// The volume has failed: changes and flushes fail (C8).
    Failed,
    /// Its memory was lost while its device was in use: every request fails (C5).
    Lost,
    /// The link to the server of its backing is down.
    LinkDown,
    /// Its backing does not answer.
    Stalled,
    /// It is being detached, or the daemon is ending.
    Ending,
    /// No daemon serves it; a holder retains its unwritten data.
    Orphaned,
    /// It is a device or a mounted file without a daemon: requests wait, or already fail.
    Waiting,
    /// The process that serves or retains it exists and does not answer.
    NoAnswer,
}

impl State {
    /// Returns the state as it is printed.
    pub fn word(self) -> &'static str {
        match self {
            State::Serving => "serving",
            State::Paused => "paused",
            State::Frozen => "frozen",
            State::Failed => "failed",
            State::Lost => "lost",
            State::LinkDown => "link-down",
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
    /// Its state.
    pub state: State,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Memory for blocks, in bytes; 0: no cache.
    pub memory_bytes: u64,
    /// How writes are handled.
    pub write: String,
    /// Data that is not durable on the backing, in bytes.
    pub dirty_bytes: u64,
    /// Requests that the backing has answered with an error, since the daemon started serving the
    /// volume.
    #[serde(default)]
    pub errors: u64,
    /// Reads since the daemon started serving it; 0 also without a cache, and from an older daemon.
    #[serde(default)]
    pub reads: u64,
    /// Reads among these that were answered from memory.
    #[serde(default)]
    pub read_hits: u64,
    /// Number of connected clients.
    pub clients: u64,
    /// URI for clients; empty if the volume no longer has an address.
    pub uri: String,
    /// The daemon's process; for an orphan, the holder's.
    pub pid: u32,
    /// The identities of the files and devices that it lies on.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The node of its block device; empty if there is none.
    #[serde(default)]
    pub device: String,
    /// How the kernel reaches the daemon for that device; empty if there is none.
    #[serde(default)]
    pub route: String,
}
