//! How a volume is opened, beside its spec.

use crate::keep::Keep;
use holder::Records;

/// How to open what a spec names.
#[derive(Clone, Debug, Default)]
pub struct OpenFlags {
    /// The volume's name.
    pub name: String,
    /// Serve byte by byte what looks like an image format, and on this host what looks like a cluster's file system.
    pub raw: bool,
    /// Refuse clients' changes, whatever the backing takes.
    pub read_only: bool,
    /// The device that this volume becomes. Its backing is that device's, also while no daemon
    /// serves it. None: it becomes none.
    pub device: Option<String>,
    /// What keeps the memory of a cache that may hold dirty data; None: nothing does, what was not
    /// flushed ends with the process.
    pub keep: Option<Keep>,
    /// Where backings that are served are noted for the next process; None: nowhere.
    pub records: Option<Records>,
}
