//! How a volume is opened, beside its spec.

use crate::keep::Keep;
use holder::Records;

/// How to open the backings that a spec names.
#[derive(Clone, Debug, Default)]
pub struct OpenFlags {
    /// The volume's name.
    pub name: String,
    /// Serve byte by byte a backing that looks like an image format, and on this host one that
    /// looks like a cluster's file system.
    pub raw: bool,
    /// Refuse clients' changes, even if the backing accepts them.
    pub read_only: bool,
    /// The device that this volume is attached as. The backing belongs to that device, also while
    /// no daemon serves it. None: the volume is not attached.
    pub device: Option<String>,
    /// How the memory of a cache that may hold dirty data is retained. None: it is not, and data
    /// that was not flushed is lost with the process.
    pub keep: Option<Keep>,
    /// Where served backings are noted for the next process; None: nowhere.
    pub records: Option<Records>,
}
