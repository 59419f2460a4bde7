//! Options of opening a volume, besides its spec.

use crate::keep::Keep;
use holder::Records;

/// How to open the backings that a spec names.
#[derive(Clone, Debug, Default)]
pub struct OpenFlags {
    /// The volume's name.
    pub name: String,
    /// Whether to serve a backing byte by byte even if it looks like an image format, or like a
    /// cluster file system (which only this host may use then).
    pub raw: bool,
    /// Whether to refuse clients' changes, even if the backing accepts them.
    pub read_only: bool,
    /// The device that this volume is attached as. The backing belongs to that device, also while
    /// no daemon serves it. None: the volume is not attached.
    pub device: Option<String>,
    /// How the memory of a cache that may hold dirty data is retained. None: it is not retained,
    /// and data that was not flushed is lost with the process.
    pub keep: Option<Keep>,
    /// Records of served backings, for the next process. None: no records are kept.
    pub records: Option<Records>,
    /// Number of volumes with a cache in this process, at most [`CACHES_MAX`](crate::CACHES_MAX):
    /// they share the tasks of each lane. 0 counts as one.
    pub caches: usize,
}
